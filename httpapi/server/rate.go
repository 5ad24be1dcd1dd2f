package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// finishShare multiplies Options.Rate for finish, save and extend: a worker that has started jobs
// must be able to report them.
const finishShare = 4

// rates limits the requests of each token. Without authentication all callers share one bucket.
type rates struct {
	perSecond float64 // 0 = no bound

	mu   sync.Mutex // guards full
	full map[bucketKey]time.Time
}

// bucketKey identifies a bucket. Each token has a separate one for worker reports.
type bucketKey struct {
	token     string
	finishing bool
}

// take takes one request from the token bucket at now. The bucket holds the requests of one second,
// at least one. left is the number of requests that remain. If the request is refused, wait is the
// time until the next one is allowed.
func (r *rates) take(token string, c class, now time.Time) (left int, wait time.Duration) {
	per := r.perSecond
	if c == finishing {
		per *= finishShare
	}
	step := time.Duration(float64(time.Second) / per)
	burst := max(time.Second, step)
	key := bucketKey{token, c == finishing}
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

// rate refuses a request of a caller that sends too many.
func (s *Server) rate(w http.ResponseWriter, who *holder, c class) error {
	if s.rates.perSecond <= 0 {
		return nil
	}
	left, wait := s.rates.take(who.id, c, time.Now())
	policy := s.rates.perSecond
	if c == finishing {
		policy *= finishShare
	}
	head := w.Header()
	head.Set("RateLimit-Policy", fmt.Sprintf(`"token";q=%d;w=1`, int(math.Ceil(policy))))
	head.Set("RateLimit", fmt.Sprintf(`"token";r=%d;t=%d`, left, seconds(wait)))
	if wait <= 0 {
		return nil
	}
	head.Set("Retry-After", strconv.Itoa(seconds(wait)))
	e := wire.Refusal(wire.CodeRateLimited, "this token sends more than %g requests a second; nothing was stored, try again after the time in Retry-After", policy)
	e.Retryable = true
	return e
}

// seconds rounds up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
