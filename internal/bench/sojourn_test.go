package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// TestSojourn takes jobs through our own system, with both sorts of workers, single and in batches.
func TestSojourn(t *testing.T) {
	for name, load := range map[string]Load{
		"single": {Jobs: 40, WarmUp: 4, Producers: 4, Batch: 1, Within: time.Minute},
		"bulk":   {Jobs: 40, WarmUp: 4, Producers: 2, Batch: 15, Within: time.Minute},
	} {
		for _, bare := range []bool{false, true} {
			c, err := sqlite.Open(":memory:")
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			started := map[int]int{}
			after := 0
			sys := &Sojourn{Client: c, Bare: bare, After: func() error { after++; return nil }, Start: func(n int) {
				mu.Lock()
				defer mu.Unlock()
				started[n]++
			}}
			m, err := Life(t.Context(), sys, load)
			if err != nil || m.Jobs != 40 || m.Cut || m.PerSecond() <= 0 {
				t.Errorf("%s, bare %v: %+v %v", name, bare, m, err)
			}
			for n := range 44 {
				if started[n] != 1 {
					t.Errorf("%s, bare %v: job %d started %d times", name, bare, n, started[n])
				}
			}
			queues, err := c.Store().Queues(t.Context(), Queue)
			if err != nil || len(queues) != 1 || queues[0].Counts[sojourn.Completed] != 44 {
				t.Errorf("%s, bare %v: %+v %v", name, bare, queues, err)
			}
			if err := sys.Close(); err != nil || after != 1 {
				t.Error(err, after)
			}
		}
	}
}

// closing ends a worker when its output is closed.
type closing struct {
	io.ReadCloser
	stop func()
}

func (c closing) Close() error {
	c.stop()
	return c.ReadCloser.Close()
}

// TestScenarios runs all of them with few jobs, on one store: no case disturbs the next one.
func TestScenarios(t *testing.T) {
	c, err := sqlite.Open(":memory:", sqlite.Rules(rule.Throttlers()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var shown []string
	b := &Bench{
		Config: Config{Jobs: 30, Producers: []int{2, 100}, Batch: 7, Backlogs: []int{50}, Awaiting: []int{8}, Runs: 2, Within: time.Minute},
		Open: func(context.Context) (*sojourn.Client, func() error, error) {
			return c, func() error { return nil }, nil
		},
		Elsewhere: func(ctx context.Context, c *sojourn.Client, queue string) (io.ReadCloser, error) {
			ctx, stop := context.WithCancel(ctx)
			out, in := io.Pipe()
			go func() {
				in.CloseWithError(RunWorker(ctx, c, queue, in))
			}()
			return closing{out, stop}, nil
		},
		Progress: func(r Result) { shown = append(shown, r.Scenario+": "+r.Case()) },
	}
	report, err := b.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"enqueue: 2 producers", "enqueue: 100 producers", "bulk: 2 producers, 7 a call", "life: 2 producers", "life: 100 producers",
		"life: 2 producers, bare", "life: 100 producers, bare", "respond: 64 producers", "respond: enqueues alone, 64 producers",
		"respond: answers alone, 64 producers", "respond: 8 awaiting, 4 answers at a time", "respond: 8 awaiting, 64 answers at a time", "answer: no answer, 64 producers", "answer: answer at once, 64 producers", "answer: answer promptly, 64 producers",
		"answer: answer later, 64 producers", "shape: one process, 64 producers", "shape: separate processes, 64 producers",
		"shape: keys and 1 KB args, 64 producers", "shape: one producer, 1 producer", "shape: backlog, then work, 64 producers",
		"shape: bulk backlog, then work, 64 producers", "shape: idle pick-up, one process, 1 producer", "shape: idle pick-up, separate processes, 1 producer",
		"claim: backlog 50, 1 a claim", "claim: backlog 50, 100 a claim",
		"flow: no gates, 64 producers", "flow: a limit, 64 producers", "flow: groups with shares, 64 producers", "flow: a rule, 64 producers",
		"flow: small groups, backlog 50, 1 a claim", "flow: behind a full group, backlog 50, 1 a claim"}
	if !slices.Equal(shown, want) {
		t.Errorf("%q\nwant %q", shown, want)
	}
	jobs := map[string]int{"enqueue": 30, "bulk": 300, "life": 30, "respond": 30, "answer": 30, "shape": 30, "claim": 100, "flow": 30}
	for i, r := range report.Results {
		if r.Awaiting > 0 {
			if r.Jobs < 33 { // as many for each of those who answer
				t.Errorf("%s: %d answers", shown[i], r.Jobs)
			}
		} else if strings.Contains(r.Queue, "backlog") { // with the warm-up
			if r.Jobs != 33 {
				t.Errorf("%s: %d jobs", shown[i], r.Jobs)
			}
		} else if r.Backlog == 0 && r.Jobs != jobs[r.Scenario] {
			t.Errorf("%s: %d jobs", shown[i], r.Jobs)
		}
		if r.PerSecond <= 0 || r.AckP50MS <= 0 || r.AckP99MS < r.AckP50MS || r.CommitsPerJob <= 0 || r.HeapBytes == 0 || r.Cut {
			t.Errorf("%s: %+v", shown[i], r)
		}
		if compared := r.Queue != ""; compared != (r.Ratio > 0) || compared != (r.Runs == 2) {
			t.Errorf("%s: ratio %v, %d runs", shown[i], r.Ratio, r.Runs)
		}
		if worked := r.Scenario == "life" || r.Scenario == "answer" || r.Scenario == "shape" || r.Scenario == "respond" && r.Queue == ""; worked != (r.StartP50MS > 0) || r.StartP99MS < r.StartP50MS {
			t.Errorf("%s: starts %v, %v", shown[i], r.StartP50MS, r.StartP99MS)
		}
	}
	// Whoever waited was answered.
	inbox, err := c.Store().Inbox(t.Context(), sojourn.InboxFilter{Limit: 1000})
	if err != nil || len(inbox) < 33+2*33+2*33+3*2*33 {
		t.Errorf("%d answers: %v", len(inbox), err)
	}
	for _, r := range inbox {
		if r.Outcome != sojourn.Applied {
			t.Errorf("an answer was %s", r.Outcome)
		}
	}
}

func TestScenariosByName(t *testing.T) {
	chosen, err := choose([]string{"life", "enqueue", "life"})
	if err != nil || len(chosen) != 2 || chosen[0].Name != "enqueue" || chosen[1].Name != "life" {
		t.Error(chosen, err)
	}
	if _, err := choose([]string{"life", "flight"}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Error(err)
	}
	good := Config{Jobs: 1, Producers: []int{1}, Batch: 1, Backlogs: []int{1}, Runs: 1, Within: 1}
	for name, change := range map[string]func(*Config){
		"":           func(*Config) {},
		"jobs":       func(c *Config) { c.Jobs = MaxJobs + 1 },
		"batch":      func(c *Config) { c.Batch = sojourn.MaxBatch + 1 },
		"producers":  func(c *Config) { c.Producers = []int{1, MaxProducers + 1} },
		"backlog":    func(c *Config) { c.Backlogs = []int{0} },
		"within":     func(c *Config) { c.Within = 0 },
		"no backlog": func(c *Config) { c.Backlogs = nil },
		"awaiting":   func(c *Config) { c.Awaiting = []int{0} },
		"runs":       func(c *Config) { c.Runs = 0 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMeasureBreaksOff: a measurement stops at the first error and closes its open systems.
func TestMeasureBreaksOff(t *testing.T) {
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	closed := 0
	b := &Bench{
		Config: Config{Jobs: 30, Producers: []int{1}, Batch: 1, Backlogs: []int{1}, Runs: 1, Within: time.Minute},
		Open: func(context.Context) (*sojourn.Client, func() error, error) {
			return c, func() error { closed++; return nil }, nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Run(ctx, []string{"life"}); !errors.Is(err, context.Canceled) || closed != 1 {
		t.Error(err, closed)
	}
}
