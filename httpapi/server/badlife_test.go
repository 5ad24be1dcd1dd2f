package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// claimed takes the job of a kind and gives its lease as JSON.
func (s *site) claimed(kind string) string {
	s.Helper()
	a := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["`+kind+`"],"max":1,"lease":"1m"}`)
	var got struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Jobs) != 1 {
		s.Fatalf("claim of %s: %d %s", kind, a.status, a.body)
	}
	return string(got.Jobs[0].Lease)
}

// finish reports an outcome under a lease.
func (s *site) finish(lease, rest string) answer {
	s.Helper()
	return s.send(http.MethodPost, "/v1/finish", `{"outcomes":[{"lease":`+lease+`,`+rest+`}]}`)
}

func (s *site) contains(what string, a answer, status int, texts ...string) {
	s.Helper()
	for _, text := range texts {
		if a.status != status || !strings.Contains(a.body, text) {
			s.Errorf("%s: answered %d %.600s, want %d with %s", what, a.status, a.body, status, text)
		}
	}
}

// TestBadReports sends invalid leases and outcomes. The numbers are those of the bad-input table.
func TestBadReports(t *testing.T) {
	s := newSite(t, Options{Open: true, MaxBody: 4 << 20})
	put := func(kind, rest string) {
		t.Helper()
		s.want("enqueue "+kind, s.send(http.MethodPost, "/v1/jobs", `{"kind":"`+kind+`"`+rest+`}`), 201, "")
	}
	put("a", `,"policy":{"max_attempts":3}`)
	lease := s.claimed("a")
	old := strings.Replace(lease, `"epoch":1`, `"epoch":0`, 1)
	s.contains("43 old epoch", s.finish(old, `"type":"completed"`), 200, `"lost"`)
	s.contains("43 extend", s.send(http.MethodPost, "/v1/extend", `{"leases":[`+old+`]}`), 200, `"lost":[{"`)
	s.contains("48 large result", s.finish(lease, `"type":"completed","result":"`+strings.Repeat("x", sojourn.DefaultMaxBytes)+`"`), 200, `"too_large"`)
	s.contains("an outcome that is none", s.finish(lease, `"type":"done"`), 200, `"field":"type"`)
	s.contains("48 the lease is kept", s.send(http.MethodPost, "/v1/extend", `{"leases":[`+lease+`]}`), 200, `"lost":[]`)
	s.contains("9 any bytes as a JSON result", s.finish(lease, `"type":"completed","result":{"$base64":"AP8="}`), 200, `"refused"`, `"invalid_json"`)
	bytes := `"type":"completed","result_type":"application/octet-stream","result":{"$base64":"AP8="}`
	s.contains("9 any bytes in a result", s.finish(lease, bytes), 200, `"applied"`)
	if a := s.send(http.MethodGet, "/v1/jobs/1/result", ""); a.body != "\x00\xff" || a.head.Get("Content-Disposition") != "attachment" {
		t.Errorf("the result came back as %q %v", a.body, a.head)
	}
	s.contains("44 the same again", s.finish(lease, bytes), 200, `"outcomes":[{"status":"`, `"state":"completed"`)
	s.contains("45 another outcome", s.finish(lease, `"type":"error","error":"x"`), 200, `"lost"`)
	s.contains("50 edit a final job", s.send(http.MethodPost, "/v1/jobs/edit", `{"filter":{"ids":[1]},"edit":{"action":"cancel"}}`), 200, `"conflict"`)
	put("b", "")
	lease = s.claimed("b")
	s.contains("49 long error", s.finish(lease, `"type":"error","error":"`+strings.Repeat("e", 10<<20)+`"`), 200, `"applied"`)
	if j, err := s.client.Get(t.Context(), 2); err != nil || len(j.Error) == 0 || len(j.Error) > sojourn.MaxError {
		t.Errorf("the error has %d bytes, %v", len(j.Error), err)
	}
	put("c", "")
	lease = s.claimed("c")
	s.contains("51 change a running job", s.send(http.MethodPost, "/v1/jobs/edit", `{"filter":{"ids":[3]},"edit":{"action":"change","change":{"args":1}}}`), 200, `"conflict"`)
	s.contains("47 cancel", s.send(http.MethodPost, "/v1/jobs/edit", `{"filter":{"ids":[3]},"edit":{"action":"cancel"}}`), 200, `"changed":1`)
	s.contains("47 extend after cancel", s.send(http.MethodPost, "/v1/extend", `{"leases":[`+lease+`]}`), 200, `"reason":"cancelled"`)
	for _, max := range []string{"0", "-1"} {
		s.want("53 claim "+max, s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["a"],"max":`+max+`}`), 422, "invalid")
	}
	s.want("53 claim 10,000", s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["a"],"max":10000}`), 200, "")
	for _, id := range []string{"0", "9223372036854775807", "1.0", "1e0", "%201", "1%20", "0x1", "+1", "01-", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"} {
		if a := s.send(http.MethodGet, "/v1/jobs/"+id, ""); a.status != 404 && id != "+1" {
			t.Errorf("57 id %s: answered %d %s", id, a.status, a.body)
		}
	}
}

// TestBadJobs enqueues well-formed but invalid jobs, and valid jobs that look invalid.
func TestBadJobs(t *testing.T) {
	s := newSite(t, Options{Open: true})
	put := func(body string) answer { t.Helper(); return s.send(http.MethodPost, "/v1/jobs", body) }
	s.want("30 new", put(`{"kind":"k","key":"y"}`), 201, "")
	s.contains("30 there already", put(`{"kind":"k","key":"y"}`), 200, `"id":1`, `"duplicate":true`)
	s.want("30 on conflict error", put(`{"kind":"k","key":"y","on_conflict":"error"}`), 409, "conflict")
	ids := s.send(http.MethodPost, "/v1/ids", `{"count":1}`)
	id := strings.Trim(ids.body, "{}\n")[len(`"first":`):]
	s.want("27 an id", put(`{"kind":"k","id":`+id+`,"args":1}`), 201, "")
	s.contains("27 the same id again", put(`{"kind":"k","id":`+id+`,"args":1}`), 200, `"id":`+id, `"duplicate":true`)
	s.want("32 a time in the past means now", put(`{"kind":"past","run_at":"2001-01-01T00:00:00Z"}`), 201, "")
	s.claimed("past")
	s.want("35 one attempt", put(`{"kind":"k","policy":{"max_attempts":1}}`), 201, "")
	s.want("35 unlimited", put(`{"kind":"k","policy":{"max_attempts":-1}}`), 201, "")
	for what, window := range map[string]string{"a date that never comes": `[{"days":["mon"],"start":"22:00","end":"23:00","zone":"UTC","except":["2026-02-30"]}]`, "no zone": `[{"start":"22:00","end":"23:00","zone":"Atlantis/X"}]`,
		"no time": `[{"start":"25:00","end":"26:00","zone":"UTC"}]`} {
		s.want("37 "+what, put(`{"kind":"k","policy":{"windows":[`+window+`]}}`), 422, "invalid")
	}
	s.want("34 settings", s.send(http.MethodPut, "/v1/queues/small", `{"limit":2,"max_depth":1}`), 200, "")
	s.want("34 a weight above the limit", put(`{"kind":"k","queue":"small","weight":3}`), 422, "weight_exceeds_limit")
	s.want("23 room", put(`{"kind":"k","queue":"small"}`), 201, "")
	full := put(`{"kind":"k","queue":"small"}`)
	s.want("23 no room", full, 429, "queue_full")
	if full.head.Get("Retry-After") == "" || !strings.Contains(full.body, `"retryable":true`) {
		t.Errorf("23: %v %s", full.head, full.body)
	}
	part := s.send(http.MethodPost, "/v1/jobs/batch", `{"partial":true,"jobs":[{"kind":"k"},{"kind":""},{"kind":"k"}]}`)
	s.contains("40 each for itself", part, 200, `"error":{`, `"field":"kind"`, `"index":1`)
	s.want("56 a tag", put(`{"kind":"k","tags":["vip"]}`), 201, "")
	before := s.stored()
	for _, f := range []string{`{"key":"' or 1=1 --","kind":"k"}`, `{"tag":"%"}`, `{"queue":"a\\_%"}`, `{"group":"\"; drop table sj_job"}`} {
		if a := s.send(http.MethodPost, "/v1/jobs/find", f); a.status != 200 && a.status != 422 || strings.Contains(a.body, `"kind":"k"`) {
			t.Errorf("56 %s: answered %d %s", f, a.status, a.body)
		}
	}
	s.want("56 long", s.send(http.MethodPost, "/v1/jobs/find", `{"tag":"`+strings.Repeat("x", 1<<20)+`"}`), 422, "invalid")
	s.want("55 cursor", s.send(http.MethodGet, "/v1/jobs?after=abc", ""), 422, "invalid")
	s.want("55 twice", s.send(http.MethodGet, "/v1/jobs?after=1&after=2", ""), 422, "invalid")
	if n := s.stored(); n != before {
		t.Errorf("%d jobs are stored, %d before", n, before)
	}
}

// TestBadHeaders: a request's headers are honoured, or it is refused before it has any effect.
func TestBadHeaders(t *testing.T) {
	s := newSite(t, Options{Open: true})
	job := `{"kind":"k"}`
	s.want("16 XML", s.send(http.MethodPost, "/v1/jobs", job, "Accept: application/xml"), 406, "not_acceptable")
	s.want("15 no content type", s.raw("POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 12\r\n\r\n"+job), 415, "unsupported_media_type")
	for _, t := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/jsonp", "json", ";"} {
		a := s.send(http.MethodPost, "/v1/jobs", job, "Content-Type: "+t)
		s.want("15 "+t, a, 415, "unsupported_media_type")
		if a.head.Get("Accept-Post") != jsonType {
			s.Errorf("15 %s: %v", t, a.head)
		}
	}
	s.want("62 a foreign origin", s.send(http.MethodPost, "/v1/jobs", job, "Origin: https://evil.example"), 403, "cross_origin")
	preflight := s.send(http.MethodOptions, "/v1/jobs", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST")
	if preflight.status < 400 || preflight.head.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("63 preflight: %d %v", preflight.status, preflight.head)
	}
	if a := s.send(http.MethodPatch, "/v1/jobs", job); !strings.Contains(a.head.Get("Allow"), "POST") {
		t.Errorf("17: %v", a.head)
	}
	if a := s.send(http.MethodGet, "/v1/status", "", "X-Request-Id: a\tb"); a.head.Get("X-Request-Id") == "a\tb" {
		t.Error("a request id is taken over as it is")
	}
	if n := s.stored(); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
	s.want("16 among others", s.send(http.MethodPost, "/v1/jobs", job, "Accept: text/html, */*;q=0.1"), 201, "")
	s.want("15 with a charset", s.send(http.MethodPost, "/v1/jobs", job, "Content-Type: application/json; charset=utf-8"), 201, "")
}

// broken is a store that fails in the way a test asks for.
type broken struct {
	driver.Store
	err error
}

func (b broken) Enqueue(context.Context, []sojourn.Job, bool) ([]sojourn.Enqueued, error) {
	if b.err == nil {
		panic("planted")
	}
	return nil, b.err
}

// TestBrokenStore: trouble behind the server says whether something was stored, and tells nothing
// else.
func TestBrokenStore(t *testing.T) {
	secret := "host db.internal, password hunter2"
	for _, c := range []struct {
		err           error
		status        int
		code, outcome string
	}{
		{&sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: "the database does not answer"}, 503, "unavailable", "not_stored"},
		{&sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Message: "the answer did not come"}, 503, "unknown_outcome", "unknown"},
		{errors.New(secret), 500, "internal", "unknown"}, {nil, 500, "internal", "unknown"},
	} {
		s := newSite(t, Options{Open: true})
		s.server.client = sojourn.NewClient(broken{driver.Of(s.client), c.err})
		a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)
		s.want(fmt.Sprint(c.err), a, c.status, c.code)
		if !strings.Contains(a.body, `"outcome":"`+c.outcome+`"`) || strings.Contains(a.body, "hunter2") || c.status == 503 && a.head.Get("Retry-After") == "" {
			t.Errorf("%v: %v %s", c.err, a.head, a.body)
		}
		s.want("and goes on", s.send(http.MethodGet, "/v1/status", ""), 200, "")
	}
}

// TestDraining: new work is refused with advice, worker reports are still accepted.
func TestDraining(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("enqueue", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	lease := s.claimed("k")
	s.server.Drain()
	a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)
	s.want("enqueue while draining", a, 503, "draining")
	if a.head.Get("Retry-After") == "" || !strings.Contains(a.body, `"outcome":"not_stored"`) {
		t.Errorf("%v %s", a.head, a.body)
	}
	s.contains("extend while draining", s.send(http.MethodPost, "/v1/extend", `{"leases":[`+lease+`]}`), 200, `"lost":[]`)
	s.contains("finish while draining", s.finish(lease, `"type":"completed"`), 200, `"applied"`)
}

// TestRate: a token over its rate limit gets Retry-After; its worker reports have a separate
// bucket, four times as large.
func TestRate(t *testing.T) {
	s := newSite(t, Options{Rate: 5})
	grant := access.Grant{Verbs: []access.Verb{access.VerbAdmin}}
	one, two := s.token(time.Hour, grant), s.token(time.Hour, grant)
	count := func(path, token string) (taken int, last answer) {
		for range 40 {
			if last = s.send(http.MethodPost, path, `{}`, token); last.code == "rate_limited" {
				return taken, last
			}
			taken++
		}
		return taken, last
	}
	taken, refused := count("/v1/jobs/find", one)
	if taken < 5 || taken > 20 || refused.status != 429 || refused.head.Get("Retry-After") != "1" || refused.head.Get("RateLimit-Policy") != `"token";q=5;w=1` {
		t.Errorf("after %d: %d %v", taken, refused.status, refused.head)
	}
	if n, _ := count("/v1/extend", one); n < 20 {
		t.Errorf("only %d extensions in a second", n)
	}
	if n, _ := count("/v1/jobs/find", two); n < 5 {
		t.Errorf("another token got %d", n)
	}
}

// TestTransportSecurity: over TLS, and only there, Strict-Transport-Security is sent.
func TestTransportSecurity(t *testing.T) {
	s := newSite(t, Options{Open: true})
	for scheme, want := range map[string]string{"http": "", "https": strictTransport} {
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, scheme+"://127.0.0.1/v1/status", nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != want || w.Code != http.StatusOK {
			t.Errorf("over %s: %d %q, want %q", scheme, w.Code, got, want)
		}
	}
}

// TestNullResets: null in a patch of settings gives the setting back to the declared layer.
func TestNullResets(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("declare", s.send(http.MethodPut, "/v1/queues/q/declared", `{"limit":9,"fair":true}`), 200, "")
	s.want("update", s.send(http.MethodPatch, "/v1/queues/q", `{"limit":0,"fair":false}`), 200, "")
	a := s.send(http.MethodPatch, "/v1/queues/q", `{"limit":null}`)
	s.want("reset", a, 200, "")
	if !strings.Contains(a.body, `"settings":{"limit":9}`) || !strings.Contains(a.body, `"overrides":{"fair":false}`) {
		t.Errorf("after the reset: %s", a.body)
	}
	s.want("an unknown setting", s.send(http.MethodPatch, "/v1/queues/q", `{"limits":null}`), 422, "unknown_field")
	s.want("an old revision", s.send(http.MethodPatch, "/v1/queues/q", `{"limit":1,"revision":1}`), 409, "conflict")
}
