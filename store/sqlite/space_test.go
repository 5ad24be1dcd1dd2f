package sqlite

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestLowSpace: new jobs are refused while the disk is nearly full, and stored jobs run to their
// end.
func TestLowSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Key("a")))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c, err = Open(path, LowSpace(math.MaxInt64)); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); sojourn.ErrorCode(err) != sojourn.CodeLowSpace {
		t.Errorf("a new job: %v, want %s", err, sojourn.CodeLowSpace)
	}
	if r, err := c.Respond(t.Context(), &sojourn.Response{Kind: "k", Key: "a"}); err != nil || r.Job != e.ID {
		t.Errorf("an answer: %+v %v", r, err)
	}
	jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 2, Capacity: 2})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	done, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}})
	if err != nil || done[0].State != sojourn.Completed {
		t.Errorf("an outcome: %+v %v", done, err)
	}
}
