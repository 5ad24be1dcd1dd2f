package storetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/races"
)

// RaceDependencies lets calls about dependencies meet: ends of parents and of their stages, also in
// transactions of the application, new and replaced jobs, changed edges, cancels, redrives and
// purges, each on another of the stores that open returns, which share one database. begin begins a
// transaction; nil if steps end in none. After each round every job must end, released once.
// SOJOURN_RACES sets the number of rounds, SOJOURN_RACES_FIRST the first seed, which is otherwise
// random and printed. A failure prints the calls of its round.
func RaceDependencies(t *testing.T, open func(t *testing.T, o Options) []driver.Store, begin func() (Tx, error), rounds int) {
	rounds = number(t, "SOJOURN_RACES", rounds)
	first := rand.Uint64N(1 << 40)
	if v := os.Getenv("SOJOURN_RACES_FIRST"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("SOJOURN_RACES_FIRST: %v", err)
		}
		first = n
	}
	var clock atomic.Int64
	clock.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMicro())
	c := &races.Cluster{Ctx: t.Context(), Advance: func(d time.Duration) { clock.Add(d.Microseconds()) }}
	c.Nodes = open(t, Options{Now: func() time.Time { return time.UnixMicro(clock.Load()) }})
	if begin != nil {
		c.Begin = func() (races.Tx, error) {
			x, err := begin()
			return races.Tx{Handle: x.Handle, Commit: x.Commit, Rollback: x.Rollback}, err
		}
	}
	for _, q := range []string{races.Queue, races.Later} {
		s := sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Minute, FailedAge: time.Minute}}
		if err := sojourn.NewClient(c.Nodes[0]).Queues().Set(t.Context(), q, s); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for done := 0; done < rounds; {
		var seeds []uint64
		for done < rounds && (len(seeds) == 0 || (first+uint64(done))%races.Together > 0) {
			seeds = append(seeds, first+uint64(done))
			done++
		}
		if err := c.Run(seeds); err != nil {
			t.Fatalf("%v\nrun its calls again: SOJOURN_RACES=1000 SOJOURN_RACES_FIRST=%d", err, seeds[0])
		}
		if done%500 < len(seeds) || done == rounds {
			if err := c.Check(); err != nil {
				t.Fatalf("after the rounds %d to %d: %v", first, first+uint64(done-1), err)
			}
		}
	}
	for i := range uint64(rounds / 10) {
		if err := c.RunCycle(first + i); err != nil {
			t.Fatalf("a cycle: %v", err)
		}
	}
	if err := c.Check(); err != nil {
		t.Fatal("after the cycles:", err)
	}
	t.Logf("%d rounds from seed %d on %d stores in %v", rounds, first, len(c.Nodes), time.Since(began).Round(time.Millisecond))
}
