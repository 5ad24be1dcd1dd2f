package webhook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// faulty is a store whose Respond fails, or blocks until its context ends.
type faulty struct {
	driver.Store
	err   error
	block chan struct{} // closed when Respond blocks
}

func (f *faulty) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	if f.block != nil {
		close(f.block)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, f.err
}

// 2xx is sent only when the response is durable: every store error is answered with a status that
// makes the sender retry.
func TestStoreFails(t *testing.T) {
	for want, err := range map[string]error{
		"unavailable":     &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "the disk is full", Retryable: true},
		"unknown_outcome": &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Message: "the connection broke"},
	} {
		for _, err := range []error{err, fmt.Errorf("wrapped: %w", err)} {
			s := newStage(t, sojourn.NewClient(&faulty{Store: driver.Of(must[*sojourn.Client](t)(sqlite.Open(":memory:"))), err: err}))
			s.gets(503, want, "/respond/charge/42", "x", bearerOf(secret))
			s.gets(503, want, "/webhook/bank", `{"order":"42"}`, sign(t, newSecret, "m", noon, `{"order":"42"}`))
			if h := s.handled[0]; h.Status != 503 || h.Code != want || h.Endpoint != "shop" || h.Outcome != "" {
				t.Errorf("observed %+v", h)
			}
		}
	}
	s := newStage(t, sojourn.NewClient(&faulty{Store: driver.Of(must[*sojourn.Client](t)(sqlite.Open(":memory:"))), err: sojourn.ErrClosed}))
	s.gets(503, "unavailable", "/respond/charge/42", "x", bearerOf(secret))
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/respond/charge/42", nil)
	r.Header = bearerOf(secret)
	if s.handler.ServeHTTP(w, r); w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(w.Header())
	}
	for _, told := range []string{"disk", "sqlite", "closed"} {
		if strings.Contains(w.Body.String(), told) {
			t.Errorf("the answer tells a stranger about %s: %s", told, w.Body)
		}
	}
}

// A store that hangs holds no sender longer than the timeout, and no more requests than fit are
// held meanwhile.
func TestStoreHangs(t *testing.T) {
	f := &faulty{Store: driver.Of(must[*sojourn.Client](t)(sqlite.Open(":memory:"))), block: make(chan struct{})}
	s := newStage(t, sojourn.NewClient(f))
	s.open(func(o *Options) { o.Timeout, o.MaxInFlight = 500*time.Millisecond, 1 })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.gets(503, "unknown_outcome", "/respond/charge/42", "x", bearerOf(secret))
	}()
	<-f.block
	s.gets(503, "busy", "/respond/charge/42", "x", bearerOf(secret))
	<-answered
}

// A sender that hangs up while its message is stored does not break that off.
func TestSenderLeaves(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	ctx, leave := context.WithCancel(t.Context())
	s.open(func(o *Options) {
		o.Endpoints[0].Match = func(ctx context.Context, m *source.Message) (*sojourn.Response, error) {
			leave()
			return match(ctx, m)
		}
	})
	const body = `{"order":"42"}`
	r := httptest.NewRequestWithContext(ctx, "POST", "/webhook/bank", strings.NewReader(body))
	r.Header = sign(t, newSecret, "m1", noon, body)
	s.handler.ServeHTTP(httptest.NewRecorder(), r)
	if lies := s.inbox(); len(lies) != 1 {
		t.Errorf("stored are %d responses", len(lies))
	}
}

type panics struct{}

func (panics) Verify(http.Header, []byte, time.Time) (Verified, error) { panic("oops") }

func TestPanics(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	s.open(func(o *Options) {
		o.Endpoints[0].Match = func(context.Context, *source.Message) (*sojourn.Response, error) { panic("oops") }
		o.Endpoints[1].Verify = panics{}
	})
	s.gets(202, "parked", "/webhook/bank", "{}", sign(t, newSecret, "m1", noon, "{}"))
	s.gets(500, "internal", "/respond/charge/42", "x", nil)
	if !strings.Contains(s.log.String(), "oops") || s.handled[1].Status != 500 {
		t.Errorf("%s\n%+v", s.log, s.handled)
	}
}

func TestMatcherSees(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	var seen *source.Message
	s.open(func(o *Options) {
		o.Endpoints[0].Match = func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
			seen = m
			return nil, nil
		}
	})
	h := sign(t, newSecret, "m1", noon, "{}")
	h.Set("Content-Type", "application/json")
	h.Set("X-Event", "paid")
	h.Set("Authorization", "Bearer "+secret)
	h.Set("Cookie", "session=1")
	s.gets(200, "passed_over", "/webhook/bank", "{}", h)
	if seen.ID != "m1" || seen.Topic != "bank" || seen.ContentType != "application/json" || !seen.Time.Equal(noon) || seen.Headers["x-event"] != "paid" {
		t.Errorf("%+v", seen)
	}
	if seen.Headers["authorization"] != "" || seen.Headers["cookie"] != "" {
		t.Errorf("secrets reach the matcher, and with it logs: %v", seen.Headers)
	}
}

func TestBadOptions(t *testing.T) {
	signed, known := must[*Signed](t)(Standard(newSecret)), must[Verifier](t)(Bearer(secret))
	for name, c := range map[string]struct {
		field string
		o     Options
	}{
		"no name":          {"name", Options{Endpoints: []Endpoint{{Verify: known, Kinds: []string{"*"}}}}},
		"a path":           {"name", Options{Endpoints: []Endpoint{{Name: "a/b", Verify: known, Kinds: []string{"*"}}}}},
		"a taken name":     {"name", Options{Endpoints: []Endpoint{{Name: CapabilitySource, Verify: known, Kinds: []string{"*"}}}}},
		"one name twice":   {"name", Options{Endpoints: []Endpoint{{Name: "a", Verify: known, Kinds: []string{"*"}}, {Name: "a", Verify: known, Kinds: []string{"*"}}}}},
		"nothing verified": {"verify", Options{Endpoints: []Endpoint{{Name: "a", Kinds: []string{"*"}}}}},
		"an unsigned path": {"match", Options{Endpoints: []Endpoint{{Name: "a", Verify: signed, Kinds: []string{"*"}}}}},
		"no kinds":         {"kinds", Options{Endpoints: []Endpoint{{Name: "a", Verify: known}}}},
		"a bad kind":       {"kinds", Options{Endpoints: []Endpoint{{Name: "a", Verify: known, Kinds: []string{"a b"}}}}},
		"a bad TTL":        {"ttl", Options{Endpoints: []Endpoint{{Name: "a", Verify: known, Kinds: []string{"*"}, TTL: 1}}}},
		"bytes":            {"max_bytes", Options{MaxBytes: sojourn.MaxMaxBytes + 1}},
		"timeout":          {"timeout", Options{Timeout: time.Millisecond}},
		"in flight":        {"max_in_flight", Options{MaxInFlight: -1}},
	} {
		_, err := New(nil, c.o)
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Code != sojourn.CodeInvalid || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServer speaks raw TCP to a receiver on a port of its own: slow and large requests are cut
// off, and an expected body is not read in vain.
func TestServer(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	s.open(func(o *Options) { o.Timeout = 300 * time.Millisecond })
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	server := Server(s.handler)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	ask := func(raw string) *http.Response {
		t.Helper()
		c := must[net.Conn](t)(net.Dial("tcp", listener.Addr().String()))
		t.Cleanup(func() { c.Close() })
		must[int](t)(c.Write([]byte(raw)))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		return must[*http.Response](t)(http.ReadResponse(bufio.NewReader(c), nil))
	}
	head := "POST /respond/charge/42 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n"
	for name, c := range map[string]struct {
		status int
		raw    string
	}{
		"whole":                    {202, head + "Content-Length: 1\r\n\r\nx"},
		"a body that never comes":  {408, head + "Content-Length: 10\r\n\r\nx"},
		"a length above the limit": {413, head + "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n"},
		"a large header":           {431, head + "X: " + strings.Repeat("x", MaxHeaderBytes+4096+1) + "\r\n\r\n"},
		"two lengths":              {400, head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"},
		"a bad chunk":              {400, head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
	} {
		if r := ask(c.raw); r.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", name, r.Status, c.status)
		}
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
