package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// A store remembers the rows that it has leased. What another process changes in them meanwhile must be seen all the same, before the end of the step
// and after it.
func TestAnotherProcessChangesALeasedJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	var stores [2]*sojourn.Client
	for i := range stores {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		stores[i] = c
	}
	mine, theirs := stores[0], stores[1]
	claim := func(key string) sojourn.Lease {
		t.Helper()
		if _, err := mine.Enqueue(t.Context(), sojourn.NewJob("k", []byte(key), sojourn.Key(key))); err != nil {
			t.Fatal(err)
		}
		jobs, err := mine.Store().Claim(t.Context(), sojourn.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0].Lease
	}
	finish := func(l sojourn.Lease, o sojourn.OutcomeType) sojourn.Finished {
		t.Helper()
		done, err := mine.Store().Finish(t.Context(), []sojourn.Outcome{{Lease: l, Type: o}})
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	// Their response is kept by the running job, so the step that ends in a wait finds it at once.
	l := claim("answered")
	if _, err := theirs.Respond(t.Context(), &sojourn.Response{Kind: "k", Key: "answered", Body: []byte("yes")}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeAwait); f.State != sojourn.Ready {
		t.Errorf("the response was overlooked: %+v", f)
	}
	// Their cancel ends the lease.
	l = claim("cancelled")
	if _, err := theirs.Store().Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{l.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeCompleted); f.Status != sojourn.FinishLost {
		t.Errorf("the cancel was overlooked: %+v", f)
	}
	// The same by this process.
	l = claim("cancelled here")
	if _, err := mine.Store().Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{l.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeCompleted); f.Status != sojourn.FinishLost {
		t.Errorf("the cancel here was overlooked: %+v", f)
	}
}
