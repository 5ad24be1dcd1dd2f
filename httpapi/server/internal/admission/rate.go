package admission

import (
	"sync"
	"time"
)

// finishShare multiplies the rate for requests that finish work: a worker that has started jobs
// must be able to report them.
const finishShare = 4

// Rates limits the requests of each token. Without authentication all callers share one bucket.
// Safe for concurrent use.
type Rates struct {
	perSecond float64 // 0 = no bound

	mu   sync.Mutex // guards full
	full map[bucketKey]time.Time
}

// bucketKey identifies a bucket. Each token has a separate one for worker reports.
type bucketKey struct {
	token     string
	finishing bool
}

// NewRates limits each token to so many requests a second, 0 for no bound; four times as many
// requests of the class Finishing.
func NewRates(perSecond float64) *Rates {
	return &Rates{perSecond: perSecond, full: map[bucketKey]time.Time{}}
}

// PerSecond is the rate of a class; 0 or less for no bound.
func (r *Rates) PerSecond(c Class) float64 {
	if c == Finishing {
		return r.perSecond * finishShare
	}
	return r.perSecond
}

// Take takes one request from the token bucket at now; there must be a bound. The bucket holds the
// requests of one second, at least one. left is the number of requests that remain. If the request
// is refused, wait is the time until the next one is allowed.
func (r *Rates) Take(token string, c Class, now time.Time) (left int, wait time.Duration) {
	step := time.Duration(float64(time.Second) / r.PerSecond(c))
	burst := max(time.Second, step)
	key := bucketKey{token, c == Finishing}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.full[key] // when the bucket is full again
	if at.Before(now) {
		at = now
	}
	if wait = at.Add(step).Sub(now) - burst; wait > 0 {
		return 0, wait
	}
	r.full[key] = at.Add(step)
	return int((burst - at.Add(step).Sub(now)) / step), 0
}
