package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

const (
	sweepEvery  = time.Second      // overdue jobs are handled this often
	sweepLimit  = 500              // of each sort, in one sweep
	sweepLate   = 30 * time.Second // without a sweep the server is not ready
	probeEvery  = 2 * time.Second  // an answer of /readyz is good for this long, however often it is asked
	probeWithin = 5 * time.Second
)

// readiness holds the last result of /readyz.
type readiness struct {
	mu     sync.Mutex // guards the fields below, and lets one probe run at a time
	worker string     // claims in a queue without jobs
	at     time.Time
	checks []readyCheck
	swept  atomic.Int64 // nanoseconds after Server.began when the last sweep has succeeded; 0 = none has
}

// readyCheck is one line of /readyz.
type readyCheck struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Sweep processes overdue jobs and responses until ctx ends. Any number of servers and workers may
// sweep concurrently.
func (s *Server) Sweep(ctx context.Context) {
	for {
		swept, err := s.store.Sweep(ctx, sweepLimit)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("sweep", "error", err)
		default:
			s.ready.swept.Store(max(int64(time.Since(s.began)), 1))
			s.meters.sweep(swept)
		}
		if err == nil && swept.Total() >= sweepLimit {
			continue
		}
		next := min(sweepEvery, cmp.Or(swept.NextTick, sweepEvery)) // a schedule may be due sooner
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// sweepLag is how long ago the last sweep has succeeded, or the server began.
func (s *Server) sweepLag() time.Duration {
	return time.Since(s.began) - time.Duration(s.ready.swept.Load())
}

// livez reports that the process responds. It checks nothing else, so that a failing store does not
// restart the server.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// readyz reports whether the server is ready: the store responds and has the right schema, a claim
// succeeds, and the sweep is running.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	checks := s.probe(r.Context())
	status := http.StatusOK
	for _, c := range checks {
		if !c.OK {
			status = http.StatusServiceUnavailable
		}
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_ = wire.Codec{}.Write(w, struct {
		Ready  bool         `json:"ready"`
		Checks []readyCheck `json:"checks"`
	}{status == http.StatusOK, checks})
}

func (s *Server) probe(ctx context.Context) []readyCheck {
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	serving := readyCheck{Name: "serving", OK: !s.closing.Load()}
	if !serving.OK {
		serving.Error = "the server is shutting down"
	}
	if time.Since(s.ready.at) >= probeEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWithin)
		defer cancel()
		s.ready.checks, s.ready.at = []readyCheck{s.probeStore(ctx), s.probeClaim(ctx)}, time.Now()
	}
	sweep := readyCheck{Name: "sweep", OK: s.ready.swept.Load() > 0 && s.sweepLag() < sweepLate}
	if !sweep.OK {
		sweep.Error = fmt.Sprintf("no sweep has succeeded within %v", sweepLate)
	}
	return append([]readyCheck{serving, sweep}, s.ready.checks...)
}

func (s *Server) probeStore(ctx context.Context) readyCheck {
	_, err := s.store.Status(ctx)
	return s.checked("store", err)
}

// probeClaim claims in a queue that has no jobs.
func (s *Server) probeClaim(ctx context.Context) readyCheck {
	_, err := s.store.Claim(ctx, driver.ClaimRequest{Worker: s.ready.worker, Queues: []string{sojourn.ProbeQueue}, Kinds: []string{sojourn.ProbeQueue}, Max: 1, Capacity: 1})
	return s.checked("claim", err)
}

// checked hides the cause, which may name paths and hosts, from unauthenticated callers.
func (s *Server) checked(name string, err error) readyCheck {
	if err == nil {
		return readyCheck{Name: name, OK: true}
	}
	s.log.Warn("not ready", slog.String("check", name), slog.String("error", err.Error()))
	text := sojourn.ErrorCode(err)
	if text == "" {
		text = "failed; the log has the cause"
	}
	return readyCheck{Name: name, Error: text}
}
