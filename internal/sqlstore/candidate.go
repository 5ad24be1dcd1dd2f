package sqlstore

import (
	"cmp"
)

// candidate is a job that a claim may take.
type candidate struct{ id, r1, r2, weight int64 }

// less is the order of a queue: rules.Rank, then the id.
func less(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.r1, b.r1), cmp.Compare(a.r2, b.r2), cmp.Compare(a.id, b.id))
}
