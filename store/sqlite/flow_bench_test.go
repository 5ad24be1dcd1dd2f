package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// BenchmarkGates is one claim and finish of a job of a queue with gates; compare with "none", the
// same queue without. In "flight" so many jobs are in flight beside. In "giant" one group with
// 200,000 ready jobs is at its limit in front of 10,000 small groups; "small" is the same without
// it.
func BenchmarkGates(b *testing.B) {
	limit := func(n int64) sojourn.QueueSettings { return sojourn.QueueSettings{Limit: n} }
	groups := sojourn.QueueSettings{Limit: 1_000_000, GroupLimit: 1}
	for _, c := range []struct {
		name     string
		settings sojourn.QueueSettings
		flight   int
		load     []load
	}{
		{"none", sojourn.QueueSettings{}, 0, []load{{10_000, ""}}},
		{"limit", limit(100), 0, []load{{10_000, ""}}},
		{"flight=100", limit(1_000_000), 100, []load{{10_000, ""}}},
		{"flight=10000", limit(1_000_000), 10_000, []load{{20_000, ""}}},
		{"flight=100000", limit(1_000_000), 100_000, []load{{110_000, ""}}},
		{"small", groups, 0, []load{{10_000, "group-%d"}}},
		{"giant", groups, 0, []load{{200_000, "aaa"}, {10_000, "group-%d"}}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkGates(b, c.settings, c.flight, c.load) })
	}
}

// load is n jobs; a group with %d is another one for each of them.
type load struct {
	n     int
	group string
}

func benchmarkGates(b *testing.B, settings sojourn.QueueSettings, flight int, loads []load) {
	ctx := context.Background()
	c, err := sqlite.Open(filepath.Join(b.TempDir(), "x.db"), sqlite.Relaxed())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s := driver.Of(c)
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(sojourn.NewClient(s).Queues().Set(ctx, "default", settings))
	enqueue := func(l load) {
		for done := 0; done < l.n; done += 1000 {
			page := make([]*sojourn.Job, min(1000, l.n-done))
			for i := range page {
				group := l.group
				if len(group) > 2 && group[len(group)-2:] == "%d" {
					group = fmt.Sprintf(group, done+i)
				}
				page[i] = sojourn.NewJob("k", nil, sojourn.Group(group))
			}
			_, err := c.EnqueueAll(ctx, page...)
			must(err)
		}
	}
	for _, l := range loads {
		enqueue(l)
	}
	r := driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1000, Capacity: 1000, Lease: sojourn.DefaultLease * 100}
	for n := 0; n < flight; {
		jobs, err := s.Claim(ctx, r)
		must(err)
		n += len(jobs)
	}
	r.Max = 1
	if len(loads) > 1 { // the giant, to its limit
		_, err := s.Claim(ctx, r)
		must(err)
	}
	b.ResetTimer()
	for range b.N {
		jobs, err := s.Claim(ctx, r)
		must(err)
		if len(jobs) != 1 {
			b.Fatal("nothing to claim")
		}
		_, err = s.Finish(ctx, []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}})
		must(err)
	}
}
