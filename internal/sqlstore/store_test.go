package sqlstore

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// TestLanes: large finishes use runners of their own, and so do claims of workers that have
// met gates.
func TestLanes(t *testing.T) {
	s := newStore(&core{cfg: Config{Apart: 2, Enders: 1}})
	s.claimer.gated.put("met", true)
	s.claimer.gated.put("met no more", false)
	finish, claim := s.finisher.op.ends, s.claimer.op.ends
	for _, c := range []struct {
		name string
		ends bool
		want bool
	}{
		{"a large finish", finish(finishAsk{}, 2), true}, {"a small finish", finish(finishAsk{}, 1), false},
		{"a new worker's claim", claim(driver.ClaimRequest{Worker: "new"}, 2), false}, {"a claim that met gates", claim(driver.ClaimRequest{Worker: "met"}, 2), true},
		{"a claim that met gates once", claim(driver.ClaimRequest{Worker: "met no more"}, 2), false},
	} {
		if c.ends != c.want {
			t.Errorf("%s has the wrong lane", c.name)
		}
	}
	if s.enqueuer.op.ends != nil || s.responder.op.ends != nil {
		t.Error("enqueues and responses have the lane of finishes")
	}
}

// dialectDB is a DB of which only the dialect matters.
type dialectDB struct {
	sqldb.DB
	dialect sqldb.Dialect
}

func (d dialectDB) Dialect() sqldb.Dialect { return d.dialect }

// TestClaimsGoApart: a claim from a backlog runs concurrently with other transactions, if possible,
// and with one more such claim; a claim that waits for jobs, or met gates, does not.
func TestClaimsGoApart(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		s := newStore(&core{db: dialectDB{dialect: sqldb.Dialect{Concurrent: concurrent}}}).claimer
		for worker, filled := range map[string]bool{"filled": true, "not": false, "gated": true} {
			s.filled.put(worker, filled)
			s.gated.put(worker, worker == "gated")
		}
		apart := func(worker string) bool { return s.goesApart(driver.ClaimRequest{Worker: worker}) }
		for _, worker := range []string{"not", "gated", "new"} {
			if apart(worker) {
				t.Errorf("concurrent %v: the claim of %s goes apart", concurrent, worker)
			}
		}
		for n := range int32(apartMost) {
			if apart("filled") != concurrent || concurrent && s.apart.Load() != n+1 {
				t.Errorf("concurrent %v: claim %d from a backlog", concurrent, n+1)
			}
		}
		if apart("filled") || concurrent && s.apart.Load() != apartMost {
			t.Errorf("concurrent %v: %d claims go apart", concurrent, s.apart.Load())
		}
		if s.apart.Add(-1); apart("filled") != concurrent {
			t.Errorf("concurrent %v: no claim goes apart after one has ended", concurrent)
		}
	}
}
