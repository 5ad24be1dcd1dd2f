package jobrow

import "cmp"

// Candidate is a ready job that a claim may take: its id, its rank in the claim index, which is a
// pair of numbers, and its weight.
type Candidate struct{ ID, R1, R2, Weight int64 }

// CompareCandidates is the order of a queue, for slices.SortFunc: by rules.Rank, then by id.
func CompareCandidates(a, b Candidate) int {
	return cmp.Or(cmp.Compare(a.R1, b.R1), cmp.Compare(a.R2, b.R2), cmp.Compare(a.ID, b.ID))
}
