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

// finishShare is how many times Options.Rate a token may finish, save and extend: a worker that has
// started jobs must be able to report them.
const finishShare = 4

// rates bounds how many requests a token sends. At an open door all callers share one bucket.
type rates struct {
	perSecond float64 // 0 = no bound

	mu   sync.Mutex // guards full
	full map[bucketKey]time.Time
}

// bucketKey names the buckets of a token: reports of workers have their own.
type bucketKey struct {
	token     string
	finishing bool
}

// take counts a request at now. It may come while the bucket, which holds as many requests as a
// second refills, at least one, is not empty. left is what it holds then, wait the time until there
// is room for a request that was refused.
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
	e := wire.Refusal(wire.CodeRateLimited, "this token sends more than %g requests a second; nothing happened, try again after the time in Retry-After", policy)
	e.Retryable = true
	return e
}

// seconds rounds up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
