package server

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// failing is a store in which calls can be made to fail.
type failing struct {
	driver.Store
	mu            sync.Mutex // guards the fields below
	status, claim error
}

func (f *failing) Status(ctx context.Context) (sojourn.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != nil {
		return sojourn.Status{}, f.status
	}
	return f.Store.Status(ctx)
}

func (f *failing) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claim != nil {
		return nil, f.claim
	}
	return f.Store.Claim(ctx, r)
}

// TestReadyz breaks each of its checks, and mends it.
func TestReadyz(t *testing.T) {
	s := newSite(t, Options{Open: true})
	store := &failing{Store: s.server.store}
	s.server.store = store
	ready := func(want string) {
		t.Helper()
		r := &s.server.ready
		r.mu.Lock()
		r.at = time.Time{} // look again, at once
		r.mu.Unlock()
		a := s.send("GET", "/readyz", "")
		var got struct {
			Ready  bool
			Checks []struct {
				Name, Error string
				OK          bool
			}
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(err)
		}
		var bad []string
		for _, c := range got.Checks {
			if !c.OK {
				bad = append(bad, c.Name+": "+c.Error)
			}
		}
		if text := strings.Join(bad, "; "); text != want || got.Ready != (want == "") || (a.status == 200) != (want == "") || len(got.Checks) != 4 {
			t.Errorf("readyz answered %d %s, want %q", a.status, a.body, want)
		}
	}
	ready("sweep: no sweep has succeeded within 30s") // it has not begun
	sweeping, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.server.Sweep(sweeping) }()
	for end := time.Now().Add(patience); s.server.ready.swept.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no sweep")
		}
	}
	ready("")
	set := func(status, claim error) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.status, store.claim = status, claim
	}
	set(errors.New("no route to db.internal"), nil)
	ready("store: failed; the log has the cause")
	set(&sojourn.Error{Code: sojourn.CodeSchema, Message: "newer"}, nil)
	ready("store: schema")
	set(nil, &sojourn.Error{Code: sojourn.CodeUnavailable, Message: "busy"})
	ready("claim: unavailable")
	set(nil, nil)
	ready("")
	stop()
	<-ended
	s.server.began = s.server.began.Add(-2 * sweepLate) // as if that were long ago
	ready("sweep: no sweep has succeeded within 30s")
	s.server.ready.swept.Store(int64(time.Since(s.server.began)))
	ready("")
	s.server.Drain()
	ready("serving: the server is shutting down")
	if a := s.send("GET", "/livez", ""); a.status != 200 {
		t.Errorf("livez answered %d while it drains", a.status)
	}
}

// Workers sweep every few seconds: it needs no token of an operator, and does not fill the audit
// log.
func TestWorkersMaySweep(t *testing.T) {
	s := newSite(t, Options{})
	work := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbWork}, Queue: "pay*"})
	s.want("a sweep", s.send("POST", "/v1/sweep", `{"limit":10}`, work), 200, "")
	if log, err := s.client.Store().(access.AuditReader).AuditLog(t.Context(), access.AuditFilter{}); err != nil || len(log) > 0 {
		t.Errorf("the audit log has %+v, %v", log, err)
	}
}

// A server that looks whether claims come through is no worker.
func TestProbeIsNoWorker(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.send("GET", "/readyz", "")
	if a := s.send("GET", "/v1/workers", ""); a.status != 200 || strings.Contains(a.body, sojourn.ProbeQueue) {
		t.Errorf("the workers are %s", a.body)
	}
}

// TestReadyzOfRemovedFile: somebody removes the file of the store. The server is not ready any
// more, also if nothing else is asked of it.
func TestReadyzOfRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := newSiteAt(t, Options{Open: true}, path)
	sweeping, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.server.Sweep(sweeping) }()
	defer func() { stop(); <-ended }()
	until := func(status int, text string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for {
			a := s.send("GET", "/readyz", "")
			if a.status == status && strings.Contains(a.body, text) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("readyz answers %d %s, not %d", a.status, a.body, status)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	until(200, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until(503, sojourn.CodeClosed)
}
