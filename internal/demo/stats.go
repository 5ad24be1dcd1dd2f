package demo

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Percentiles of durations, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// window holds the newest durations.
type window struct {
	mu   sync.Mutex // guards what follows
	ring []time.Duration
	n    int // how many ever
}

const windowSize = 10_000

func (w *window) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ring) < windowSize {
		w.ring = append(w.ring, d)
	} else {
		w.ring[w.n%windowSize] = d
	}
	w.n++
}

func (w *window) percentiles() Percentiles {
	w.mu.Lock()
	sorted := slices.Clone(w.ring)
	w.mu.Unlock()
	slices.Sort(sorted)
	return Percentiles{milliseconds(rank(sorted, 0.50)), milliseconds(rank(sorted, 0.99))}
}

// rank is the smallest value that the share p of all does not exceed; 0 of none.
func rank(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond).Microseconds()) / 1000
}

// stats holds the demo's measurements since its start. Safe for concurrent use.
type stats struct {
	enqueues window // duration of Client.Enqueue
	waits    window // from when a job could start to its first start

	mu     sync.Mutex // guards what follows
	events []Event
	logged int // how many ever
}

// Event is something worth telling.
type Event struct {
	At   time.Time
	Text string
}

const maxEvents = 5

func (s *stats) event(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged++
	s.events = append(s.events, Event{time.Now(), fmt.Sprintf(format, a...)})
	s.events = s.events[max(0, len(s.events)-maxEvents):]
}

// newest gives the last events, oldest first.
func (s *stats) newest() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *stats) enqueued(d time.Duration) { s.enqueues.add(d) }

// started measures how long a job has waited in its queue; only its first start ever tells.
func (s *stats) started(job *sojourn.Job) {
	if job.Epoch > 1 {
		return
	}
	from := job.RunAt
	if job.CreatedAt.After(from) {
		from = job.CreatedAt
	}
	s.waits.add(max(0, time.Since(from)))
}
