package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// revocable is a token that a test can change while requests with it are under way.
type revocable struct {
	*site
	t      access.Token
	header string
	ahead  atomic.Int64 // how far the clock that judges tokens is ahead
}

func (s *site) revocable(grants ...access.Grant) *revocable {
	r := &revocable{site: s}
	s.server.door.now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	r.header = s.issue(func(t *access.Token) { r.t = *t; r.t.ExpiresAt = t.ExpiresAt }, grants...)
	return r
}

func (r *revocable) change(change func(*access.Token)) {
	r.Helper()
	change(&r.t)
	if err := r.client.Store().(access.Keeper).SetAccessToken(r.Context(), r.t); err != nil {
		r.Fatal(err)
	}
}

// invalid lists the ways in which a token ends, with the error that its holder gets.
var invalid = map[string]struct {
	change func(r *revocable)
	status int
	code   string
}{
	"revoked":        {func(r *revocable) { r.change(func(t *access.Token) { t.RevokedAt = time.Now() }) }, 401, "unauthorized"},
	"expired":        {func(r *revocable) { r.ahead.Store(int64(2 * time.Hour)) }, 401, "unauthorized"},
	"another secret": {func(r *revocable) { r.change(func(t *access.Token) { t.Hash = make([]byte, 32) }) }, 401, "unauthorized"},
	"narrowed": {func(r *revocable) {
		r.change(func(t *access.Token) {
			t.Grants = []access.Grant{{Verbs: []access.Verb{access.VerbReadArgs}}}
		})
	}, 403, "insufficient_scope"},
}

// waits waits until so many requests last.
func (s *site) lasting(n int) {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.server.lasting.mu.Lock()
		open := len(s.server.lasting.open)
		s.server.lasting.mu.Unlock()
		if open == n {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%d requests last, want %d", open, n)
		}
	}
}

// TestRevokedLongPoll: a long poll ends when its token does, says why, and has claimed nothing.
func TestRevokedLongPoll(t *testing.T) {
	for name, c := range invalid {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, Options{})
			r := s.revocable(access.Grant{Verbs: []access.Verb{access.VerbWork, access.VerbRead, access.VerbEnqueue}})
			s.want("a job to wait for", s.send(http.MethodPost, "/v1/jobs", `{"kind":"other"}`, r.header), 201, "")
			answers := make(chan answer, 3)
			go func() {
				answers <- s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["k"],"max":1,"wait":"60s"}`, r.header)
			}()
			go func() { answers <- s.send(http.MethodGet, "/v1/jobs?id=1&state=completed&wait=60s", "", r.header) }()
			go func() { answers <- s.send(http.MethodGet, "/v1/jobs/1?wait=60s", "", r.header) }()
			s.lasting(3)
			c.change(r)
			for range 3 {
				s.want("a long poll", <-answers, c.status, c.code)
			}
			s.lasting(0)
			if _, err := s.client.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
				t.Fatal(err)
			}
			got, err := driver.Of(s.client).Claim(t.Context(), driver.ClaimRequest{Worker: "other", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
			if err != nil || len(got) != 1 {
				t.Errorf("another worker claims %d jobs: %v; the claim that was ended must have taken nothing", len(got), err)
			}
		})
	}
}

// TestRevokedStream: a stream ends when its token does. What was acknowledged before is stored,
// nothing after it is, and the last line says why.
func TestRevokedStream(t *testing.T) {
	for name, c := range invalid {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, Options{})
			r := s.revocable(access.Grant{Verbs: []access.Verb{access.VerbEnqueue}})
			conn := s.dial()
			_, _ = io.WriteString(conn, strings.Replace(post("/v1/jobs/stream", "Transfer-Encoding: chunked", r.header), "application/json", ndjsonType, 1))
			send := func(text string) { _, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text) }
			send("{\"kind\":\"k\"}\n")
			got, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			lines := bufio.NewScanner(got.Body)
			if !lines.Scan() || !strings.Contains(lines.Text(), `"line":1`) {
				t.Fatalf("the first line is answered %q", lines.Text())
			}
			s.lasting(1)
			c.change(r)
			if !lines.Scan() || !strings.Contains(lines.Text(), c.code) {
				t.Errorf("the stream ends with %q %v, want %s", lines.Text(), lines.Err(), c.code)
			}
			send("{\"kind\":\"k\"}\n")
			for lines.Scan() {
				t.Errorf("after the end came %q", lines.Text())
			}
			if n := s.stored(); n != 1 {
				t.Errorf("%d jobs are stored, want 1", n)
			}
			s.lasting(0)
		})
	}
}

// TestRecheck: a check of the tokens takes over grants that still suffice, and one that cannot read
// the tokens ends nothing that has not expired.
func TestRecheck(t *testing.T) {
	s := newSite(t, Options{})
	r := s.revocable(access.Grant{Verbs: []access.Verb{access.VerbWork}})
	d := s.server.door
	who, err := d.find(t.Context(), strings.TrimPrefix(r.header, "Authorization: Bearer "))
	if err != nil {
		t.Fatal(err)
	}
	ctx, l, forget := s.server.last(t.Context(), holderOf(who), func(h *holder) error { return h.may(access.VerbWork, "q", "k") })
	defer forget()
	r.change(func(t *access.Token) {
		t.Grants = []access.Grant{{Verbs: []access.Verb{access.VerbWork}, Queue: "q"}}
	})
	s.forget()
	s.server.recheckOnce()
	if ctx.Err() != nil || l.who.Load().allows(access.VerbWork, "other", "k") {
		t.Errorf("narrowed grants that suffice: %v, %+v", ctx.Err(), l.who.Load().caller)
	}
	d.mu.Lock()
	d.store, d.at = unreadable{d.store}, time.Time{}
	d.mu.Unlock()
	s.server.recheckOnce()
	if ctx.Err() != nil {
		t.Errorf("tokens that cannot be read: %v", denied(ctx))
	}
	r.ahead.Store(int64(2 * time.Hour))
	s.server.recheckOnce()
	if denied(ctx) == nil {
		t.Error("a token that has expired while the tokens cannot be read goes on")
	}
}
