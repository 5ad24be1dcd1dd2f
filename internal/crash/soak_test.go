package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// sample holds the values that must stay flat. fds and rss are 0 where /proc does not report them.
type sample struct {
	at                              float64 // minutes
	goroutines, fds, wal, heap, rss float64 // the last three in KiB
}

func sampled(t *testing.T, c *sojourn.Client, began time.Time) sample {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	st, err := c.Store().Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := sample{at: time.Since(began).Minutes(), goroutines: float64(runtime.NumGoroutine()), wal: float64(st.WALBytes) / 1024, heap: float64(m.HeapAlloc) / 1024}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.fds = float64(len(open))
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, _ := strconv.ParseFloat(f[1], 64)
			s.rss = pages * float64(os.Getpagesize()) / 1024
		}
	}
	return s
}

// slope is the linear fit (least squares), a minute.
func slope(of []sample, what func(sample) float64) float64 {
	var n, x, y, xx, xy float64
	for _, s := range of {
		v := what(s)
		n, x, y, xx, xy = n+1, x+s.at, y+v, xx+s.at*s.at, xy+s.at*v
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// soak runs a mixed load for a while: jobs, waits, answers, errors, retention.
func soak(t *testing.T, address string, length time.Duration) {
	c, err := open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keep := sojourn.QueueSettings{Retention: sojourn.Retention{Count: 1000}}
	if err := c.Queues().Set(t.Context(), sojourn.DefaultQueue, keep); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	var enqueued, completed, answered atomic.Int64
	w := worker.New(c, worker.Options{Concurrency: 8, Grace: time.Minute})
	worker.Handle(w, plain, func(_ context.Context, job *sojourn.Job, n int) error {
		if n%10 == 0 && job.Attempt == 1 {
			return fmt.Errorf("try again")
		}
		completed.Add(1)
		return nil
	})
	worker.Handle(w, ask, func(_ context.Context, job *sojourn.Job, _ int) error {
		if job.Response != nil {
			completed.Add(1)
			return nil
		}
		group.Go(func() {
			if _, err := c.Respond(ctx, &sojourn.Response{Kind: ask.Name, Key: job.Key}); err == nil {
				answered.Add(1)
			}
		})
		return sojourn.Await(time.Minute)
	})
	group.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 4 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				job := plain.New(n)
				if n%2 == 0 {
					job = ask.New(n, sojourn.Key(fmt.Sprint("order ", rand.Int64())))
				}
				if _, err := c.Enqueue(ctx, job); err == nil {
					enqueued.Add(1)
				}
				time.Sleep(5 * time.Millisecond) // a steady load, not the highest
			}
		})
	}
	began := time.Now()
	var samples []sample
	for range 60 {
		time.Sleep(length / 60)
		samples = append(samples, sampled(t, c, began))
	}
	cancel()
	group.Wait()
	report(t, samples, fmt.Sprintf("%v: %d jobs enqueued, %d completed, %d answers", length, enqueued.Load(), completed.Load(), answered.Load()))
	if completed.Load() < int64(length/time.Second) {
		t.Error("hardly anything was done: the test shows nothing")
	}
}

// report fits lines to the second half, when caches are full, and wants them flat: what a leak of
// one a second would add is far above.
func report(t *testing.T, samples []sample, load string) {
	half := samples[len(samples)/2:]
	first, last := half[0], half[len(half)-1]
	text := load
	for _, m := range []struct {
		name string
		of   func(sample) float64
		most float64 // a minute
	}{
		{"goroutines", func(s sample) float64 { return s.goroutines }, 10},
		{"file descriptors", func(s sample) float64 { return s.fds }, 3},
		{"WAL KiB", func(s sample) float64 { return s.wal }, 8 * 1024},
		{"heap KiB", func(s sample) float64 { return s.heap }, 4 * 1024},
		{"RSS KiB", func(s sample) float64 { return s.rss }, 0},
	} {
		k := slope(half, m.of)
		text += fmt.Sprintf("\n%-17s %9.0f → %9.0f, slope %+8.2f a minute", m.name, m.of(first), m.of(last), k)
		if m.most > 0 && last.at-first.at > 2 && k > m.most {
			t.Errorf("%s grow by %.2f a minute", m.name, k)
		}
	}
	t.Log(text)
}

// TestSoak lets a mixed load run for SOJOURN_SOAK, such as 10m, in one process, and fits lines to
// what must stay flat (inv:J1).
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the soak")
	}
	length, err := time.ParseDuration(os.Getenv("SOJOURN_SOAK"))
	if err != nil {
		length = 3 * time.Second
	}
	t.Run("sqlite", func(t *testing.T) {
		soak(t, filepath.Join(t.TempDir(), "soak.db"), length)
	})
	if os.Getenv("SOJOURN_SOAK") != "" {
		t.Run("postgres", func(t *testing.T) { soak(t, newDatabase(t).URL, length) })
	}
}
