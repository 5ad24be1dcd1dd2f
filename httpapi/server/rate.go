package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
)

// rate refuses a request of a caller that sends too many.
func (s *Server) rate(w http.ResponseWriter, who *holder, c admission.Class) error {
	policy := s.rates.PerSecond(c)
	if policy <= 0 {
		return nil
	}
	left, wait := s.rates.Take(who.id, c, time.Now())
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
