package postgres

import (
	"sync"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestOneAnswerForOneNumber: a claim that is repeated at another node, while the first call is
// still under way, gets the same jobs.
func TestOneAnswerForOneNumber(t *testing.T) {
	a, schema := openNamed(t)
	b := open(t, Schema(schema))
	t.Cleanup(func() { a.Close(); b.Close() })
	claim := func(c *sojourn.Client, number int64) (ids []sojourn.ID) {
		jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
		if err != nil {
			t.Error(err)
		}
		for _, j := range jobs {
			ids = append(ids, j.Job.ID)
		}
		return ids
	}
	for range 3 {
		if _, err := a.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
	}
	claim(a, 1)
	tx := elsewhere(t, testURL(t))
	if _, err := tx.Exec(t.Context(), "select 1 from "+schema+".sj_worker where worker = 'w' for update"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var got [2][]sojourn.ID
	for i, c := range []*sojourn.Client{a, b} {
		all.Go(func() { got[i] = claim(c, 2) })
	}
	until(t, "two claims that have looked", func() bool {
		var waiting int
		one(t, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like $1", "%"+schema+".sj_worker%", &waiting)
		return waiting == 2
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if len(got[0]) != 1 || len(got[1]) != 1 || got[0][0] != got[1][0] {
		t.Errorf("the same number gets %v and %v", got[0], got[1])
	}
}
