package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// BenchmarkLife measures the whole life of a job, every operation durable: single enqueues from n
// producers, claims of up to 100 by 8 workers, and one batch of acknowledgements for each claim.
func BenchmarkLife(b *testing.B) {
	for _, producers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint("producers=", producers), func(b *testing.B) { benchmarkLife(b, producers) })
	}
}

func benchmarkLife(b *testing.B, producers int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := sqlite.Open(filepath.Join(b.TempDir(), "x.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s := driver.Of(c)
	args := bytes.Repeat([]byte("1"), 100)
	var made, done atomic.Int64
	finished := make(chan struct{})
	var workers, makers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for n := int64(1); ; n++ {
				jobs, err := s.Claim(ctx, driver.ClaimRequest{Worker: fmt.Sprint("w", w), Number: n, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 100,
					Capacity: 100, Wait: time.Second})
				if err != nil {
					return
				}
				out := make([]sojourn.Outcome, len(jobs))
				for i, j := range jobs {
					out[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
				}
				if _, err := s.Finish(ctx, out); err != nil {
					return
				}
				if done.Add(int64(len(jobs))) >= int64(b.N) {
					select {
					case finished <- struct{}{}:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	b.ResetTimer()
	for range producers {
		makers.Go(func() {
			for {
				n := made.Add(1)
				if n > int64(b.N) {
					return
				}
				if _, err := c.Enqueue(ctx, sojourn.NewJob("k", args, sojourn.Key(fmt.Sprint("key-", n)))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	makers.Wait()
	<-finished
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	workers.Wait()
}

// BenchmarkClaim is one claim and finish of a job in front of a backlog. The cost must not depend
// on the backlog: compare 10,000 with 1,000,000 of each sort.
func BenchmarkClaim(b *testing.B) {
	for _, sort := range []string{"ready", "scheduled", "final", "unknown-kind"} {
		for _, n := range []int{10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s=%d", sort, n), func(b *testing.B) { benchmarkClaim(b, sort, n) })
		}
	}
}

func benchmarkClaim(b *testing.B, sort string, backlog int) {
	ctx := context.Background()
	c, err := sqlite.Open(filepath.Join(b.TempDir(), "x.db"), sqlite.Relaxed())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s := driver.Of(c)
	claim := driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1000, Capacity: 1000}
	finish := func() {
		jobs, err := s.Claim(ctx, claim)
		if err != nil || len(jobs) == 0 {
			b.Fatal(jobs, err)
		}
		out := make([]sojourn.Outcome, len(jobs))
		for i, j := range jobs {
			out[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
		}
		if _, err := s.Finish(ctx, out); err != nil {
			b.Fatal(err)
		}
	}
	for done := 0; done < backlog; done += 1000 {
		page := make([]*sojourn.Job, 1000)
		for i := range page {
			switch page[i] = sojourn.NewJob("k", nil, sojourn.Priority(1)); sort {
			case "scheduled":
				page[i].Delay = time.Hour
			case "unknown-kind":
				page[i].Kind = "other"
			}
		}
		if _, err := c.EnqueueAll(ctx, page...); err != nil {
			b.Fatal(err)
		}
		if sort == "final" {
			finish()
		}
	}
	claim.Max = 1
	for b.Loop() {
		if sort != "ready" {
			if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil)); err != nil {
				b.Fatal(err)
			}
		}
		finish()
	}
}
