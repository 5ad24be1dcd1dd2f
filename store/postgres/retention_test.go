package postgres

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestRetentionOfARedrivenJob: a job that retention has found is redriven, and gets a dependency,
// before retention deletes it. It stays, and so does its dependency.
func TestRetentionOfARedrivenJob(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMicro())
	driven := Clock(func() time.Time { return time.UnixMicro(clock.Load()) })
	sweeper, schema := openNamed(t, driven)
	c := open(t, Schema(schema), driven)
	t.Cleanup(func() { c.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(options ...sojourn.Option) sojourn.ID {
		t.Helper()
		j := sojourn.NewJob("k", nil, options...)
		_, err := c.Enqueue(t.Context(), j)
		must(err)
		return j.ID
	}
	edit := func(id sojourn.ID, action sojourn.EditAction) {
		t.Helper()
		page, err := driver.Of(c).Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: action, By: "ops"})
		must(err)
		must(page.Items[0].Err)
	}
	must(c.Queues().Set(t.Context(), "default", sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Minute, FailedAge: time.Minute}}))
	first, redriven := enqueue(), enqueue(sojourn.Key("key"))
	edit(first, sojourn.EditCancel)
	edit(redriven, sojourn.EditCancel)
	clock.Add(2 * sojourn.IDLife.Microseconds())

	held := elsewhere(t, testURL(t)) // retention locks in the order of the ids, so it waits here
	_, err := held.Exec(t.Context(), "select id from "+schema+".sj_final where id = $1 for update", int64(first))
	must(err)
	var sweep sync.WaitGroup
	sweep.Go(func() {
		if _, err := driver.Of(sweeper).Sweep(t.Context(), 100); err != nil {
			t.Error(err)
		}
	})
	until(t, "retention that waits for the first job", func() bool {
		var waiting int
		one(t, "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'", schema, &waiting)
		return waiting > 0
	})
	edit(redriven, sojourn.EditRedrive)
	parent := enqueue()
	enqueue(sojourn.Key("key"), sojourn.OnKeyConflict(sojourn.Replace), sojourn.DependsOn(parent))
	must(held.Rollback(t.Context()))
	sweep.Wait()

	jobs, err := driver.Of(c).Find(t.Context(), sojourn.Filter{ParentsOf: redriven})
	must(err)
	if len(jobs) != 1 || jobs[0].ID != parent {
		t.Errorf("the redriven job depends on %v, want job %d", jobs, parent)
	}
	jobs, err = driver.Of(c).Find(t.Context(), sojourn.Filter{IDs: []sojourn.ID{first, redriven}})
	must(err)
	if len(jobs) != 1 || jobs[0].ID != redriven || jobs[0].State != sojourn.Blocked {
		t.Errorf("after retention there are %v, want only job %d, blocked", jobs, redriven)
	}
	violations, err := driver.Of(c).(driver.Checker).Check(t.Context())
	must(err)
	for _, v := range violations {
		t.Error(v)
	}
}
