package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// watch measures the time of each job from its enqueue call to the start of its handler. Its
// methods are safe for concurrent use.
type watch struct {
	first int // the number of the first job that counts
	born  time.Time
	began []atomic.Int64 // nanoseconds since born
	took  []atomic.Int64 // nanoseconds; 0 = not yet
}

func newWatch(first, jobs int) *watch {
	return &watch{first: first, born: time.Now(), began: make([]atomic.Int64, jobs), took: make([]atomic.Int64, jobs)}
}

// counts reports whether a job is measured, and not part of the warm-up.
func (w *watch) counts(number int) bool { return number >= w.first && number-w.first < len(w.began) }

func (w *watch) begin(first, n int) {
	now := int64(time.Since(w.born))
	for number := first; number < first+n; number++ {
		if w.counts(number) {
			w.began[number-w.first].Store(now)
		}
	}
}

func (w *watch) stop(number int) {
	if w.counts(number) {
		i := number - w.first
		w.took[i].Store(max(int64(time.Since(w.born))-w.began[i].Load(), 1))
	}
}

func (w *watch) sample() (s Sample) {
	for i := range w.took {
		if d := w.took[i].Load(); d > 0 {
			s.Add(time.Duration(d))
		}
	}
	return s
}

// watched begins the watch of each job when it is enqueued.
type watched struct {
	System
	watch *watch
}

// Enqueue implements System.
func (w watched) Enqueue(ctx context.Context, first, n int) error {
	w.watch.begin(first, n)
	return w.System.Enqueue(ctx, first, n)
}
