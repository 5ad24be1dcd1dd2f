package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

const secret = "a secret of 16 bytes or more"

// stage is a receiver over a store, with jobs that wait.
type stage struct {
	*testing.T
	client  *sojourn.Client
	handler *Handler
	log     *bytes.Buffer
	mu      sync.Mutex
	handled []Handled
	claims  int64
}

// onBoth runs a test on both stores.
func onBoth(t *testing.T, test func(s *stage)) {
	t.Run("sqlite", func(t *testing.T) { test(newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))) })
	t.Run("postgres", func(t *testing.T) {
		test(newStage(t, must[*sojourn.Client](t)(postgres.Open(pgtest.URL(t), postgres.Schema(pgtest.NewSchema(t)), postgres.AutoMigrate()))))
	})
}

// match reads {"order", "kind"}.
func match(_ context.Context, m *source.Message) (*sojourn.Response, error) {
	var v struct{ Order, Kind string }
	if err := json.Unmarshal(m.Body, &v); err != nil {
		return nil, err
	}
	if v.Order == "" {
		return nil, nil
	}
	if v.Kind == "" {
		v.Kind = "charge"
	}
	return &sojourn.Response{Kind: v.Kind, Key: v.Order}, nil
}

func newStage(t *testing.T, c *sojourn.Client) *stage {
	t.Cleanup(func() { c.Close() })
	s := &stage{T: t, client: c, log: &bytes.Buffer{}}
	s.open(func(*Options) {})
	return s
}

func (s *stage) open(change func(*Options)) {
	o := Options{Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: func() time.Time { return noon }, MaxBytes: 1000,
		Observe: func(h Handled) { s.mu.Lock(); s.handled = append(s.handled, h); s.mu.Unlock() },
		Endpoints: []Endpoint{
			{Name: "bank", Verify: must[*Signed](s.T)(Standard(oldSecret, newSecret)), Match: match, Kinds: []string{"charge"}},
			{Name: "shop", Verify: must[Verifier](s.T)(Bearer(secret)), Kinds: []string{"charge"}, TTL: time.Hour},
			{Name: "careful", Verify: must[Verifier](s.T)(Bearer("another secret of some bytes")), Kinds: []string{"*"}, KnownOnly: true},
		}}
	change(&o)
	s.handler = must[*Handler](s.T)(New(s.client, o))
}

// awaiting is a new job that waits, as its worker saw it.
func (s *stage) awaiting(key string) sojourn.Job {
	s.Helper()
	j := s.running(key)
	s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeAwait})
	return j
}

func (s *stage) running(key string) sojourn.Job {
	s.Helper()
	must[sojourn.Enqueued](s)(s.client.Enqueue(s.Context(), sojourn.NewJob("charge", nil, sojourn.Key(key), sojourn.RetryBackoff(sojourn.Backoff{First: -1}))))
	return s.claim()
}

func (s *stage) claim() sojourn.Job {
	s.Helper()
	s.claims++
	got := must[[]driver.Claimed](s)(driver.Of(s.client).Claim(s.Context(), driver.ClaimRequest{Worker: "w", Number: s.claims, Queues: []string{"default"},
		Kinds: []string{"charge"}, Max: 1, Capacity: 1}))
	if len(got) != 1 {
		s.Fatalf("claimed %d jobs", len(got))
	}
	j := got[0].Job
	j.Epoch, j.Worker = got[0].Lease.Epoch, got[0].Lease.Worker
	return j
}

func (s *stage) finish(j sojourn.Job, o sojourn.Outcome) {
	s.Helper()
	o.Lease = j.Lease()
	if f := must[[]driver.Finished](s)(driver.Of(s.client).Finish(s.Context(), []sojourn.Outcome{o})); f[0].Status != driver.FinishApplied {
		s.Fatal(f[0])
	}
}

// post sends a request to the handler and returns status and body.
func (s *stage) post(path, body string, h http.Header) (int, string) {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header = h.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// gets posts and wants a status and a word in the answer.
func (s *stage) gets(status int, word, path, body string, h http.Header) {
	s.Helper()
	if got, text := s.post(path, body, h); got != status || !strings.Contains(text, `"`+word+`"`) {
		s.Errorf("POST %s: %d %s; want %d %q", path, got, text, status, word)
	}
}

// unchanged does something and wants the store to be as it was.
func (s *stage) unchanged(do func()) {
	s.Helper()
	before := s.everything()
	do()
	if after := s.everything(); after != before {
		s.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func (s *stage) everything() string {
	s.Helper()
	jobs := must[[]sojourn.Job](s)(s.client.Store().Find(s.Context(), sojourn.Filter{Full: true}))
	return asJSON(s, []any{jobs, s.inbox()})
}

func asJSON(s *stage, v any) string {
	s.Helper()
	return string(must[[]byte](s)(json.Marshal(v)))
}

func (s *stage) inbox() []sojourn.Response {
	s.Helper()
	return must[[]sojourn.Response](s)(s.client.Store().Inbox(s.Context(), sojourn.InboxFilter{}))
}

func bearerOf(secret string, pairs ...string) http.Header {
	return header(append([]string{"Authorization", "Bearer " + secret}, pairs...)...)
}

// A message whose signature is wrong is refused before its body is parsed, and nothing changes.
func TestNotVerified(t *testing.T) {
	onBoth(t, func(s *stage) {
		s.awaiting("42")
		parsed := false
		s.open(func(o *Options) {
			o.Endpoints[0].Match = func(ctx context.Context, m *source.Message) (*sojourn.Response, error) {
				parsed = true
				return match(ctx, m)
			}
		})
		const body = `{"order":"42"}`
		s.unchanged(func() {
			s.gets(401, "bad_signature", "/webhook/bank", body+" ", sign(s, newSecret, "m1", noon, body))
			s.gets(401, "bad_signature", "/webhook/bank", body, nil)
			s.gets(401, "stale", "/webhook/bank", body, sign(s, newSecret, "m1", noon.Add(-6*time.Minute), body))
			s.gets(401, "stale", "/webhook/bank", body, sign(s, newSecret, "m1", noon.Add(6*time.Minute), body))
			s.gets(401, "bad_signature", "/respond/charge/42", body, bearerOf("a wrong secret of this test"))
			s.gets(401, "bad_signature", "/respond/charge/42", body, nil)
		})
		if parsed {
			s.Error("a message was parsed before it was verified")
		}
		s.gets(200, "applied", "/webhook/bank", body, sign(s, newSecret, "m1", noon, body))
	})
}

// A replayed id is a duplicate, an unknown key early, a final job late.
func TestWhatBecomesOfAMessage(t *testing.T) {
	onBoth(t, func(s *stage) {
		j := s.awaiting("42")
		const body = `{"order":"42"}`
		s.gets(200, "applied", "/webhook/bank", body, sign(s, newSecret, "m1", noon, body))
		again := s.claim()
		s.gets(200, "duplicate", "/webhook/bank", body, sign(s, oldSecret, "m1", noon.Add(time.Minute), body)) // sent again, signed anew
		if again.Response == nil || string(again.Response.Body) != body || again.Response.Source != "bank" || again.Response.MessageID != "m1" {
			s.Errorf("in hand: %+v", again.Response)
		}
		s.gets(200, "early", "/webhook/bank", body, sign(s, newSecret, "m2", noon, body)) // the job keeps it
		s.finish(again, sojourn.Outcome{Type: sojourn.OutcomeCompleted})
		final := must[*sojourn.Job](s)(s.client.Get(s.Context(), j.ID))
		s.gets(200, "late", "/webhook/bank", body, sign(s, newSecret, "m3", noon, body))
		if now := must[*sojourn.Job](s)(s.client.Get(s.Context(), j.ID)); asJSON(s, now) != asJSON(s, final) {
			s.Errorf("a late answer has changed the job: %+v", now)
		}
		s.gets(202, "early", "/webhook/bank", `{"order":"43"}`, sign(s, newSecret, "m4", noon, `{"order":"43"}`))
		s.gets(200, "passed_over", "/webhook/bank", `{}`, sign(s, newSecret, "m5", noon, `{}`))
		s.gets(202, "parked", "/webhook/bank", `{`, sign(s, newSecret, "m6", noon, `{`))
		s.gets(202, "parked", "/webhook/bank", `{"order":"a\nb"}`, sign(s, newSecret, "m7", noon, `{"order":"a\nb"}`)) // no key of ours
		s.gets(202, "parked", "/webhook/bank", `{`, sign(s, newSecret, "m8", noon, `{`))
		s.gets(200, "duplicate", "/webhook/bank", `{`, sign(s, newSecret, "m8", noon, `{`))
		s.unchanged(func() {
			s.gets(403, "kind_not_allowed", "/webhook/bank", `{"order":"42","kind":"refund"}`, sign(s, newSecret, "m9", noon, `{"order":"42","kind":"refund"}`))
		})
		var outcomes []sojourn.ResponseOutcome
		for _, r := range s.inbox() {
			outcomes = append(outcomes, r.Outcome)
		}
		if got := fmt.Sprint(outcomes); got != "[parked parked parked early late late applied]" {
			s.Error("the inbox, newest first:", got)
		}
	})
}

// The receiver does not look into a body that it need not understand.
func TestPlain(t *testing.T) {
	onBoth(t, func(s *stage) {
		s.awaiting("a/b")
		raw := "{\x00\xff"
		s.gets(200, "applied", "/respond/charge/a%2Fb", raw, bearerOf(secret, "Content-Type", "application/x-raw", "Idempotency-Key", "k1"))
		r := s.claim().Response
		if r == nil || string(r.Body) != raw || r.ContentType != "application/x-raw" || r.Source != "shop" || r.MessageID != "k1" {
			s.Errorf("%+v", r)
		}
		s.gets(200, "duplicate", "/respond/charge/a%2Fb", raw, bearerOf(secret, "Idempotency-Key", "k1"))
		s.gets(400, "invalid_json", "/respond/charge/a%2Fb", raw, bearerOf(secret, "Content-Type", "application/json", "Idempotency-Key", "k2")) // unless it is said to be JSON
		s.gets(202, "early", "/respond/charge/nobody", "", bearerOf(secret))
		if early := s.inbox()[0]; early.ExpiresAt.Sub(early.ReceivedAt) != time.Hour {
			s.Errorf("the time to live of the endpoint: %+v", early)
		}
		s.unchanged(func() {
			s.gets(403, "kind_not_allowed", "/respond/refund/1", "", bearerOf(secret))
			s.gets(404, "unknown_key", "/respond/charge/unknown", "", bearerOf("another secret of some bytes"))
			s.gets(400, "invalid", "/respond/charge/%0a", "", bearerOf(secret))
			s.gets(400, "invalid", "/respond/charge/k", "", bearerOf(secret, "Webhook-Id", strings.Repeat("x", 256)))
			for _, path := range []string{"/", "/respond", "/respond/", "/respond/charge/", "/respond//k", "/respond/charge/a/b", "/respond/charge/../x", "/webhook/shop", "/webhook/none",
				"/webhook", "/webhook/bank/x"} {
				u := &url.URL{Path: path}
				if clean, err := url.Parse(path); err == nil {
					u = clean
				}
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, &http.Request{Method: "POST", URL: u, Header: bearerOf(secret), Body: http.NoBody})
				if w.Code != 404 {
					s.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		})
		s.gets(200, "early", "/respond/charge/a%2Fb", "", bearerOf("another secret of some bytes"))
	})
}

// A capability answers one wait of one job: an older, a used, an expired and a foreign one change
// nothing (spec:H6, tr:R4).
func TestCapability(t *testing.T) {
	onBoth(t, func(s *stage) {
		j := s.running("42")
		old := j.Token
		s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeError, Reason: "busy", Text: "busy"})
		j = s.claim()
		if j.Attempt != 2 {
			s.Fatalf("attempt %d", j.Attempt)
		}
		s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeAwait})
		expired := must[string](s)(access.Expiring(j.Token, time.Now().Add(-time.Hour)))
		soon := must[string](s)(access.Expiring(j.Token, time.Now().Add(time.Hour)))
		before := must[*sojourn.Job](s)(s.client.Get(s.Context(), j.ID))
		s.gets(200, "stale", "/respond/"+old, "yes", nil)
		s.gets(200, "stale", "/respond/"+expired, "yes", nil)
		if after := must[*sojourn.Job](s)(s.client.Get(s.Context(), j.ID)); asJSON(s, after) != asJSON(s, before) {
			s.Errorf("a stale capability has changed the job: %+v", after)
		}
		s.unchanged(func() {
			foreign := access.NewCapability([]byte("the secret of another store"), j.ID, 1, 2, 0)
			for _, bad := range []string{foreign, j.Token + "x", "1.1.1", "x", strings.Repeat("1", 300), strings.Replace(soon, ".", ".0", 1)} {
				s.gets(404, "not_found", "/respond/"+bad, "yes", nil)
			}
		})
		s.gets(200, "applied", "/respond/"+soon, "yes", header("Content-Type", "text/plain", "Webhook-Id", "click-1"))
		s.gets(200, "duplicate", "/respond/"+soon, "yes", header("Webhook-Id", "click-1"))
		s.gets(200, "stale", "/respond/"+soon, "yes", nil) // the second click
		j = s.claim()
		if r := j.Response; r == nil || string(r.Body) != "yes" || r.Source != CapabilitySource {
			s.Errorf("%+v", r)
		}
		s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeCompleted})
		s.gets(200, "late", "/respond/"+j.Token, "no", nil)
		for _, token := range []string{old, expired, soon, j.Token} {
			if strings.Contains(s.log.String(), token) || strings.Contains(s.everything(), token[strings.LastIndexByte(token, '.'):]) {
				s.Errorf("a token is in the log or in the store:\n%s", s.log)
			}
		}
		s.open(func(o *Options) { o.NoCapabilities = true })
		s.gets(404, "not_found", "/respond/"+j.Token, "no", nil)
	})
}

func TestLimits(t *testing.T) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:", sqlite.MaxBytes(900))))
	s.awaiting("42")
	s.unchanged(func() {
		s.gets(413, "body_too_large", "/respond/charge/42", strings.Repeat("x", 1001), bearerOf(secret))
		s.gets(413, "body_too_large", "/respond/charge/42", strings.Repeat("x", 901), bearerOf(secret)) // of the store
		s.gets(415, "content_encoding", "/respond/charge/42", "x", bearerOf(secret, "Content-Encoding", "gzip"))
		for _, method := range []string{"GET", "PUT", "HEAD", "DELETE"} {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, httptest.NewRequest(method, "/respond/charge/42", nil))
			if w.Code != 405 || w.Header().Get("Allow") != "POST" {
				t.Errorf("%s: %d %v", method, w.Code, w.Header())
			}
		}
		// A body of unknown length is cut off at the limit.
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/respond/charge/42", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001)), neverEnds{t}))
		r.Header, r.ContentLength = bearerOf(secret), -1
		if s.handler.ServeHTTP(w, r); w.Code != 413 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	s.gets(200, "applied", "/respond/charge/42", strings.Repeat("x", 900), bearerOf(secret, "Content-Encoding", "identity"))
}

// neverEnds is the rest of a body that must never be read.
type neverEnds struct{ t *testing.T }

func (n neverEnds) Read([]byte) (int, error) {
	n.t.Error("the body is read beyond the limit")
	return 0, io.EOF
}

// Message ids of different keys of an endpoint are independent. The same id and key with another
// body is a conflict: the sender gets an error, and the message is stored in the inbox, once. The
// same holds for capability URLs, whose ids belong to one wait of one job.
func TestMessageIDs(t *testing.T) {
	onBoth(t, func(s *stage) {
		a, b := s.running("42"), s.running("43")
		for _, j := range []sojourn.Job{a, b} {
			s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeAwait})
		}
		const one, other, changed = `{"order":"42"}`, `{"order":"43"}`, `{"order":"42","amount":1}`
		s.gets(200, "applied", "/webhook/bank", one, sign(s, newSecret, "m1", noon, one))
		s.gets(200, "applied", "/webhook/bank", other, sign(s, newSecret, "m1", noon, other))
		s.gets(200, "duplicate", "/webhook/bank", one, sign(s, newSecret, "m1", noon, one))
		for range 2 {
			s.gets(409, "conflict", "/webhook/bank", changed, sign(s, newSecret, "m1", noon, changed))
		}
		s.gets(409, "conflict", "/webhook/bank", `{"order":"42","amount":2}`, sign(s, newSecret, "m1", noon, `{"order":"42","amount":2}`))
		a, b = s.claim(), s.claim()
		for _, j := range []sojourn.Job{a, b} {
			s.finish(j, sojourn.Outcome{Type: sojourn.OutcomeAwait})
		}
		s.gets(200, "applied", "/respond/"+a.Token, "yes", header("Webhook-Id", "1"))
		s.gets(200, "applied", "/respond/"+b.Token, "no", header("Webhook-Id", "1"))
		s.gets(200, "duplicate", "/respond/"+b.Token, "no", header("Webhook-Id", "1"))
		s.gets(409, "conflict", "/respond/"+b.Token, "yes", header("Webhook-Id", "1"))
		s.gets(202, "early", "/respond/charge/x", "1", bearerOf(secret, "Idempotency-Key", "k1"))
		s.gets(202, "early", "/respond/charge/y", "1", bearerOf(secret, "Idempotency-Key", "k1"))
		s.gets(409, "conflict", "/respond/charge/y", "2", bearerOf(secret, "Idempotency-Key", "k1"))
		var outcomes []string
		for _, r := range s.inbox() {
			outcomes = append(outcomes, fmt.Sprint(r.Outcome, " ", r.Source, " ", r.MessageID, " ", r.Duplicates))
		}
		if got := strings.Join(outcomes, ", "); got != "conflict shop k1 0, early shop k1 0, early shop k1 0, conflict capability 1 0, applied capability 1 1, applied capability 1 0, "+
			"conflict bank m1 0, conflict bank m1 1, applied bank m1 0, applied bank m1 1" {
			s.Error("the inbox, newest first:", got)
		}
	})
}
