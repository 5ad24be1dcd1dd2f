package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/event"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// SharedEvents runs stores over one database at the same time: they enqueue, claim and finish jobs,
// while one follower reads. It must get each transition, those of a job in order. late, if not nil,
// enqueues a job of kind "late" in a transaction that commits late, and returns its id.
func SharedEvents(t *testing.T, late func(t *testing.T) sojourn.ID, stores ...driver.Store) {
	const rounds, each = 20, 10
	ctx := t.Context()
	events := event.Of(sojourn.NewClient(stores[0]))
	if _, err := events.Follow(ctx, "all", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	ids := make([][]sojourn.ID, len(stores)+1)
	errs := make([]error, len(stores))
	var runs []func()
	for node, s := range stores {
		runs = append(runs, func() {
			for round := range rounds {
				var jobs []*sojourn.Job
				for range each {
					jobs = append(jobs, sojourn.NewJob("shared", nil))
				}
				done, err := sojourn.NewClient(s).EnqueueAll(ctx, jobs...)
				for _, e := range done {
					ids[node] = append(ids[node], e.ID)
				}
				if err == nil {
					err = endAll(ctx, s, fmt.Sprint("w", node), "none", round)
				}
				if err != nil {
					errs[node] = err
					return
				}
			}
		})
	}
	if late != nil {
		runs = append(runs, func() {
			for range rounds {
				ids[len(stores)] = append(ids[len(stores)], late(t))
			}
		})
	}
	var left atomic.Int64
	left.Store(int64(len(runs)))
	for i, run := range runs {
		runs[i] = func() { defer left.Add(-1); run() }
	}
	seen := map[sojourn.ID]string{}
	runs = append(runs, func() {
		read := event.Read{Follower: "all"}
		for {
			over := left.Load() == 0
			page, err := events.Read(ctx, read)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range page.Events {
				seen[e.Job] += fmt.Sprintf("%v>%v ", e.From, e.State)
			}
			if over && len(page.Events) == 0 && allSeen(seen, ids) {
				return
			}
			read.Ack = page.Next
			if ctx.Err() != nil {
				return
			}
		}
	})
	kit.SideBySide(runs...)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	checkEvents(t, stores[0], seen)
}

// allSeen reports whether all jobs have events. What is missing must come when all transactions
// have ended; if it never comes, the test ends by its time limit.
func allSeen(seen map[sojourn.ID]string, ids [][]sojourn.ID) bool {
	for _, node := range ids {
		for _, id := range node {
			if seen[id] == "" {
				return false
			}
		}
	}
	return true
}

// checkEvents compares the events of each job with its life.
func checkEvents(t *testing.T, s driver.Store, seen map[sojourn.ID]string) {
	for id, got := range seen {
		found, err := s.Find(context.Background(), sojourn.Filter{IDs: []sojourn.ID{id}})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		want := "none>ready "
		if found[0].State == sojourn.Completed {
			want += "ready>running running>completed "
		}
		if got != want {
			t.Errorf("the events of job %d are %s, want %s; it is %v", id, got, want, found[0].State)
		}
	}
}

// NothingWithoutFollower: a store without a follower stores no events, not before the first one and
// not after the last. stored counts the events in the database.
func NothingWithoutFollower(t *testing.T, s driver.Store, stored func() int64) {
	ctx, c := t.Context(), sojourn.NewClient(s)
	events, round := event.Of(c), 0
	live := func() {
		t.Helper()
		for range 10 {
			round++
			if _, err := c.Enqueue(ctx, sojourn.NewJob("shared", nil)); err != nil {
				t.Fatal(err)
			}
		}
		if err := endAll(ctx, s, "w", "none", round); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, some bool) {
		t.Helper()
		if n := stored(); (n > 0) != some {
			t.Errorf("%s there are %d events", when, n)
		}
	}
	live()
	want("without a follower", false)
	if _, err := events.Follow(ctx, "f", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	live()
	want("with a follower", true)
	if err := events.Unfollow(ctx, "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(ctx, 1000); err != nil {
		t.Fatal(err)
	}
	want("after the last follower and a sweep", false)
	live()
	want("without a follower again", false)
}
