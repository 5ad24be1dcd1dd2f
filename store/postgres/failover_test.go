//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// standbyWaits counts the connections that wait for the standby in a commit.
const standbyWaits = `select count(*) from pg_stat_activity where wait_event = 'SyncRep'`

// TestFailover stalls a synchronous standby and makes calls, whose commits therefore wait. It has
// the server give up these waits, and repeats the calls. Then the primary dies and the standby is
// promoted. All acknowledged writes and all jobs reported as final must be there. In the control
// arm no commit waits for the standby, so acknowledged jobs must be lost: otherwise the test could
// not see a loss.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, arm := range []struct {
		name, giveUp string
		local        bool
		resumes      bool
		limit        time.Duration // of a commit
	}{
		{name: "cancelled wait", giveUp: `select pg_cancel_backend(pid)`},
		{name: "terminated backend", giveUp: `select pg_terminate_backend(pid)`},
		{name: "standby comes back", giveUp: `select pg_cancel_backend(pid)`, resumes: true},
		{name: "commit limit", limit: time.Second},
		{name: "control", giveUp: `select pg_cancel_backend(pid)`, local: true},
	} {
		t.Run(arm.name, func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, arm.local, arm.limit)
			f.primary.Stall(t)
			if arm.local {
				f.repeat(20 * time.Second)
			} else {
				f.giveUp(arm.giveUp)
				f.repeat(4 * time.Second)
			}
			if arm.resumes {
				f.primary.Resume(t)
				f.repeat(time.Minute)
				for name, said := range f.said {
					if !said {
						t.Errorf("%s was not acknowledged after the standby had come back", name)
					}
				}
				f.primary.Stall(t)
			}
			f.primary.FailOver(t, f.standby)
			if lost := f.lost(); arm.local != (len(lost) > 0) {
				t.Errorf("%d acknowledgements; lost: %v", len(f.said), lost)
			}
		})
	}
}

// failover is a primary with a standby, a store, and one job for each call that ends or changes
// one.
type failover struct {
	t                *testing.T
	primary, standby *pgtest.Cluster
	store            driver.Store
	base             sojourn.ID
	lease            sojourn.Lease

	mu   sync.Mutex
	said map[string]bool // acknowledged or reported
}

// The jobs, counted from base.
const (
	atFinished  = iota // is running
	atAnswered         // has a key, and waits in its queue
	atCancelled        // is cancelled by the operator
	atEnqueued         // does not exist yet
	atKeyed            // the same, with a key
)

func newFailover(t *testing.T, local bool, limit time.Duration) *failover {
	f := &failover{t: t, said: map[string]bool{}}
	f.primary = pgtest.NewCluster(t)
	f.standby = f.primary.NewStandby(t)
	// An ordinary role: it must be able to make its commits wait.
	execute(t, f.primary.URL, `create role app login; create schema app authorization app`)
	address := with(t, f.primary.URL, "user", "app")
	if local {
		address = with(t, address, "synchronous_commit", "local")
	}
	shorter := func(o *options) {
		if limit > 0 {
			o.limits.commit = limit
		}
	}
	c, err := Open(address, AutoMigrate(), shorter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f.store = driver.Of(c)
	ctx := t.Context()
	if f.base, err = f.store.IDs(ctx, 100); err != nil {
		t.Fatal(err)
	}
	jobs := []sojourn.Job{f.job(atFinished), f.job(atAnswered), f.job(atCancelled)}
	jobs[atFinished].Queue, jobs[atAnswered].Key = "work", "answered"
	if _, err := f.store.Enqueue(ctx, jobs, false); err != nil {
		t.Fatal(err)
	}
	got, err := f.store.Claim(ctx, driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"work"}, Kinds: []string{"k"}, Max: 1, Capacity: 10, Lease: time.Hour})
	if err != nil || len(got) != 1 {
		t.Fatalf("claimed %d jobs: %v", len(got), err)
	}
	f.lease = got[0].Lease
	return f
}

func (f *failover) job(n int) sojourn.Job {
	j := sojourn.NewJob("k", []byte("1"), sojourn.Queue("rest"))
	j.ID = f.base + sojourn.ID(n)
	return *j
}

// calls are repeatable calls of a client. Each reports whether it was acknowledged.
func (f *failover) calls() map[string]func(ctx context.Context) error {
	keyed := f.job(atKeyed)
	keyed.Key = "keyed"
	enqueue := func(j sojourn.Job) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := f.store.Enqueue(ctx, []sojourn.Job{j}, false); return err }
	}
	return map[string]func(ctx context.Context) error{
		"enqueue by id":  enqueue(f.job(atEnqueued)),
		"enqueue by key": enqueue(keyed),
		"finish": func(ctx context.Context) error {
			_, err := f.store.Finish(ctx, []sojourn.Outcome{{Lease: f.lease, Type: sojourn.OutcomeCompleted}})
			return err
		},
		"respond": func(ctx context.Context) error {
			_, err := f.store.Respond(ctx, []sojourn.Response{{Source: "s", MessageID: "m", Kind: "k", Key: "answered", Body: []byte(`1`)}})
			return err
		},
		"cancel": func(ctx context.Context) error {
			e, err := f.store.Edit(ctx, sojourn.Filter{IDs: []sojourn.ID{f.base + atCancelled}}, sojourn.Edit{Action: sojourn.EditCancel})
			if err == nil && len(e.Items) > 0 {
				err = e.Items[0].Err
			}
			return err
		},
	}
}

// reports are calls that tell a final state, which are not among those that the server makes wait
// at first.
func (f *failover) reports() map[string]func(ctx context.Context) error {
	find := func(filter sojourn.Filter) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			jobs, err := f.store.Find(ctx, filter)
			if err == nil && (len(jobs) == 0 || !jobs[0].State.Final()) {
				err = errors.New("not final")
			}
			return err
		}
	}
	return map[string]func(ctx context.Context) error{
		"get": find(sojourn.Filter{IDs: []sojourn.ID{f.base + atFinished}}),
		"wait": find(sojourn.Filter{IDs: []sojourn.ID{f.base + atCancelled}, States: []sojourn.State{sojourn.Cancelled}, Wait: time.Second,
			Full: true}),
	}
}

// run makes calls side by side and notes which of them were acknowledged within the limit.
func (f *failover) run(limit time.Duration, calls ...map[string]func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	var group sync.WaitGroup
	for _, list := range calls {
		for name, call := range list {
			group.Go(func() {
				err := call(ctx)
				f.mu.Lock()
				defer f.mu.Unlock()
				f.said[name] = f.said[name] || err == nil
				f.t.Logf("%s: %v", name, err)
			})
		}
	}
	group.Wait()
}

// giveUp makes the calls once, one after the other, and has the server give up each of their waits;
// or waits for the store to do so.
func (f *failover) giveUp(how string) {
	for name, call := range f.calls() {
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
		go func() { done <- call(ctx) }()
		pgtest.Until(f.t, name+" waits for the standby", func() bool { return pgtest.Number(f.t, f.primary.URL, standbyWaits) > 0 })
		if how != "" {
			execute(f.t, f.primary.URL, how+` from pg_stat_activity where wait_event = 'SyncRep'`)
		}
		err := <-done
		cancel()
		f.t.Logf("%s, whose wait was given up: %v", name, err)
		if f.said[name] = err == nil; err != nil && sojourn.ErrorCode(err) != sojourn.CodeUnknown {
			f.t.Errorf("%s, whose wait was given up: %v, not %s", name, err, sojourn.CodeUnknown)
		}
	}
}

func (f *failover) repeat(limit time.Duration) {
	if f.said["finish"] || len(f.said) == 0 {
		f.run(limit, f.calls())
	}
	f.run(limit, f.calls(), f.reports())
}

// lost lists the acknowledged writes that are not on the standby.
func (f *failover) lost() (names []string) {
	c, err := Open(with(f.t, f.standby.URL, "user", "app"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	state := func(n int) sojourn.State {
		jobs, err := c.Store().Find(f.t.Context(), sojourn.Filter{IDs: []sojourn.ID{f.base + sojourn.ID(n)}})
		if err != nil {
			f.t.Fatal(err)
		}
		if len(jobs) == 0 {
			return 0
		}
		return jobs[0].State
	}
	inbox, err := c.Store().Inbox(f.t.Context(), sojourn.InboxFilter{Kind: "k", Key: "answered"})
	if err != nil {
		f.t.Fatal(err)
	}
	there := map[string]bool{
		"enqueue by id": state(atEnqueued) != 0, "enqueue by key": state(atKeyed) != 0, "finish": state(atFinished) == sojourn.Completed,
		"get": state(atFinished) == sojourn.Completed, "respond": len(inbox) == 1, "cancel": state(atCancelled) == sojourn.Cancelled,
		"wait": state(atCancelled) == sojourn.Cancelled,
	}
	for name, said := range f.said {
		if said && !there[name] {
			names = append(names, name)
		}
	}
	return names
}
