package sqlstore

import (
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestLeasesOf: the first message of a transaction locks the rows of all leases of its group, in
// ascending order with those of its responses. A request whose leases it does not find is locked
// later, out of order, and costs a message.
func TestLeasesOf(t *testing.T) {
	lease := func(id sojourn.ID) sojourn.Lease { return sojourn.Lease{ID: id, Epoch: 1, Worker: "w"} }
	e := newEnqueuer(&core{})
	f := newFinisher(&core{}, &gates{}, e)
	group := []call{
		&request[finishAsk, finishAnswer]{op: f.op, q: newFinishAsk([]sojourn.Outcome{{Lease: lease(1)}, {Lease: lease(2)}}, nil)},
		&request[[]sojourn.Lease, []driver.Extended]{op: f.extendOp, q: []sojourn.Lease{lease(3)}},
		&request[[]driver.Saved, []driver.Extended]{op: f.saveOp, q: []driver.Saved{{Lease: lease(4)}}},
		&request[enqueueAsk, enqueueAnswer]{op: e.op, q: enqueueAsk{jobs: []sojourn.Job{{ID: 5}}}},
	}
	if ids := leasesOf(group); !slices.Equal(ids, []int64{1, 2, 3, 4}) {
		t.Errorf("found the leases of %v, want 1, 2, 3 and 4", ids)
	}
}
