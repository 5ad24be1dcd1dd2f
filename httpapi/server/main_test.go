package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// site is a server on loopback with a store in memory behind it.
type site struct {
	*testing.T
	server *Server
	url    string
	client *sojourn.Client // past the server
}

func newSite(t *testing.T, o Options) *site {
	t.Helper()
	return newSiteAt(t, o, ":memory:")
}

func newSiteAt(t *testing.T, o Options, path string, options ...sqlite.Option) *site {
	t.Helper()
	c, err := sqlite.Open(path, options...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), driver.Of(c), o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain()
		h.Close()
		_ = c.Close()
	})
	return &site{t, s, h.URL, c}
}

// answer is an HTTP response.
type answer struct {
	status int
	head   http.Header
	body   string
	code   string // of a problem
}

// send sends a request with the headers "Name: value".
func (s *site) send(method, path, body string, headers ...string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return s.do(r)
}

func (s *site) do(r *http.Request) answer {
	s.Helper()
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return s.read(got)
}

func (s *site) read(got *http.Response) answer {
	s.Helper()
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatal(err)
	}
	a := answer{status: got.StatusCode, head: got.Header, body: string(b)}
	var p struct{ Code string }
	if got.Header.Get("Content-Type") == "application/problem+json" && json.Unmarshal(b, &p) == nil {
		a.code = p.Code
	}
	return a
}

// raw sends bytes that a client library would refuse to send, and reads one answer.
func (s *site) raw(text string) answer {
	s.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		s.Fatal(err)
	}
	if strings.Contains(text, "Content-Length: 999") {
		_ = c.(*net.TCPConn).CloseWrite() // the body ends early
	}
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.Fatalf("%.200q: %v", text, err)
	}
	return s.read(got)
}

// want holds an answer against a status and a code.
func (s *site) want(what string, a answer, status int, code string) {
	s.Helper()
	if a.status != status || a.code != code {
		s.Errorf("%s: answered %d %s, want %d %s\n%s", what, a.status, a.code, status, code, a.body)
	}
	if code != "" && (!strings.Contains(a.body, `"request_id"`) || a.head.Get("X-Request-Id") == "") {
		s.Errorf("%s: the problem names no request id: %s", what, a.body)
	}
}

// stored is how many jobs there are.
func (s *site) stored() int {
	s.Helper()
	jobs, err := s.client.Store().Find(s.Context(), sojourn.Filter{Limit: sojourn.MaxFind})
	if err != nil {
		s.Fatal(err)
	}
	return len(jobs)
}
