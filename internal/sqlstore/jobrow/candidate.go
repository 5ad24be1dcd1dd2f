package jobrow

import "cmp"

// Candidate is a job that a claim may take.
type Candidate struct{ ID, R1, R2, Weight int64 }

// Before is the order of a queue: rules.Rank, then the id.
func CompareCandidates(a, b Candidate) int {
	return cmp.Or(cmp.Compare(a.R1, b.R1), cmp.Compare(a.R2, b.R2), cmp.Compare(a.ID, b.ID))
}
