package txn

import (
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// TestLeasesOf: the first message of a transaction locks the rows of all leases of its group, in
// ascending order with those of its responses. A request whose leases it does not find is locked
// later, out of order, and costs a message.
func TestLeasesOf(t *testing.T) {
	lease := func(id sojourn.ID) sojourn.Lease { return sojourn.Lease{ID: id, Epoch: 1, Worker: "w"} }
	writes := BatchOp[[]sojourn.Lease, int]("writes", groupcommit.Finish, nil)
	writes.Leases = func(leases []sojourn.Lease, each func(sojourn.Lease, bool)) {
		for _, l := range leases {
			each(l, false)
		}
	}
	stores := BatchOp[int, int]("stores", groupcommit.Enqueue, nil)
	group := []Call{
		&Request[[]sojourn.Lease, int]{op: writes, Params: []sojourn.Lease{lease(1), lease(2)}}, &Request[int, int]{op: stores},
		&Request[[]sojourn.Lease, int]{op: writes, Params: []sojourn.Lease{lease(3)}},
	}
	if ids := leasesOf(group); !slices.Equal(ids, []int64{1, 2, 3}) {
		t.Errorf("found the leases of %v, want 1, 2 and 3", ids)
	}
}
