package worker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// nilError panics when it is asked for its text as a nil pointer: the most common mistake with
// error values in Go.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// hostileError panics in one of its methods.
type hostileError struct{ text, unwrap func() }

func (e hostileError) Error() string { e.text(); return "hostile" }
func (e hostileError) Unwrap() error { e.unwrap(); return nil }

// An error that cannot be read is a failed attempt, as a panic is; it never ends the process.
// inv:J3.
func TestErrorsThatPanic(t *testing.T) {
	fine, boom, exit := func() {}, func() { panic("boom") }, runtime.Goexit
	for _, c := range []struct {
		name         string
		err          error
		reason, text string
	}{
		{"typed nil", (*nilError)(nil), sojourn.ReasonPanic, "nil *worker.nilError"},
		{"wrapped typed nil", errors.Join((*nilError)(nil)), sojourn.ReasonPanic, "nil pointer"},
		{"Error panics", hostileError{boom, fine}, sojourn.ReasonPanic, "boom"},
		{"Unwrap panics", hostileError{fine, boom}, sojourn.ReasonPanic, "boom"},
		{"Error ends the goroutine", hostileError{exit, fine}, "goexit", "Goexit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.add(kindA.New(args{}))
			j := once(t, f, Options{}, kindA, func(context.Context, *sojourn.Job, args) error { return c.err })
			if j.State != sojourn.Scheduled || j.Failures != 1 || j.Reason != c.reason || !strings.Contains(j.Error, c.text) {
				t.Errorf("job is %s, failures %d, reason %q, error %q", j.State, j.Failures, j.Reason, j.Error)
			}
		})
	}
}

// The same from a poll function: the job goes on waiting.
func TestPollErrorsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{})
		polls := 0
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { return sojourn.Await(time.Hour) },
			Poll(kindA, sojourn.Backoff{}, func(context.Context, *sojourn.Job, args) (*Answer, error) {
				polls++
				return nil, (*nilError)(nil)
			}))
		stop := start(t, w)
		time.Sleep(DefaultPollFirst * 3 / 2)
		mustStop(t, stop)
		if j := f.job(1); polls != 1 || j.State != sojourn.Awaiting || j.Reason != sojourn.ReasonPanic {
			t.Errorf("%d polls; job is %s with reason %q, want awaiting after a failed poll", polls, j.State, j.Reason)
		}
	})
}

// A step whose lease has ended before its handler could start, because the process was stopped
// meanwhile, is handed back: another worker may have the job by now. inv:F5.
func TestHandlersDoNotStartAfterTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		paused := &pausedStore{fake: f, pause: 31 * time.Second}
		w := New(sojourn.NewClient(paused), Options{Lease: 30 * time.Second})
		started := 0
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { started++; return nil })
		if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
			t.Fatalf("RunOnce: %v, %v", ok, err)
		}
		if j := f.job(1); started != 0 || j.State != sojourn.Ready || j.Failures+j.Crashes != 0 {
			t.Errorf("the handler started %d times; job is %s, failures %d, crashes %d; want it handed back", started, j.State, j.Failures, j.Crashes)
		}
		paused.pause = 0
		if ok, err := w.RunOnce(t.Context()); !ok || err != nil || started != 1 || f.job(1).State != sojourn.Completed {
			t.Errorf("after it: %v, %v; started %d times, job is %s", ok, err, started, f.job(1).State)
		}
	})
}

// pausedStore answers a claim late, as it looks to a process that is stopped while the answer is on
// its way.
type pausedStore struct {
	*fake
	pause time.Duration
}

func (p *pausedStore) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	got, err := p.fake.Claim(ctx, r)
	time.Sleep(p.pause)
	return got, err
}
