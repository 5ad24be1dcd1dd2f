package sqlstore

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
	writes := batchOp[[]sojourn.Lease, int]("writes", groupcommit.Finish, nil)
	writes.leases = func(leases []sojourn.Lease, each func(sojourn.Lease, bool)) {
		for _, l := range leases {
			each(l, false)
		}
	}
	stores := batchOp[int, int]("stores", groupcommit.Enqueue, nil)
	group := []call{
		&request[[]sojourn.Lease, int]{op: writes, q: []sojourn.Lease{lease(1), lease(2)}}, &request[int, int]{op: stores},
		&request[[]sojourn.Lease, int]{op: writes, q: []sojourn.Lease{lease(3)}},
	}
	if ids := leasesOf(group); !slices.Equal(ids, []int64{1, 2, 3}) {
		t.Errorf("found the leases of %v, want 1, 2 and 3", ids)
	}
}
