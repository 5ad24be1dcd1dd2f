package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a System that keeps numbers. Each enqueue takes a millisecond; each job is worked on
// for another one, one after the other.
type memory struct {
	mu      sync.Mutex
	calls   []int // the jobs of each call
	seen    map[int]int
	lines   chan int
	refuse  error
	closed  bool
	neverOK bool
}

func newMemory() *memory { return &memory{seen: map[int]int{}, lines: make(chan int, 10_000)} }

func (m *memory) Enqueue(ctx context.Context, first, n int) error {
	time.Sleep(time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return m.refuse
	}
	m.calls = append(m.calls, n)
	for i := range n {
		m.seen[first+i]++
		m.lines <- first + i
	}
	return nil
}

func (m *memory) Work(ctx context.Context, done func(int)) error {
	if m.neverOK {
		return errors.New("no work today")
	}
	for {
		select {
		case <-m.lines:
			time.Sleep(time.Millisecond)
			done(1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memory) Close() error { m.closed = true; return nil }

func TestEnqueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newMemory()
		got, err := Enqueues(t.Context(), sys, Load{Jobs: 100, WarmUp: 7, Producers: 10, Batch: 1, Within: time.Minute})
		if err != nil || got.Jobs != 100 || got.Took != 10*time.Millisecond || got.Ack.Len() != 100 || got.Cut {
			t.Fatalf("%+v %v", got, err)
		}
		if p50, p99 := got.Ack.Quantile(0.5), got.Ack.Quantile(0.99); p50 != time.Millisecond || p99 != p50 {
			t.Errorf("p50 %v, p99 %v", p50, p99)
		}
		for n := range 107 {
			if sys.seen[n] != 1 {
				t.Errorf("job %d was enqueued %d times", n, sys.seen[n])
			}
		}
	})
}

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newMemory()
		got, err := Life(t.Context(), sys, Load{Jobs: 100, WarmUp: 10, Producers: 10, Batch: 3, Within: time.Minute})
		// The worker is the bottleneck: the first job reaches it after 1 ms.
		if err != nil || got.Jobs != 100 || got.Took != 101*time.Millisecond || got.Cut {
			t.Fatalf("%+v %v", got, err)
		}
		if len(sys.seen) != 110 {
			t.Errorf("%d jobs", len(sys.seen))
		}
	})
}

func TestAMeasurementIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Half a millisecond, so that the end and a job do not fall on one moment.
		const within = time.Second + 500*time.Microsecond
		got, err := Life(t.Context(), newMemory(), Load{Jobs: 5000, Producers: 50, Batch: 1, Within: within})
		if err != nil || !got.Cut || got.Jobs != 999 || got.Took != within {
			t.Error(got.Jobs, got.Took, got.Cut, err)
		}
		got, err = Enqueues(t.Context(), newMemory(), Load{Jobs: 5000, Producers: 1, Batch: 1, Within: within})
		if err != nil || !got.Cut || got.Jobs != 1001 {
			t.Error(got.Jobs, got.Took, got.Cut, err)
		}
	})
}

func TestFailuresEndAMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newMemory()
		sys.refuse = errors.New("full")
		if _, err := Life(t.Context(), sys, Load{Jobs: 100, WarmUp: 1, Producers: 10, Batch: 1, Within: time.Minute}); !errors.Is(err, sys.refuse) {
			t.Error(err)
		}
		lame := newMemory()
		lame.neverOK = true
		if _, err := Life(t.Context(), lame, Load{Jobs: 100, WarmUp: 1, Producers: 10, Batch: 1, Within: time.Minute}); err == nil || err.Error() != "no work today" {
			t.Error(err)
		}
	})
}

func TestCompare(t *testing.T) {
	var opened []*memory
	open := func(context.Context) (System, error) {
		opened = append(opened, newMemory())
		return opened[len(opened)-1], nil
	}
	single := Load{Jobs: 20, WarmUp: 4, Producers: 2, Batch: 1, Within: time.Minute}
	bulk := single
	bulk.Batch = 10
	entries := []Entry{
		{Name: "ours", Durability: "none", Run: Measure(open, open, single, bulk)},
		{Name: "theirs", Durability: "none either", Run: Measure(open, nil, single, Load{})},
	}
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		found, err := Compare(t.Context(), entries, 3, func(line string) { lines = append(lines, line) })
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := found["ours"], found["theirs"]
		if ours.Runs != 3 || ours.LifePerS <= 0 || ours.BulkPerS <= ours.EnqueuePerS || ours.Ratio != nil || theirs.Ratio.Life != 1 || theirs.BulkPerS != 0 {
			t.Errorf("%+v %+v", ours, theirs)
		}
		var table, markdown, object bytes.Buffer
		if err := errors.Join(WriteTable(&table, entries, found), WriteMarkdown(&markdown, entries, found), WriteJSON(&object, entries, found)); err != nil {
			t.Fatal(err)
		}
		if got := markdown.String(); strings.Count(got, "\n") != 4 || !strings.HasPrefix(got, "| system | life/s | ours |") {
			t.Error(got)
		}
		if got := table.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "none either") {
			t.Error(got)
		}
		var back map[string]map[string]any
		if err := json.Unmarshal(object.Bytes(), &back); err != nil || back["ours"]["life_per_s"] == nil || back["theirs"]["ours_to_this"] == nil {
			t.Errorf("%v %s", err, &object)
		}
	})
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "run 1 of 3: theirs") {
		t.Errorf("not in turn: %q", lines)
	}
	// 5 measurements per run of ours, 2 of theirs. Each has a system of its own, and the bulk ones
	// do not affect later measurements.
	for i, m := range opened {
		bulk := i%7 == 3 || i%7 == 4
		if !m.closed || len(m.seen) != 24 || (len(m.calls) == 24) == bulk {
			t.Errorf("system %d: closed %v, %d jobs in %d calls", i, m.closed, len(m.seen), len(m.calls))
		}
	}
}

// TestRatios: a run in which the machine was slow slows both, so each run has its own ratio.
func TestRatios(t *testing.T) {
	ours := []Figures{{LifePerS: 100, BareLifePerS: 200}, {LifePerS: 1000, BareLifePerS: 2000}, {LifePerS: 10}}
	theirs := []Figures{{LifePerS: 50, BareLifePerS: 1}, {LifePerS: 500}, {LifePerS: 1}}
	if got := *ratios(ours, theirs); got != (Ratio{Life: 2, BareLife: 4}) {
		t.Errorf("%+v", got)
	}
}

func TestQuantileAndMedian(t *testing.T) {
	var s Sample
	if s.Quantile(0.5) != 0 {
		t.Error("of nothing")
	}
	for i := 100; i > 0; i-- {
		s.Add(time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := s.Quantile(q); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	for want, values := range map[float64][]float64{0: nil, 1: {1}, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := Median(values); got != want {
			t.Errorf("Median(%v) = %v", values, got)
		}
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := func(int) error { time.Sleep(time.Second); return nil }
		got, err := Loop(t.Context(), Load{Jobs: 100, WarmUp: 10, Within: time.Minute}, 10, step, step)
		if err != nil || got.Jobs != 100 || got.Took != 5*time.Second || got.Cut {
			t.Errorf("%+v %v", got, err)
		}
		got, err = Loop(t.Context(), Load{Jobs: 1000, Within: 2500 * time.Millisecond}, 10, step)
		if err != nil || got.Jobs != 30 || !got.Cut {
			t.Errorf("%+v %v", got, err)
		}
	})
}

func TestLimit(t *testing.T) {
	single := Load{Jobs: 20, WarmUp: 2, Producers: 5, Batch: 1, Within: time.Minute}
	bulk := Load{Jobs: 2000, WarmUp: 200, Producers: 5, Batch: 100, Within: time.Minute}
	for name, c := range map[string]struct {
		single, bulk Load
		want         string
		figures      Figures
	}{
		"both": {single, bulk, "life 20 by 500, enqueues 20 by 500, life 20 by 5, enqueues 20 by 5, life 2000 by 500, enqueues 2000 by 500",
			Figures{LifePerS: 500, EnqueuePerS: 500, BareLifePerS: 500, EnqueueP50MS: 1000, EnqueueP99MS: 1000, AloneP99MS: 1000, BulkLifePerS: 500, BulkPerS: 500}},
		"single": {single, Load{}, "life 20 by 500, enqueues 20 by 500, life 20 by 5, enqueues 20 by 5",
			Figures{LifePerS: 500, EnqueuePerS: 500, BareLifePerS: 500, EnqueueP50MS: 1000, EnqueueP99MS: 1000, AloneP99MS: 1000}},
		"bulk": {Load{}, bulk, "life 2000 by 500, enqueues 2000 by 500", Figures{BulkLifePerS: 500, BulkPerS: 500}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls []string
			step := func(name string) func(context.Context, Load, int) (Measured, error) {
				return func(ctx context.Context, load Load, batch int) (Measured, error) {
					calls = append(calls, fmt.Sprintf("%s %d by %d", name, load.Jobs, batch))
					return Loop(ctx, load, batch, func(int) error { time.Sleep(time.Second); return nil })
				}
			}
			got, err := Limit(c.single, c.bulk, step("life"), step("enqueues"))(t.Context())
			if err != nil || got != c.figures || strings.Join(calls, ", ") != c.want {
				t.Errorf("%s: %+v %v after %q", name, got, err, calls)
			}
		})
	}
	failed := errors.New("no work today")
	broken := func(context.Context, Load, int) (Measured, error) { return Measured{}, failed }
	if _, err := Limit(single, bulk, broken, nil)(t.Context()); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// TestCompareNamesASetup: the command runs the setup that its first argument names.
func TestCompareNamesASetup(t *testing.T) {
	errChosen := errors.New("chosen")
	setups := map[string]Setup{
		"b": func(_ context.Context, single, bulk Load) ([]Entry, func(), error) {
			if single.Jobs != 7 || single.WarmUp != 0 || bulk.Jobs != 70 || bulk.Batch != 1000 {
				t.Errorf("single %+v, bulk %+v", single, bulk)
			}
			return nil, nil, errChosen
		},
		"a": nil,
	}
	if err := compare(t.Context(), []string{"b", "-jobs", "7"}, setups); !errors.Is(err, errChosen) {
		t.Errorf("%v", err)
	}
	for _, args := range [][]string{nil, {"c"}, {"-jobs", "7"}} {
		if err := compare(t.Context(), args, setups); err == nil || !strings.Contains(err.Error(), "(a, b)") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := compare(t.Context(), []string{"b", "b"}, setups); err == nil || errors.Is(err, errChosen) {
		t.Errorf("%v", err)
	}
}
