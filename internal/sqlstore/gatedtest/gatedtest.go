// Package gatedtest makes a store ask all of its gates, for tests of a database: how it runs the
// statements of the gates, and which state it stores.
package gatedtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Queue has the jobs. Its throttler in Go, for the setting "go", must be [Throttler].
const Queue = "gated"

// Throttler refuses every second job.
var Throttler = throttle.ThrottlerFunc(func(_ context.Context, c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
	return throttle.Admission{Start: c.ID%2 == 0}, nil
})

// settings are the gates in turn.
func settings(now time.Time) []sojourn.QueueSettings {
	rate := &sojourn.Rate{Count: 100, Per: time.Second, Burst: 100}
	soon := now.Add(time.Hour)
	return []sojourn.QueueSettings{
		{Limit: 4},
		{Limit: 4, Order: sojourn.OrderTime, MaxDepth: 1_000_000},
		{Limit: 1_000, Rate: rate, Breaker: &sojourn.Breaker{Failures: 1}},
		{GroupLimit: 1, GroupRate: rate},
		{Limit: 100, Shares: map[string]float64{"group-1": .5, "group-2": .5}},
		{Limit: 10, Shares: map[string]float64{"group-1": .1, "none": .9}, Borrow: true},
		{Fair: true},
		{Throttle: "go"},
		{Windows: sojourn.Windows{{Start: soon.Format(time.TimeOnly), End: soon.Add(time.Hour).Format(time.TimeOnly)}}},
		{PausedKinds: []string{"other"}},
	}
}

// Day takes jobs through the queue with one gate after the other, and calls Why for them.
func Day(t testing.TB, c *sojourn.Client) {
	t.Helper()
	ctx, s := context.Background(), driver.Of(c)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	status, err := s.Status(ctx)
	must(err)
	r := driver.ClaimRequest{Worker: "gated", Queues: []string{Queue}, Kinds: []string{"k"}, Decidable: []string{"k"}, Max: 8, Capacity: 8}
	for i, settings := range settings(status.Now) {
		var jobs []*sojourn.Job
		for n := range 20 {
			jobs = append(jobs, sojourn.NewJob("k", nil, sojourn.Queue(Queue), sojourn.Group(fmt.Sprint("group-", n%5)), sojourn.Weight(int32(n%4)),
				sojourn.Key(fmt.Sprint(i, "-", n))))
		}
		_, err := c.EnqueueAll(ctx, jobs...)
		must(err)
		must(sojourn.NewClient(s).Queues().Set(ctx, Queue, settings))
		for round := range 3 {
			claimed, err := s.Claim(ctx, r)
			must(err)
			for k, j := range claimed {
				o := sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
				if round == 0 && k == 0 {
					o.Type = sojourn.OutcomeAwait // and is answered after this
				} else if k == 1 {
					o = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeHold, Delay: time.Second}
				}
				_, err := s.Finish(ctx, []sojourn.Outcome{o})
				must(err)
			}
			if round == 0 && len(claimed) > 0 {
				_, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: claimed[0].Job.Key})
				must(err)
			}
			must(c.Queues().Hold(ctx, Queue, 0, ""))
		}
		_, err = c.Jobs().Why(ctx, jobs[len(jobs)-1].ID)
		must(err)
		_, err = c.Queues().Why(ctx, Queue)
		must(err)
		_, err = c.Store().Find(ctx, sojourn.Filter{Queue: Queue, Next: true, Limit: 10})
		must(err)
	}
}

// Crowd makes a queue with groups groups of one ready job each, behind a group with as many jobs
// that is at its limit.
func Crowd(t testing.TB, c *sojourn.Client, groups int) {
	t.Helper()
	ctx := context.Background()
	if err := c.Queues().Set(ctx, Queue, sojourn.QueueSettings{GroupLimit: 1}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"giant", "group-%d"} {
		jobs := make([]*sojourn.Job, groups)
		for i := range jobs {
			group := name
			if strings.Contains(name, "%") {
				group = fmt.Sprintf(name, i)
			}
			jobs[i] = sojourn.NewJob("k", nil, sojourn.Queue(Queue), sojourn.Group(group))
		}
		for at := 0; at < groups; at += sojourn.MaxBatch {
			if _, err := c.EnqueueAll(ctx, jobs[at:min(at+sojourn.MaxBatch, groups)]...); err != nil {
				t.Fatal(err)
			}
		}
	}
	ClaimOne(t, c) // of the giant
}

// ClaimOne claims one job and answers with its group.
func ClaimOne(t testing.TB, c *sojourn.Client) string {
	t.Helper()
	r := driver.ClaimRequest{Worker: "crowd", Queues: []string{Queue}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Lease: time.Hour}
	jobs, err := driver.Of(c).Claim(context.Background(), r)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs claimed: %v", len(jobs), err)
	}
	return jobs[0].Job.Group
}

// Mislay breaks the ledger of the weight in flight and the numbers of jobs again and again while
// jobs start and end, and has them repaired: then the checks find nothing, and no weight is in
// flight. exec runs a statement behind the store's back.
func Mislay(t testing.TB, c *sojourn.Client, exec func(sql string)) {
	t.Helper()
	ctx, s := context.Background(), driver.Of(c)
	if err := sojourn.NewClient(s).Queues().Set(ctx, Queue, sojourn.QueueSettings{Limit: 50, GroupLimit: 20}); err != nil {
		t.Fatal(err)
	}
	const jobs = 400
	for i := range jobs {
		if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Queue(Queue), sojourn.Group(fmt.Sprint(i%5)), sojourn.Weight(int32(1+i%3)))); err != nil {
			t.Fatal(err)
		}
	}
	var working sync.WaitGroup
	var ended atomic.Int64
	inTime, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for w := range 2 {
		working.Go(func() {
			r := driver.ClaimRequest{Worker: fmt.Sprint("w", w), Queues: []string{Queue}, Kinds: []string{"k"}, Max: 5, Capacity: 50}
			for ended.Load() < jobs && inTime.Err() == nil {
				claimed, err := s.Claim(ctx, r)
				if err != nil {
					t.Error(err)
					return
				}
				for _, j := range claimed {
					if _, err := s.Finish(ctx, []sojourn.Outcome{{Lease: j.Lease, Type: sojourn.OutcomeCompleted}}); err != nil {
						t.Error(err)
					}
					ended.Add(1)
				}
			}
		})
	}
	var corrected int
	for _, plant := range []string{
		`insert into sj_landed (held, queue, lane) values (7, 'gated', ':1')`,
		`update sj_flight set held = held + 9`,
		`insert into sj_landed (held, queue, lane) values (-4, 'gated', ':nobody')`,
		`delete from sj_landed`,
		`insert into sj_count_change (queue, kind, blocked, scheduled, ready, resumed, running, awaiting, errored, completed, failed, cancelled, held)
			values ('gated', 'k', 0, 0, 5, 0, -2, 0, 0, 0, 0, 0, 0)`,
	} {
		exec(plant)
		found, err := s.(driver.Repairer).Repair(ctx)
		if err != nil {
			t.Error(err)
		}
		corrected += len(found)
	}
	working.Wait()
	if ended.Load() != jobs || corrected < 3 {
		t.Errorf("%d jobs have ended, %d corrections", ended.Load(), corrected)
	}
	if found, err := s.(driver.Repairer).Repair(ctx); err != nil || len(found) > 0 {
		t.Errorf("a repair that another one followed: %v %v", found, err)
	}
	if found, err := s.(driver.Checker).Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("the checks: %v %v", found, err)
	}
}

// PollAfter is when the job of Polls is polled.
const PollAfter = time.Minute

// Polls makes n jobs that await a response, one of them with a poll, and returns a claim that may
// take only its poll step.
func Polls(t *testing.T, c *sojourn.Client, n int) driver.ClaimRequest {
	t.Helper()
	jobs := make([]*sojourn.Job, n)
	for i := range jobs {
		jobs[i] = sojourn.NewJob("polled", nil, sojourn.Key(fmt.Sprint(i)))
	}
	if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	r := driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"default"}, Kinds: []string{"polled"}, Max: n, Capacity: int64(n)}
	claimed, err := driver.Of(c).Claim(t.Context(), r)
	if err != nil || len(claimed) != n {
		t.Fatal(len(claimed), err)
	}
	outcomes := make([]sojourn.Outcome, n)
	for i, j := range claimed {
		outcomes[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeAwait}
	}
	outcomes[n/2].Wait.Poll = sojourn.Backoff{First: PollAfter, Factor: 1, Limit: PollAfter}
	done, err := driver.Of(c).Finish(t.Context(), outcomes)
	if err != nil || done[n/2].State != sojourn.Awaiting {
		t.Fatal(done, err)
	}
	r.Pollable, r.Max, r.Capacity = r.Kinds, 10, 10
	return r
}
