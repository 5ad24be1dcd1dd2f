package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// What waits while a report is under way goes into the next one together: spec:B1, spec:B5.
func TestFinishIsBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 100 {
			f.add(kindA.New(args{}))
		}
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) {
			time.Sleep(time.Second)
			return nil, nil
		}
		w := New(sojourn.NewClient(f), Options{Concurrency: 100})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(10 * time.Second)
		mustStop(t, stop)
		n := 0
		for _, b := range f.finishes {
			n += len(b)
		}
		if n != 100 || len(f.finishes) > 3 {
			t.Errorf("%d reports in %d calls", n, len(f.finishes))
		}
	})
}

// inv:C5, inv:F8, tr:F12: a report is repeated until it is answered; meanwhile the lease is
// extended, and an Extend that finds it ended by the report itself says nothing.
func TestFinishIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}), kindA.New(args{}))
		n := 0
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) {
			switch n++; {
			case n < 30:
				return errDown, nil
			case n < 40:
				return nil, &sojourn.Error{Code: sojourn.CodeUnknown, Message: "the line broke"}
			}
			return nil, nil
		}
		s := &seen{}
		w := New(sojourn.NewClient(f), Options{Observer: s})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(100 * time.Second)
		if j := f.job(1); j.State != sojourn.Running || time.Until(j.until) < 15*time.Second {
			t.Errorf("job is %s with %v of its lease left", j.State, time.Until(j.until))
		}
		time.Sleep(200 * time.Second)
		mustStop(t, stop)
		if s.count(EventFinished) != 2 || s.count(EventLost) != 0 || f.job(1).State != sojourn.Completed {
			t.Errorf("finished %d, lost %d, job is %s", s.count(EventFinished), s.count(EventLost), f.job(1).State)
		}
	})
}

// A report that comes too late is lost, and changes nothing: tr:L5.
func TestFinishLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		s := &seen{}
		w := New(sojourn.NewClient(f), Options{Observer: s})
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error {
			f.event(1, rules.Event{Type: rules.EventCancel})
			return nil
		})
		stop := start(t, w)
		time.Sleep(time.Second)
		mustStop(t, stop)
		if f.job(1).State != sojourn.Cancelled || s.count(EventLost) != 1 || s.count(EventFinished) != 0 {
			t.Errorf("job is %s; events %+v", f.job(1).State, s.events)
		}
	})
}

// Large results are spread over several calls.
func TestFinishIsBoundedInBytes(t *testing.T) {
	f := newFake()
	f.maxBytes = sojourn.MaxMaxBytes
	p := &reporter{r: &run{w: New(sojourn.NewClient(f), Options{})}}
	for range 10 {
		p.outbox = append(p.outbox, &step{out: sojourn.Outcome{Result: make([]byte, 1<<20)}})
	}
	if n := len(p.batch()); n != 4 {
		t.Errorf("%d outcomes of 1 MiB in one call, want 4", n)
	}
	p.outbox[0].out.Result = make([]byte, 10<<20)
	if n := len(p.batch()); n != 1 {
		t.Errorf("%d outcomes in one call, want the large one alone", n)
	}
}

func texts(lines []sojourn.LogLine) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return strings.Join(all, ",")
}

// Lines of Job.Log are stored after a second at most, or with the outcome, in order and once; a
// handler never waits for them.
func TestJobLogIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		var saves atomic.Int32
		var down atomic.Bool
		f.onSave = func([]driver.Saved) error {
			if saves.Add(1); down.Load() {
				return errDown
			}
			return nil
		}
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
			began := time.Now()
			log := j.Log()
			log.Info("one")
			log.Info("two")
			time.Sleep(1100 * time.Millisecond)
			down.Store(true)
			log.Warn("three")
			time.Sleep(3 * time.Second)
			log.Info("four")
			if time.Since(began) != 4100*time.Millisecond {
				t.Errorf("the log held the handler up: %v", time.Since(began))
			}
			return nil
		})
		stop := start(t, w)
		time.Sleep(1050 * time.Millisecond)
		if got := texts(f.job(1).lines); got != "one,two" || saves.Load() != 1 {
			t.Errorf("after 1 s: %q in %d saves", got, saves.Load())
		}
		time.Sleep(5 * time.Second)
		mustStop(t, stop)
		j := f.job(1)
		if got := texts(j.lines); got != "one,two,three,four" || j.lines[2].Level != "WARN" || j.lines[2].Attempt != 1 {
			t.Errorf("in the end: %q, %+v", got, j.lines)
		}
		if n := saves.Load(); n < 3 || n > 5 {
			t.Errorf("%d saves in 4 s", n)
		}
	})
}

func TestSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			every    time.Duration
			min, max int
		}{{-1, 0, 0}, {time.Second, 60, 76}} {
			f := newFake()
			w := New(sojourn.NewClient(f), Options{SweepEvery: c.every})
			Handle(w, kindA, nothing)
			stop := start(t, w)
			time.Sleep(time.Minute)
			mustStop(t, stop)
			if f.sweeps < c.min || f.sweeps > c.max {
				t.Errorf("every %v: %d sweeps in a minute", c.every, f.sweeps)
			}
		}
		phases := map[time.Duration]bool{}
		for range 20 {
			phases[New(sojourn.NewClient(newFake()), Options{}).spread(5*time.Second)] = true
		}
		if len(phases) < 3 {
			t.Errorf("20 workers march in step: %s", fmt.Sprint(phases))
		}
	})
}
