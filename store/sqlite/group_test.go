package sqlite

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// together runs calls so that they share one transaction: the first waits in its own until the
// others are queued behind it. They begin in order; if one is late, the test is only weaker.
func together(f *faulty, first func(), calls ...func()) {
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	f.before = func() { began <- struct{}{}; <-gate }
	var group sync.WaitGroup
	group.Go(first)
	<-began
	for _, call := range calls {
		group.Go(call)
		time.Sleep(10 * time.Millisecond)
	}
	close(gate)
	group.Wait()
	f.before = nil
}

// TestGroupOfEnqueues: calls that share their statements see each other as if they ran one after
// the other, and a refused one leaves nothing.
func TestGroupOfEnqueues(t *testing.T) {
	f, c := openFaulty(t)
	ctx := context.Background()
	if _, err := c.Reserve(ctx, 20); err != nil {
		t.Fatal(err)
	}
	first, err := c.Store().IDs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	done, errs := make([]sojourn.Enqueued, 5), make([]error, 5)
	one := func(i int, options ...sojourn.Option) func() {
		return func() {
			done[i], errs[i] = c.Enqueue(ctx, sojourn.NewJob("k", []byte{byte('0' + i)}, options...))
		}
	}
	together(f, one(0),
		one(1, sojourn.Key("x")),
		func() { // all or nothing: the first of the two is good
			good, bad := *sojourn.NewJob("k", nil, sojourn.Key("z")), *sojourn.NewJob("k", nil)
			good.ID, bad.ID = first, first+1_000_000
			_, errs[2] = c.Store().Enqueue(ctx, []sojourn.Job{good, bad}, false)
		},
		one(3, sojourn.Key("x")),
		one(4, sojourn.Key("x"), sojourn.OnKeyConflict(sojourn.Replace)),
	)
	if sojourn.ErrorCode(errs[2]) != sojourn.CodeInvalid || errs[0] != nil || errs[1] != nil || errs[3] != nil || errs[4] != nil {
		t.Fatal(errs)
	}
	if done[1].ID != done[3].ID || done[1].ID != done[4].ID || done[1].Duplicate == done[3].Duplicate || !done[4].Replaced {
		t.Errorf("one key: %+v", done)
	}
	jobs, err := c.Store().Find(ctx, sojourn.Filter{Full: true})
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%d jobs stored, %v", len(jobs), err)
	}
	if j := jobs[slices.IndexFunc(jobs, func(j sojourn.Job) bool { return j.Key == "x" })]; string(j.Args) != "4" {
		t.Errorf("not replaced: %q", j.Args)
	}
}

// TestGroupOfFinishes: of two reports under one lease in one transaction one is applied and one
// repeated; a third one with other content is lost. A job that the group enqueues under the key of
// a job that it ends is another job.
func TestGroupOfFinishes(t *testing.T) {
	f, c := openFaulty(t)
	ctx := context.Background()
	for _, key := range []string{"a", "b", "c"} {
		if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key(key))); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 9, Capacity: 9})
	if err != nil || len(jobs) != 3 {
		t.Fatal(jobs, err)
	}
	finished := make([]driver.Finished, 5)
	finish := func(i, job int, as sojourn.OutcomeType) func() {
		return func() {
			out, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: jobs[job].Lease, Type: as}})
			if err != nil {
				t.Error(err)
				return
			}
			finished[i] = out[0]
		}
	}
	var again sojourn.Enqueued
	together(f, finish(0, 2, sojourn.OutcomeCompleted),
		finish(1, 0, sojourn.OutcomeCompleted), finish(2, 0, sojourn.OutcomeCompleted), finish(3, 0, sojourn.OutcomeSnooze), finish(4, 1, sojourn.OutcomeAwait),
		func() {
			var err error
			if again, err = c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("a"))); err != nil {
				t.Error(err)
			}
		})
	var got []driver.FinishStatus
	for _, f := range finished {
		got = append(got, f.Status)
	}
	if want := []driver.FinishStatus{"applied", "applied", "repeated", "lost", "applied"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again.ID == jobs[0].Job.ID || again.Duplicate {
		t.Errorf("the key was free by then: %+v", again)
	}
	for i, rows := range []int{1, 1} {
		if h, err := c.Jobs().History(ctx, jobs[i].Job.ID); err != nil || len(h) != rows {
			t.Errorf("job %d has the history %+v, %v", i, h, err)
		}
	}
}

// TestGroupOfResponses: calls that share a transaction see the effects of those before them, and
// also a job that is stored and one that begins to wait in the same transaction. Of two responses
// with one message id the second is a duplicate, or a conflict if its content differs. A refused
// call leaves nothing.
func TestGroupOfResponses(t *testing.T) {
	f, c := openFaulty(t)
	ctx := context.Background()
	if _, err := c.Reserve(ctx, 20); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "last"} {
		if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key(key))); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 9, Capacity: 9})
	if err != nil || len(jobs) != 3 {
		t.Fatal(jobs, err)
	}
	finish := func(job int, as sojourn.OutcomeType) func() {
		return func() {
			if _, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: jobs[job].Lease, Type: as}}); err != nil {
				t.Error(err)
			}
		}
	}
	finish(0, sojourn.OutcomeAwait)()
	got := make([]sojourn.Responded, 6)
	respond := func(i int, key, message string) func() {
		return func() {
			r, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: key, MessageID: message})
			if got[i] = r; err != nil {
				t.Error(err)
			}
		}
	}
	together(f, finish(2, sojourn.OutcomeCompleted), finish(1, sojourn.OutcomeAwait),
		respond(0, "a", "m1"), respond(1, "a", "m2"), respond(2, "a", "m1"), respond(3, "b", "m3"),
		func() {
			other := []sojourn.Response{{Kind: "k", Key: "nobody", MessageID: "m8"}, {Kind: "k", Key: "b", MessageID: "m1"}}
			if _, err := c.Store().Respond(ctx, other); sojourn.ErrorCode(err) != sojourn.CodeConflict {
				t.Error(err)
			}
		},
		func() {
			bad := []sojourn.Response{{Kind: "k", Key: "a", MessageID: "m4"}, {Job: 1 << 40, MessageID: "m5"}}
			if _, err := c.Store().Respond(ctx, bad); sojourn.ErrorCode(err) != sojourn.CodeNotFound {
				t.Error(err)
			}
		},
		func() {
			if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("new"))); err != nil {
				t.Error(err)
			}
		},
		respond(4, "new", "m6"), respond(5, "last", "m7"))
	var outcomes []sojourn.ResponseOutcome
	for _, r := range got {
		outcomes = append(outcomes, r.Outcome)
	}
	if want := []sojourn.ResponseOutcome{"applied", "early", "duplicate", "applied", "early", "late"}; !slices.Equal(outcomes, want) {
		t.Errorf("got %v, want %v", outcomes, want)
	}
	if got[2].Seq != got[0].Seq || got[4].Job == 0 || got[5].Job != jobs[2].Job.ID {
		t.Errorf("%+v", got)
	}
	if inbox, err := c.Store().Inbox(ctx, sojourn.InboxFilter{}); err != nil || len(inbox) != 5 {
		t.Errorf("%d responses: %v", len(inbox), err)
	}
}

// TestEnqueuesOfOneKeyShareACommit: in one transaction a call sees the key that the call before it
// has taken. If it did not, the transaction would fail and each call would be run alone, with the
// same results and a commit for each. Calls that come late do not share it, hence the rounds.
func TestEnqueuesOfOneKeyShareACommit(t *testing.T) {
	f, c := openFaulty(t)
	ctx := context.Background()
	commits := func() int64 {
		s, err := c.Store().Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Commits
	}
	for round := range 20 {
		ids, err := c.Reserve(ctx, 7)
		if err != nil {
			t.Fatal(err)
		}
		two := func(i int) func() { // a job under the key of the round, and one without a key
			return func() {
				keyed, other := sojourn.NewJob("k", nil, sojourn.Key(string(rune('a'+round)))), sojourn.NewJob("k", nil)
				keyed.ID, other.ID = ids[2*i], ids[2*i+1]
				if _, err := c.EnqueueAll(ctx, keyed, other); err != nil {
					t.Error(err)
				}
			}
		}
		before := commits()
		together(f, func() {
			first := sojourn.NewJob("k", nil)
			first.ID = ids[6]
			if _, err := c.Enqueue(ctx, first); err != nil {
				t.Error(err)
			}
		}, two(0), two(1), two(2))
		if commits()-before == 2 {
			return
		}
	}
	t.Error("the calls never shared a commit")
}
