package postgres

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// BenchmarkLife measures the whole life of a job, every operation durable: single enqueues from n
// producers, claims of up to 100 by 8 workers, and one batch of acknowledgements for each claim.
// store/sqlite has a benchmark of the same name.
func BenchmarkLife(b *testing.B) {
	for _, mode := range []string{"cache_statement", "cache_describe"} {
		for _, producers := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/producers=%d", mode, producers), func(b *testing.B) { benchmarkLife(b, mode, producers) })
		}
	}
}

func benchmarkLife(b *testing.B, mode string, producers int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := Open(withMode(testURL(b), mode), Schema(newSchema(b)), AutoMigrate())
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

func withMode(address, mode string) string { return address + "&default_query_exec_mode=" + mode }
