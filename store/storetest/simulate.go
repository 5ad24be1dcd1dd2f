package storetest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/sim"
)

// Simulation sets the number and length of the random lives in [Simulate].
type Simulation struct {
	First  uint64 // the first seed, default 1; SOJOURN_SIM_FIRST wins
	Seeds  int    // how many seeds, default 100; SOJOURN_SIM_SEEDS wins
	Ops    int    // random operations of each, before the faults end; default 350; SOJOURN_SIM_OPS wins
	Tries  int    // runs that looking for a shorter way to the first failure may take, default 60
	Replay string // the command that repeats one seed, printed with a failure; %d stands for the seed
}

// Simulate runs random operations of producers, workers, responders and operators on a store. Its
// clock leaps and steps back. Faults are worker death, late and repeated reports, calls whose
// answer is lost, calls that are executed twice, and an unavailable store. After each operation the
// store is compared with a small model, now and then as a whole; then it also checks itself if it
// is a driver.Checker. In the end the faults stop, and every job must become final.
//
// open is that of [Run]: it makes a new, empty store that uses Options.Now for every decision. Each
// seed has a store of its own; a run repeats bit for bit. A failure prints the seed, the shortest
// failing list of operations found, and how to repeat it. Seeds run in parallel.
func Simulate(t *testing.T, open func(t *testing.T, o Options) driver.Store, s Simulation) {
	s.Seeds, s.Ops, s.Tries, s.First = or(s.Seeds, 100), or(s.Ops, 350), or(s.Tries, 60), max(s.First, 1)
	s.First = uint64(number(t, "SOJOURN_SIM_FIRST", int(s.First)))
	s.Seeds, s.Ops = number(t, "SOJOURN_SIM_SEEDS", s.Seeds), number(t, "SOJOURN_SIM_OPS", s.Ops)
	ops := make([]int, s.Ops)
	for i := range ops {
		ops[i] = i
	}
	var sum tally
	t.Run("seeds", func(t *testing.T) {
		for i := range s.Seeds {
			seed := s.First + uint64(i)
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				s.live(t, open, seed, ops, &sum)
			})
		}
	})
	t.Log(sum.text(s.Seeds))
}

func (s Simulation) live(t *testing.T, open func(t *testing.T, o Options) driver.Store, seed uint64, ops []int, sum *tally) {
	opener := func(now func() time.Time) driver.Store { return open(t, Options{Now: now, InboxTTL: sim.InboxTTL}) }
	result := sim.Run(opener, seed, ops)
	first := sum.add(result)
	if result.Err == nil {
		return
	}
	replay := "SOJOURN_SIM_FIRST=%d SOJOURN_SIM_SEEDS=1 go test -run " + strings.Split(t.Name(), "/")[0]
	if s.Replay != "" {
		replay = s.Replay
	}
	t.Errorf("seed %d: %v\nrepeat it: "+replay, seed, result.Err, seed)
	if first {
		short, shortest := sim.Shrink(opener, seed, ops, s.Tries)
		t.Logf("with %d of %d operations: %v\n%s", len(short), len(ops), shortest.Err, strings.Join(shortest.Log, "\n"))
	}
}

// tally sums the results of the seeds.
type tally struct {
	mu     sync.Mutex // guards the fields below
	calls  int
	jobs   int
	faults map[string]int
	time   time.Duration
	failed int
}

// add reports whether r is the first failure.
func (a *tally) add(r sim.Result) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faults == nil {
		a.faults = map[string]int{}
	}
	a.calls += r.Calls
	a.jobs += r.Jobs
	a.time += r.Virtual
	for k, n := range r.Faults {
		a.faults[k] += n
	}
	if r.Err != nil {
		a.failed++
	}
	return a.failed == 1 && r.Err != nil
}

func (a *tally) text(seeds int) string {
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(a.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", k, a.faults[k]))
	}
	return fmt.Sprintf("%d seeds, %d calls, %d jobs, %.0f virtual days, faults: %s; %d seeds with a violation",
		seeds, a.calls, a.jobs, a.time.Hours()/24, strings.Join(faults, ", "), a.failed)
}

func or(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

// number reads a number from the environment.
func number(t *testing.T, name string, def int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, and must be a number above 0", name, v)
	}
	return n
}
