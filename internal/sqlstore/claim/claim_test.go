package claim

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// TestClaimsOfGatesHaveTheirLane: claims of workers that have met gates take the lane of finishes.
func TestClaimsOfGatesHaveTheirLane(t *testing.T) {
	s := NewClaimer(&txn.Core{}, nil, nil, nil)
	s.metGates.Put("met", true)
	s.metGates.Put("met no more", false)
	for worker, ends := range map[string]bool{"new": false, "met": true, "met no more": false} {
		if s.Op.Ends(driver.ClaimRequest{Worker: worker}, 2) != ends {
			t.Errorf("the claim of worker %q has the wrong lane", worker)
		}
	}
}

// dialectDB is a DB of which only the dialect matters.
type dialectDB struct {
	sqldb.DB
	dialect sqldb.Dialect
}

func (d dialectDB) Dialect() sqldb.Dialect { return d.dialect }

// TestConcurrentClaims: a claim from a backlog runs concurrently with other transactions, if
// possible, and with one more such claim; a claim that waits for jobs, or met gates, does not.
func TestConcurrentClaims(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		s := NewClaimer(&txn.Core{DB: dialectDB{dialect: sqldb.Dialect{Concurrent: concurrent}}}, nil, nil, nil)
		for worker, filled := range map[string]bool{"filled": true, "not": false, "gated": true} {
			s.filled.Put(worker, filled)
			s.metGates.Put(worker, worker == "gated")
		}
		concurrently := func(worker string) bool { return s.runsConcurrently(driver.ClaimRequest{Worker: worker}) }
		for _, worker := range []string{"not", "gated", "new"} {
			if concurrently(worker) {
				t.Errorf("concurrent %v: the claim of %s runs concurrently", concurrent, worker)
			}
		}
		for n := range int32(maxConcurrent) {
			if concurrently("filled") != concurrent || concurrent && s.concurrent.Load() != n+1 {
				t.Errorf("concurrent %v: claim %d from a backlog", concurrent, n+1)
			}
		}
		if concurrently("filled") || concurrent && s.concurrent.Load() != maxConcurrent {
			t.Errorf("concurrent %v: %d claims run concurrently", concurrent, s.concurrent.Load())
		}
		if s.concurrent.Add(-1); concurrently("filled") != concurrent {
			t.Errorf("concurrent %v: no claim runs concurrently after one has ended", concurrent)
		}
	}
}
