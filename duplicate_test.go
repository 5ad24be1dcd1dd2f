package sojourn

import (
	"context"
	"testing"
)

// TestOwnJobIsNoDuplicate: a store that has lost the first answer sends the call again, and finds
// the jobs stored. Ids that the call itself has drawn cannot have been stored by anybody else.
func TestOwnJobIsNoDuplicate(t *testing.T) {
	s := &fakeStore{onEnqueue: func(_ int, jobs []Job, _ bool) ([]Enqueued, error) {
		out := stored(jobs)
		for i := range out {
			out[i].Duplicate = true
		}
		return out, nil
	}}
	c := NewClient(s)
	e, err := c.Enqueue(context.Background(), NewJob("k", nil))
	if err != nil || e.Duplicate {
		t.Errorf("a first call was answered with %+v, %v", e, err)
	}
	twice, given := NewJob("k", nil), NewJob("k", nil)
	given.ID = 77
	es, err := c.EnqueueAll(context.Background(), []*Job{twice, twice, given}...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true} {
		if es[i].Duplicate != want {
			t.Errorf("job %d of the batch: %+v, want Duplicate %v", i, es[i], want)
		}
	}
	if e, err = c.Enqueue(context.Background(), twice); err != nil || !e.Duplicate {
		t.Errorf("a repeated call was answered with %+v, %v", e, err)
	}
}
