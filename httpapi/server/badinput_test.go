package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// TestBadBodies sends bodies that are not valid jobs, and checks that nothing is stored. The
// numbers are those of the bad-input table.
func TestBadBodies(t *testing.T) {
	s := newSite(t, Options{Open: true, MaxBody: 1 << 20})
	deep := func(n int) string {
		return `{"kind":"k","args":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"1 empty", " \n", 400, "empty_body"},
		{"2 truncated", `{"kind":"k"`, 400, "malformed_json"},
		{"3 trailing bytes", `{"kind":"k"} x`, 400, "trailing_data"},
		{"3 two documents", `{"kind":"k"}{"kind":"k"}`, 400, "trailing_data"},
		{"4 duplicate name", `{"kind":"k","kind":"j"}`, 400, "duplicate_field"},
		{"4 duplicate name below", `{"kind":"k","policy":{"timeout":"1s","timeout":"2s"}}`, 400, "duplicate_field"},
		{"4 duplicate name in args", `{"kind":"k","args":{"a":1,"a":2}}`, 400, "duplicate_field"},
		{"5 wrong case", `{"Kind":"k"}`, 422, "unknown_field"},
		{"5 unknown", `{"kind":"k","prioritty":1}`, 422, "unknown_field"},
		{"5 unknown below", `{"kind":"k","policy":{"time_out":"1s"}}`, 422, "unknown_field"},
		{"6 invalid UTF-8", "{\"kind\":\"k\",\"key\":\"\xff\"}", 400, "invalid_utf8"},
		{"6 lone surrogate", `{"kind":"k","key":"\ud800"}`, 400, "invalid_utf8"},
		{"7 invalid UTF-8 in args", "{\"kind\":\"k\",\"args\":\"\xff\"}", 400, "invalid_utf8"},
		{"8 NUL in kind", `{"kind":"k\u0000"}`, 422, "invalid"},
		{"8 NUL in key", `{"kind":"k","key":"a\u0000b"}`, 422, "invalid"},
		{"8 NUL in tag", `{"kind":"k","tags":["\u0000"]}`, 422, "invalid"},
		{"10 depth", deep(64), 422, "too_deep"},
		{"10 great depth", deep(10_001), 422, "too_deep"},
		{"13 args above the limit", `{"kind":"k","args":"` + strings.Repeat("x", sojourn.DefaultMaxBytes) + `"}`, 413, "too_large"},
		{"31 long key", `{"kind":"k","key":"` + strings.Repeat("x", 256) + `"}`, 422, "invalid"},
		{"31 blank key", `{"kind":"k","key":" "}`, 422, "invalid"},
		{"32 far run_at", `{"kind":"k","run_at":"9999-01-01T00:00:00Z"}`, 422, "invalid"},
		{"32 run_at number", `{"kind":"k","run_at":1e400}`, 422, "invalid"},
		{"32 run_at word", `{"kind":"k","run_at":"tomorrow"}`, 422, "invalid"},
		{"32 run_at without zone", `{"kind":"k","run_at":"2026-01-01T00:00:00"}`, 422, "invalid"},
		{"33 negative delay", `{"kind":"k","delay":"-1s"}`, 422, "invalid"},
		{"33 huge delay", `{"kind":"k","delay":"900000h"}`, 422, "invalid"},
		{"33 delay overflow", `{"kind":"k","delay":"9223372036854775808ns"}`, 422, "invalid"},
		{"33 delay number", `{"kind":"k","delay":5}`, 422, "invalid"},
		{"33 float", `{"kind":"k","priority":1.5}`, 422, "invalid"},
		{"33 exponent", `{"kind":"k","priority":1e3}`, 422, "invalid"},
		{"33 2^63", `{"kind":"k","priority":9223372036854775808}`, 422, "invalid"},
		{"34 weight", `{"kind":"k","weight":-1}`, 422, "invalid"},
		{"35 max_attempts", `{"kind":"k","policy":{"max_attempts":-2}}`, 422, "invalid"},
		{"37 window", `{"kind":"k","policy":{"windows":[[{"start":"22:00","end":"06:00","zone":"Mars"}]]}}`, 422, "invalid"},
		{"a word that is none", `{"kind":"k","on_conflict":"explode"}`, 422, "invalid"},
		{"base64 that is none", `{"kind":"k","args":{"$base64":"%"}}`, 422, "invalid"},
		{"base64 with company", `{"kind":"k","args":{"$base64":"AA==","a":1}}`, 422, "invalid"},
		{"null", `null`, 422, "invalid"},
		{"array", `[]`, 422, "invalid"},
		{"no kind", `{}`, 422, "invalid"},
		{"id too large", `{"kind":"k","id":9007199254740992}`, 422, "invalid"},
	} {
		a := s.send(http.MethodPost, "/v1/jobs", c.body)
		s.want(c.name, a, c.status, c.code)
		if len(a.body) > 2000 {
			t.Errorf("%s: the answer has %d bytes", c.name, len(a.body))
		}
	}
	if n := s.stored(); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
}

// TestBadRequests sends requests with invalid sizes, headers, paths, parameters and batches.
func TestBadRequests(t *testing.T) {
	s := newSite(t, Options{Open: true, MaxBody: 1 << 20})
	job := `{"kind":"k"}`
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 8<<20))
	_ = z.Close()
	var small bytes.Buffer
	z = gzip.NewWriter(&small)
	_, _ = z.Write([]byte(job))
	_ = z.Close()
	s.want("11 long body", s.raw("POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n"), 413, "body_too_large")
	s.want("12 long chunked body", s.raw("POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20+1, strings.Repeat(" ", 1<<20+1))), 413, "body_too_large")
	s.want("2 cut body", s.raw("POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"+job), 400, "malformed_json")
	s.want("14 gzip bomb", s.send(http.MethodPost, "/v1/jobs", bomb.String(), "Content-Encoding: gzip"), 413, "body_too_large")
	s.want("14 unknown encoding", s.send(http.MethodPost, "/v1/jobs", job, "Content-Encoding: br"), 415, "unsupported_encoding")
	s.want("15 content type", s.send(http.MethodPost, "/v1/jobs", job, "Content-Type: text/plain"), 415, "unsupported_media_type")
	s.want("17 method", s.send(http.MethodPatch, "/v1/jobs", job), 405, "method_not_allowed")
	s.want("17 path", s.send(http.MethodGet, "/v2/jobs", ""), 404, "no_such_route")
	s.want("21 token in the URL", s.send(http.MethodGet, "/v1/jobs?token=sj_abc", ""), 400, "token_in_url")
	s.want("41 empty batch", s.send(http.MethodPost, "/v1/jobs/batch", `{"jobs":[]}`), 200, "")
	s.want("41 large batch", s.send(http.MethodPost, "/v1/jobs/batch", `{"jobs":[`+strings.Repeat(job+",", 1000)+job+`]}`), 422, "invalid")
	s.want("40 one bad item", s.send(http.MethodPost, "/v1/jobs/batch", `{"jobs":[`+job+`,{"kind":""}]}`), 422, "invalid")
	s.want("53 negative wait", s.send(http.MethodGet, "/v1/jobs?id=1&wait=-1s", ""), 422, "invalid")
	s.want("54 many kinds", s.send(http.MethodPost, "/v1/claim", `{"worker":"w","max":1,"queues":["q"],"kinds":[`+strings.Repeat(`"k",`, 300)+`"k"]}`), 422, "invalid")
	s.want("55 limit", s.send(http.MethodGet, "/v1/jobs?limit=1000000000", ""), 422, "invalid")
	s.want("5 unknown parameter", s.send(http.MethodGet, "/v1/jobs?quue=a", ""), 422, "unknown_field")
	s.want("57 id", s.send(http.MethodGet, "/v1/jobs/abc", ""), 404, "not_found")
	s.want("57 negative id", s.send(http.MethodGet, "/v1/jobs/-1", ""), 404, "not_found")
	s.want("57 large id", s.send(http.MethodGet, "/v1/jobs/18446744073709551616", ""), 404, "not_found")
	s.want("58 name", s.send(http.MethodDelete, "/v1/queues/..%2F..%2Fetc", ""), 404, "not_found")
	s.want("59 length and chunks", s.raw("POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n"), 501, "")
	s.want("62 a name for this machine", s.raw("GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403, "cross_origin")
	s.want("62 another origin", s.send(http.MethodPost, "/v1/jobs", job, "Sec-Fetch-Site: cross-site"), 403, "cross_origin")
	if n := s.stored(); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
	s.want("14 gzip", s.send(http.MethodPost, "/v1/jobs", small.String(), "Content-Encoding: gzip"), 201, "")
	s.want("9 any bytes as JSON", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","args":{"$base64":"AAH/"}}`), 422, "invalid_json")
	s.want("9 any bytes", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","content_type":"application/octet-stream","args":{"$base64":"AAH/"}}`), 201, "")
	s.want("9 raw bytes", s.send(http.MethodPost, "/v1/jobs/raw?kind=k", "\x00\x01\xff", "Content-Type: application/x-thing"), 201, "")
	s.want("9 bytes that are said to be JSON", s.send(http.MethodPost, "/v1/jobs/raw?kind=k", `{"a":`, "Content-Type: application/json"), 422, "invalid_json")
	if n := s.stored(); n != 3 {
		t.Errorf("%d jobs are stored, want 3", n)
	}
}

// TestOtherSpellings: one id has one spelling, in a path, in a query and in a body.
func TestOtherSpellings(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("a job", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	for _, id := range []string{"01", "+1", "%31", "1.0", "1e0", "0x1", "%2b1", "-0", "%201", "1%20", "٣"} {
		for _, path := range []string{"/v1/jobs/" + id, "/v1/jobs/" + id + "/args", "/v1/jobs/" + id + "/history", "/v1/jobs/" + id + "/why"} {
			if a := s.raw("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); a.status != 404 && a.status != 400 || a.code == "" && a.status != 400 {
				t.Errorf("%s: answered %d %s", path, a.status, a.body)
			}
		}
	}
	for _, id := range []string{"01", "%2b1", "1.0", "1e0", "%201"} {
		s.want("a query with "+id, s.send(http.MethodGet, "/v1/jobs?id="+id, ""), 422, "invalid")
	}
	for id, want := range map[string]int{"01": 400, "+1": 400, `"1"`: 422, `"01"`: 422, "1.0": 422, "1e0": 422} {
		for path, body := range map[string]string{"/v1/jobs": `{"kind":"k","id":%s}`, "/v1/jobs/find": `{"ids":[%s]}`} {
			if a := s.send(http.MethodPost, path, fmt.Sprintf(body, id)); a.status != want || a.code == "" {
				t.Errorf("%s with the id %s in its body: answered %d %s, want %d", path, id, a.status, a.body, want)
			}
		}
	}
	s.want("the job", s.send(http.MethodGet, "/v1/jobs/1", ""), 200, "")
	s.want("the job by a query", s.send(http.MethodGet, "/v1/jobs?id=1", ""), 200, "")
}

// TestEncodings: a compressed body without a Content-Encoding, or with an unsupported one, is not
// reported as malformed.
func TestEncodings(t *testing.T) {
	s := newSite(t, Options{Open: true})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("{\"kind\":\"k\"}\n"))
	_ = z.Close()
	body := packed.String()
	for name, a := range map[string]answer{
		"a stream as gzip":               s.send(http.MethodPost, "/v1/jobs/stream", body, "Content-Type: "+ndjsonType, "Content-Encoding: gzip"),
		"a stream that is gzip":          s.send(http.MethodPost, "/v1/jobs/stream", body, "Content-Type: "+ndjsonType),
		"a job that is gzip":             s.send(http.MethodPost, "/v1/jobs", body),
		"a job as br":                    s.send(http.MethodPost, "/v1/jobs", body, "Content-Encoding: br"),
		"a job as gzip twice":            s.send(http.MethodPost, "/v1/jobs", body, "Content-Encoding: gzip, gzip"),
		"a raw job as zstd":              s.send(http.MethodPost, "/v1/jobs/raw?kind=k", body, "Content-Encoding: zstd"),
		"a claim that is gzip":           s.send(http.MethodPost, "/v1/claim", body),
		"an outcome as deflate":          s.send(http.MethodPost, "/v1/finish", body, "Content-Encoding: deflate"),
		"settings of a queue as deflate": s.send(http.MethodPut, "/v1/queues/q", body, "Content-Encoding: deflate"),
	} {
		s.want(name, a, 415, "unsupported_encoding")
		if !strings.Contains(a.body, "Content-Encoding") {
			t.Errorf("%s: %s does not name the header", name, a.body)
		}
	}
	if n := s.stored(); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
	s.want("gzip in capitals", s.send(http.MethodPost, "/v1/jobs", body, "Content-Encoding: GZIP"), 201, "")
	s.want("raw bytes that are gzip", s.send(http.MethodPost, "/v1/jobs/raw?kind=k", body, "Content-Type: application/gzip"), 201, "")
}

// TestLongHeaders: 16 KiB of headers are taken, and one byte more is refused.
func TestLongHeaders(t *testing.T) {
	s := newSite(t, Options{Open: true})
	h := httptest.NewUnstartedServer(nil)
	h.Config = s.server.HTTP(0)
	h.Start()
	t.Cleanup(h.Close)
	s.url = h.URL
	const around = "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: \r\n"
	long := func(n int) answer {
		return s.raw("GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("x", n-len(around)) + "\r\n\r\n")
	}
	s.want("16 KiB", long(MaxHeader), 200, "")
	s.want("16 KiB and a byte", long(MaxHeader+1), 431, "header_too_large")
	s.want("30 KiB", long(30<<10), 431, "header_too_large")
	s.want("64 KiB", long(64<<10), 431, "")
	s.want("a long path", s.raw("GET /v1/jobs/"+strings.Repeat("1", MaxHeader)+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 431, "header_too_large")
}

// TestErrorDetails (spec:J8): the detail of an error may have what args may not show, so it needs
// the grant read:args.
func TestErrorDetails(t *testing.T) {
	s := newSite(t, Options{})
	all := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbEnqueue, access.VerbWork, access.VerbRead, access.VerbReadArgs}, Queue: "pay"})
	s.want("enqueue", s.send(http.MethodPost, "/v1/jobs", `{"kind":"charge","queue":"pay"}`, all), 201, "")
	var claimed struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	a := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["pay"],"kinds":["charge"],"max":1}`, all)
	if err := json.Unmarshal([]byte(a.body), &claimed); err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("claim: %s", a.body)
	}
	s.want("finish", s.send(http.MethodPost, "/v1/finish",
		`{"outcomes":[{"type":"abort","reason":"declined","error":"no","error_detail":{"hidden":[1]},"lease":`+string(claimed.Jobs[0].Lease)+`}]}`, all), 200, "")
	groups := s.send(http.MethodGet, "/v1/failures", "", all)
	group := regexp.MustCompile(`"id":"([0-9a-f]{16})"`).FindStringSubmatch(groups.body)
	if group == nil {
		t.Fatalf("no failure group: %s", groups.body)
	}
	for verb, sees := range map[access.Verb]bool{access.VerbRead: false, access.VerbReadArgs: true} {
		token := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbRead, verb}, Queue: "pay"})
		everywhere := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbRead, verb}})
		for _, path := range []string{"/v1/jobs/1", "/v1/jobs/1/history", "/v1/failures/" + group[1]} {
			for _, who := range []string{token, everywhere} {
				a := s.send(http.MethodGet, path, "", who)
				s.want(path, a, 200, "")
				if strings.Contains(a.body, `"error_detail":{"hidden":[1]}`) != sees {
					t.Errorf("%s with %s: %s", path, verb, a.body)
				}
			}
		}
	}
}

// TestLocation: only an admin learns where the store is.
func TestLocation(t *testing.T) {
	s := newSiteAt(t, Options{}, filepath.Join(t.TempDir(), "hidden.db"))
	for verb, sees := range map[access.Verb]bool{access.VerbRead: false, access.VerbReadArgs: false, access.VerbOperate: false, access.VerbAdmin: true} {
		token := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbRead, verb}})
		a := s.send(http.MethodGet, "/v1/status", "", token)
		s.want("status", a, 200, "")
		if strings.Contains(a.body, "hidden.db") != sees {
			t.Errorf("%s: %s", verb, a.body)
		}
	}
}
