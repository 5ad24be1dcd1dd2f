package finish

import (
	"maps"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// TestLargeFinishesHaveTheirLane: a finish of few steps does not justify a sync of its own.
func TestLargeFinishesHaveTheirLane(t *testing.T) {
	s := NewFinisher(&txn.Core{Cfg: txn.Config{Apart: 2}}, nil, nil, nil)
	for rows, ends := range map[int]bool{1: false, 2: true, 3: true} {
		if s.op.Ends(request{}, rows) != ends {
			t.Errorf("a finish of %d steps has the wrong lane", rows)
		}
	}
}

// TestLeasesOfRequests: the ops say under which leases a request writes, and which of them only end
// their jobs.
func TestLeasesOfRequests(t *testing.T) {
	lease := func(id sojourn.ID) sojourn.Lease { return sojourn.Lease{ID: id, Epoch: 1, Worker: "w"} }
	s := NewFinisher(&txn.Core{}, nil, nil, nil)
	found := map[sojourn.ID]bool{}
	note := func(l sojourn.Lease, final bool) { found[l.ID] = final }
	s.op.Leases(newRequest([]sojourn.Outcome{{Lease: lease(1), Type: sojourn.OutcomeCompleted}, {Lease: lease(2), Type: sojourn.OutcomeAwait},
		{Lease: lease(3), Type: sojourn.OutcomeCompleted, Next: make([]sojourn.Job, 1)}}, nil), note)
	s.extendOp.Leases([]sojourn.Lease{lease(4)}, note)
	s.saveOp.Leases([]driver.Saved{{Lease: lease(5)}}, note)
	if want := map[sojourn.ID]bool{1: true, 2: false, 3: false, 4: false, 5: false}; !maps.Equal(found, want) {
		t.Errorf("found the leases of %v, want %v", found, want)
	}
}
