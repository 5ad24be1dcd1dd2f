package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// fake is the part of a Store that a worker uses, in memory, on the clock of the process (which
// synctest drives). What it does to a job is what rules.Decide says. Methods that a worker must
// not call are nil and panic.
type fake struct {
	driver.Store
	maxBytes int

	mu       sync.Mutex
	jobs     []*fakeJob
	answers  map[int64][]*fakeJob // of claims, by number
	wake     chan struct{}        // closed and replaced when something may be claimable
	requests []driver.ClaimRequest
	extends  int
	finishes [][]sojourn.Outcome
	sweeps   int

	// Faults: their results are the errors of the calls. They run without the lock.
	onClaim  func(ctx context.Context, r driver.ClaimRequest) (before, after error)
	onExtend func(ctx context.Context) error
	onSave   func([]driver.Saved) error
	onFinish func(ctx context.Context, os []sojourn.Outcome) (before, after error)
	onSweep  func() error
}

type fakeJob struct {
	sojourn.Job
	row     rules.Row
	lease   sojourn.Lease
	until   time.Time
	runAt   time.Time
	pollAt  time.Time
	history []sojourn.HistoryEntry
	lines   []sojourn.LogLine
}

func newFake() *fake {
	return &fake{maxBytes: sojourn.DefaultMaxBytes, answers: map[int64][]*fakeJob{}, wake: make(chan struct{})}
}

func (f *fake) add(jobs ...*sojourn.Job) { f.addLater(0, jobs...) }

func (f *fake) addLater(d time.Duration, jobs ...*sojourn.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range jobs {
		j.Resolve(sojourn.Policy{})
		j.ID = sojourn.ID(len(f.jobs) + 1)
		f.jobs = append(f.jobs, &fakeJob{Job: *j, runAt: time.Now().Add(d),
			row: rules.Row{ID: j.ID, State: sojourn.Ready, Weight: j.Weight, Policy: j.Policy}})
	}
	f.nudge()
}

func (f *fake) nudge() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// calls counts those of Extend and Finish.
func (f *fake) calls() (extends, finishes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.extends, len(f.finishes)
}

// job returns a copy of a job with its state.
func (f *fake) job(id sojourn.ID) fakeJob {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := *f.jobs[id-1]
	j.State, j.Attempt, j.Failures, j.Crashes = j.row.State, j.row.Attempt, j.row.Failures, j.row.Crashes
	return j
}

func (f *fake) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	var after error
	if f.onClaim != nil {
		var before error
		if before, after = f.onClaim(ctx, r); before != nil {
			return nil, before
		}
	}
	end := time.After(r.Wait)
	f.mu.Lock()
	f.requests = append(f.requests, r)
	for {
		got := f.pick(r)
		wake := f.wake
		var answer []driver.Claimed
		for _, j := range got {
			answer = append(answer, j.claimed(r))
		}
		f.mu.Unlock()
		if len(answer) > 0 || r.Wait == 0 || after != nil {
			if after != nil {
				return nil, after
			}
			return answer, nil
		}
		select {
		case <-wake:
		case <-end:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		f.mu.Lock()
	}
}

// pick takes jobs in the order of the queues, then of their ids.
func (f *fake) pick(r driver.ClaimRequest) (got []*fakeJob) {
	if known, ok := f.answers[r.Number]; ok {
		for _, j := range known {
			if j.row.State == sojourn.Running && j.lease.Worker == r.Worker {
				got = append(got, j)
			}
		}
		return got
	}
	if r.Close {
		f.answers[r.Number] = nil
		return nil
	}
	room := r.Capacity
	for _, q := range r.Queues {
		for _, j := range f.jobs {
			if j.Queue != q || !slices.Contains(r.Kinds, j.Kind) || len(got) == r.Max || j.runAt.After(time.Now()) {
				continue
			}
			if j.row.State == sojourn.Scheduled {
				j.apply(rules.Event{Type: rules.EventDue}, nil)
			}
			if j.row.State == sojourn.Awaiting {
				if room > 0 && slices.Contains(r.Pollable, j.Kind) && !j.pollAt.IsZero() && !j.pollAt.After(time.Now()) && j.apply(rules.Event{Type: rules.EventClaimed}, nil) {
					room--
					got = append(got, j.leased(r))
				}
				continue
			}
			weight, e := int64(j.Weight), rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, j.Kind)}
			if j.row.State == sojourn.Errored {
				weight = 0
			}
			if weight > room || j.row.State != sojourn.Ready && j.row.State != sojourn.Errored || !j.apply(e, nil) {
				continue
			}
			room -= weight
			got = append(got, j.leased(r))
		}
	}
	if len(got) > 0 && r.Number > 0 {
		f.answers[r.Number] = got
	}
	return got
}

func (j *fakeJob) leased(r driver.ClaimRequest) *fakeJob {
	j.Epoch++
	j.lease = sojourn.Lease{ID: j.ID, Epoch: j.Epoch, Worker: r.Worker}
	j.until = time.Now().Add(r.Lease)
	return j
}

func (j *fakeJob) claimed(r driver.ClaimRequest) driver.Claimed {
	c := driver.Claimed{Job: j.Job, Lease: j.lease, Purpose: j.row.Purpose, LeaseFor: time.Until(j.until), Timeout: j.Policy.Timeout,
		Deadline: j.Policy.Deadline}
	c.Job.State, c.Job.Attempt, c.Job.Failures, c.Job.Crashes = sojourn.Running, j.row.Attempt, j.row.Failures, j.row.Crashes
	c.Job.Purpose, c.Job.Worker, c.Job.Epoch, c.Job.Generation = j.row.Purpose, r.Worker, j.Epoch, 1
	c.Job.UpdatedAt = time.Now()
	if j.Policy.Stops() && c.Purpose == sojourn.PurposeStart {
		shuts, _ := rules.NextClosing(time.Now(), 24*time.Hour, j.Policy.Windows...)
		c.Window = time.Until(shuts)
	}
	if slices.Contains(r.Decidable, j.Kind) {
		for _, a := range j.history {
			if a.Error != "" {
				c.History = append(c.History, a)
			}
		}
	}
	return c
}

// apply does to the job what the rules say, and reports whether they allow it.
func (j *fakeJob) apply(e rules.Event, o *sojourn.Outcome) bool {
	t, err := rules.Decide(j.row, e)
	if err != nil {
		return false
	}
	j.row = t.To
	if t.RunAt == rules.RunAtDelay {
		j.runAt = time.Now().Add(t.Delay)
	}
	j.pollAt = time.Time{}
	if j.row.State == sojourn.Awaiting && j.row.Wait.Poll.First > 0 {
		j.pollAt = time.Now().Add(t.Poll)
	}
	if o != nil {
		j.Result = o.Result
	}
	if t.Outcome != "" {
		j.Reason, j.Error = t.Reason, t.Error
		j.history = append(j.history, sojourn.HistoryEntry{Seq: int32(len(j.history)) + 1, Generation: 1, Attempt: t.To.Attempt, Epoch: j.Epoch,
			Outcome: t.Outcome, State: t.To.State, Reason: t.Reason, Error: t.Error})
	}
	return true
}

func (f *fake) find(l sojourn.Lease) *fakeJob {
	if j := f.jobs[l.ID-1]; j.lease == l && j.row.State == sojourn.Running {
		return j
	}
	return nil
}

func (f *fake) Extend(ctx context.Context, leases []sojourn.Lease) (out []driver.Extended, err error) {
	if f.onExtend != nil {
		if err := f.onExtend(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.extends++
	for _, l := range leases {
		if j := f.find(l); j != nil {
			j.until = time.Now().Add(f.requests[0].Lease)
			out = append(out, driver.Extended{Until: j.until})
			continue
		}
		reason := driver.LostEnded
		if f.jobs[l.ID-1].row.State == sojourn.Cancelled {
			reason = driver.LostCancelled
		}
		out = append(out, driver.Extended{Reason: reason, Err: driver.LeaseLost(l, reason)})
	}
	return out, nil
}

func (f *fake) Save(_ context.Context, items []driver.Saved) ([]driver.Extended, error) {
	if f.onSave != nil {
		if err := f.onSave(items); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]driver.Extended, len(items))
	for i, s := range items {
		j := f.find(s.Lease)
		if j == nil {
			out[i] = driver.Extended{Reason: driver.LostEnded, Err: sojourn.ErrLeaseLost}
			continue
		}
		j.lines = append(j.lines, s.Log...)
		if s.Checkpoint != nil {
			j.Checkpoint = s.Checkpoint
		}
	}
	return out, nil
}

func (f *fake) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	var after error
	if f.onFinish != nil {
		var before error
		if before, after = f.onFinish(ctx, outcomes); before != nil {
			return nil, before
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finishes = append(f.finishes, slices.Clone(outcomes))
	out := make([]driver.Finished, len(outcomes))
	for i := range outcomes {
		out[i] = f.finishOne(&outcomes[i])
	}
	f.nudge()
	return out, after
}

func (f *fake) finishOne(o *sojourn.Outcome) driver.Finished {
	j := f.find(o.Lease)
	if j == nil {
		for _, a := range f.jobs[o.Lease.ID-1].history {
			if a.Epoch == o.Lease.Epoch && a.Outcome == string(o.Type) {
				return driver.Finished{Status: driver.FinishRepeated, State: a.State}
			}
		}
		return driver.Finished{Status: driver.FinishLost, Reason: driver.LostEnded, Err: sojourn.ErrLeaseLost}
	}
	if err := driver.ValidOutcome(o, f.maxBytes); err != nil {
		return driver.Finished{Status: driver.FinishRefused, Err: err}
	}
	if !j.apply(rules.Event{Type: rules.EventFinished, Outcome: o}, o) {
		return driver.Finished{Status: driver.FinishRefused, Err: sojourn.Invalid("outcome", "not for this purpose")}
	}
	j.lines = append(j.lines, o.Log...)
	return driver.Finished{Status: driver.FinishApplied, State: j.row.State}
}

func (f *fake) Sweep(context.Context, int) (driver.Swept, error) {
	f.mu.Lock()
	f.sweeps++
	f.mu.Unlock()
	if f.onSweep != nil {
		return driver.Swept{}, f.onSweep()
	}
	return driver.Swept{}, nil
}

// event does something to a job from outside, such as a cancel.
func (f *fake) event(id sojourn.ID, e rules.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[id-1].apply(e, nil)
	f.nudge()
}

var errDown = &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "down", Retryable: true}

// start runs a worker until stop is called, which returns Run's error and how long the drain took.
func start(t *testing.T, w *Worker) (stop func() (time.Duration, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() (time.Duration, error) {
		stopped = true
		began := time.Now()
		cancel()
		err := <-ended
		return time.Since(began), err
	}
	t.Cleanup(func() {
		if !stopped {
			t.Error("the test did not stop its worker")
		}
	})
	return stop
}

// mustStop stops a worker that has nothing left to do.
func mustStop(t *testing.T, stop func() (time.Duration, error)) {
	t.Helper()
	if took, err := stop(); err != nil || took > time.Second {
		t.Errorf("Run returned %v after %v, want nil at once", err, took)
	}
}

var errBoom = errors.New("boom")

type args struct{ N int }

var kindA = sojourn.Kind[args]{Name: "a"}
