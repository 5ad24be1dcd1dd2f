package httpjob_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
)

// calls is a queue whose jobs of the kind http reach a receiver on loopback.
type calls struct {
	*sojourntest.Harness
	t   *testing.T
	url string
}

func receive(t *testing.T, o httpjob.Options, receiver http.HandlerFunc) *calls {
	t.Helper()
	s := httptest.NewServer(receiver)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	o.AllowHTTP, o.AllowPorts = true, []uint16{at.Port()}
	o.AllowCIDR = []netip.Prefix{netip.PrefixFrom(at.Addr(), at.Addr().BitLen())}
	h := sojourntest.New(t, sojourntest.WithWorker(worker.Options{RespondURL: "https://shop.example/in"}))
	sojourntest.Handle(h, httpjob.Kind, caller(t, o).Run)
	return &calls{h, t, s.URL}
}

// job enqueues one; URL stands for that of the receiver.
func (c *calls) job(args string, options ...sojourn.Option) sojourn.ID {
	c.t.Helper()
	return c.Enqueue(sojourn.NewJob(httpjob.KindName, []byte(strings.ReplaceAll(args, "URL", c.url)), options...))
}

func (c *calls) result(id sojourn.ID) (r httpjob.Result) {
	c.t.Helper()
	job := c.Job(id)
	b := job.Result
	if len(b) == 0 {
		b = job.Checkpoint
	}
	if err := json.Unmarshal(b, &r); err != nil {
		c.t.Fatalf("%v %s: %v in %q", job.State, job.Error, err, b)
	}
	return r
}

// TestRequest: what the receiver gets, and what the job has of its response.
func TestRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":  12345678901234567890}`))
	})
	id := c.job(`{"url": "URL/charges?a=b%20c", "headers": {"Authorization": "Bearer x", "x-mine": "1"}, "body": {"cents":  1999}}`)
	c.Step()
	h, job := got.Header, c.Job(id)
	if got.Method != "POST" || got.RequestURI != "/charges?a=b%20c" || string(body) != `{"cents":  1999}` || h.Get("Content-Type") != "application/json" ||
		h.Get("Authorization") != "Bearer x" || h.Get("X-Mine") != "1" || h.Get("Idempotency-Key") != job.IdempotencyKey() || h.Get("Sojourn-Job") != "1" ||
		h.Get("Sojourn-Attempt") != "1" || h.Get("Sojourn-Respond-Url") != "" || h.Get("Webhook-Id") != "" || h.Get("Accept-Encoding") != "" {
		t.Errorf("%s %s %v %q", got.Method, got.RequestURI, h, body)
	}
	if r := c.result(id); job.State != sojourn.Completed || r.Status != 201 || r.Headers["X-Answer"] != "yes" || string(r.Body) != `{"id":12345678901234567890}` || r.Truncated {
		t.Errorf("%v %s", job.State, job.Result)
	}
	c.job(`{"url": "URL", "method": "PUT", "headers": {"Content-Type": "image/png"}, "body": {"$base64": "iVBORw=="}}`)
	c.Step()
	if string(body) != "\x89PNG" || got.Method != "PUT" || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("%s %q %v", got.Method, body, got.Header)
	}
}

// A request carries the trace context of its job, unless the job names a header of its own.
func TestTraceContext(t *testing.T) {
	const trace, own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01"
	var got http.Header
	c := receive(t, httpjob.Options{}, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for args, want := range map[string]string{`{"url": "URL"}`: trace, `{"url": "URL", "headers": {"Traceparent": "` + own + `"}}`: own} {
		c.job(args, sojourn.Meta(sojourn.MetaTraceparent, trace), sojourn.Meta(sojourn.MetaTracestate, "a=1"))
		c.Step()
		if got.Get("Traceparent") != want || got.Get("Tracestate") != "a=1" {
			t.Errorf("%s: the request has %v", args, got)
		}
	}
	c.job(`{"url": "URL"}`, sojourn.Meta(sojourn.MetaTraceparent, "a\nb"))
	c.Step()
	if got.Get("Traceparent") != "" {
		t.Errorf("the request has %v", got)
	}
}

// TestStatuses: what follows from each status.
func TestStatuses(t *testing.T) {
	type row struct {
		status     int
		retryAfter string
		args       string
		state      sojourn.State
		reason     string
	}
	var s row
	c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Errorf("%d: a redirect was followed", s.status)
		}
		w.Header().Set("Location", "/elsewhere")
		if s.retryAfter != "" {
			w.Header().Set("Retry-After", s.retryAfter)
		}
		w.WriteHeader(s.status)
		if s.status != 204 && s.status != 304 {
			_, _ = w.Write([]byte("hidden words"))
		}
	})
	for _, s = range []row{
		{200, "", "", sojourn.Completed, ""}, {204, "", "", sojourn.Completed, ""}, {299, "", "", sojourn.Completed, ""},
		{301, "", "", sojourn.Failed, "http_301"}, {302, "", "", sojourn.Failed, "http_302"}, {304, "", "", sojourn.Failed, "http_304"}, {307, "", "", sojourn.Failed, "http_307"},
		{400, "", "", sojourn.Failed, "http_400"}, {401, "", "", sojourn.Failed, "http_401"}, {404, "", "", sojourn.Failed, "http_404"}, {410, "", "", sojourn.Failed, "http_410"},
		{404, "", `, "retry_on": [409, 404]`, sojourn.Scheduled, "http_404"}, {404, "5", `, "retry_on": [404]`, sojourn.Scheduled, "http_404"},
		{408, "", "", sojourn.Scheduled, "http_408"}, {425, "", "", sojourn.Scheduled, "http_425"}, {429, "", "", sojourn.Scheduled, "http_429"},
		{500, "", "", sojourn.Scheduled, "http_500"}, {500, "5", "", sojourn.Scheduled, "http_500"}, {502, "", "", sojourn.Scheduled, "http_502"}, {599, "", "", sojourn.Scheduled, "http_599"},
		{503, "", "", sojourn.Scheduled, "http_503"}, {503, "soon", "", sojourn.Scheduled, "http_503"}, {429, "-5", "", sojourn.Scheduled, "http_429"},
	} {
		id := c.job(`{"url": "URL/?key=hidden"` + s.args + `}`)
		c.Step()
		job := c.Job(id)
		if job.State != s.state || job.Reason != s.reason {
			t.Errorf("%d %q: %v %q %q", s.status, s.retryAfter, job.State, job.Reason, job.Error)
		}
		if r := c.result(id); r.Status != s.status || s.status != 204 && s.status != 304 && r.Text != "hidden words" {
			t.Errorf("%d is kept as %+v", s.status, r)
		}
		if want := job.Reason != "" && s.status != 304; want != strings.Contains(string(job.ErrorDetail), `"text":"hidden words"`) {
			t.Errorf("%d: the detail of the error is %s", s.status, job.ErrorDetail)
		}
		if strings.Contains(job.Error, "hidden") {
			t.Errorf("the error shows %q", job.Error)
		}
	}
}

// TestRetryAfter: the queue is held for so long, an hour at most, and the job has lost nothing.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "0": time.Second, "86400": time.Hour, "Wed, 21 Oct 2026 07:28:30 GMT": 30 * time.Second, "Wed, 21 Oct 2026 07:00:00 GMT": time.Second,
	} {
		requests := 0
		c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 1 {
				w.Header()["Date"] = []string{"Wed, 21 Oct 2026 07:28:00 GMT"}
				w.Header().Set("Retry-After", text)
				w.WriteHeader(429 + 74*(len(text)%2)) // 429 or 503
			}
		})
		first, second := c.job(`{"url": "URL"}`), c.job(`{"url": "URL"}`)
		c.Step()
		if c.Step() {
			t.Fatalf("%s: the queue is not held", text)
		}
		c.Advance(want - time.Millisecond)
		if c.Step() {
			t.Errorf("%s: the hold has ended early", text)
		}
		c.Advance(time.Millisecond + sojourn.HoldRamp)
		c.RunUntilIdle()
		if a, b := c.Job(first), c.Job(second); a.State != sojourn.Completed || b.State != sojourn.Completed || a.Failures != 0 || a.Attempt != 1 {
			t.Errorf("%s: %v with %d failures in attempt %d, %v", text, a.State, a.Failures, a.Attempt, b.State)
		}
	}
}

// TestAwait: the request carries a link; the answer to it ends the job, and its result has both.
func TestAwait(t *testing.T) {
	requests, link, key := 0, "", ""
	c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
		requests++
		link, key = r.Header.Get("Sojourn-Respond-Url"), r.Header.Get("Idempotency-Key")
		if requests == 1 {
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(202)
		_, _ = w.Write([]byte(`"taken"`))
	})
	id := c.job(`{"url": "URL", "await": true, "within": "6h"}`)
	c.Step()
	firstLink, firstKey := link, key
	c.Advance(time.Hour)
	c.Step()
	job := c.Job(id)
	if job.State != sojourn.Awaiting || job.Waiting.Until.Sub(c.Now()) != 6*time.Hour || key != firstKey || link == firstLink {
		t.Fatalf("%v %s, awaits %+v, keys %s and %s, links %s and %s", job.State, job.Error, job.Waiting, firstKey, key, firstLink, link)
	}
	token, ok := strings.CutPrefix(link, "https://shop.example/in/respond/")
	if !ok {
		t.Fatalf("the link is %q", link)
	}
	stale, _ := strings.CutPrefix(firstLink, "https://shop.example/in/respond/")
	if r := c.Respond(sojourn.Response{Token: stale, Body: []byte(`"x"`)}); r.Outcome != sojourn.Stale {
		t.Errorf("the link of the first attempt: %v", r.Outcome)
	}
	c.Respond(sojourn.Response{Token: token, Body: []byte(`{"paid":true}`), Source: "bank", MessageID: "evt_1"})
	c.Step()
	r := c.result(id)
	if job := c.Job(id); job.State != sojourn.Completed || r.Status != 202 || string(r.Body) != `"taken"` || r.Answer == nil || string(r.Answer.Body) != `{"paid":true}` || r.Answer.MessageID != "evt_1" || requests != 2 {
		t.Errorf("%v after %d requests: %s", job.State, requests, job.Result)
	}
}

// TestAwaitNeedsALink: without a link or a key for the answer, no request is sent.
func TestAwaitNeedsALink(t *testing.T) {
	requests := 0
	c := receive(t, httpjob.Options{}, func(http.ResponseWriter, *http.Request) { requests++ })
	at := netip.MustParseAddrPort(strings.TrimPrefix(c.url, "http://"))
	h := sojourntest.New(t)
	sojourntest.Handle(h, httpjob.Kind, caller(t, httpjob.Options{AllowHTTP: true, AllowPorts: []uint16{at.Port()}, AllowCIDR: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}}).Run)
	args := []byte(`{"url": "` + c.url + `", "await": true}`)
	without, with := h.Enqueue(sojourn.NewJob("http", args)), h.Enqueue(sojourn.NewJob("http", args, sojourn.Key("order-42")))
	h.Step()
	if job := h.Job(without); job.State != sojourn.Scheduled || job.Reason != httpjob.ReasonNoLink || requests != 0 {
		t.Errorf("without a key: %v %s, %d requests", job.State, job.Reason, requests)
	}
	h.Step()
	if job := h.Job(with); job.State != sojourn.Awaiting || requests != 1 {
		t.Errorf("with a key: %v %s, %d requests", job.State, job.Reason, requests)
	}
}

// TestResponseIsBounded: 64 KiB of a body are kept and no more is read; a body that is no text is
// kept as bytes.
func TestResponseIsBounded(t *testing.T) {
	sent := 0
	c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for chunk := []byte(strings.Repeat("ä", 16<<10)); r.Context().Err() == nil; sent += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/bytes":
			_, _ = w.Write([]byte("\x89PNG\xff"))
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", 64<<10))
		}
	})
	endless, odd, headers := c.job(`{"url": "URL/endless"}`), c.job(`{"url": "URL/bytes"}`), c.job(`{"url": "URL/headers"}`)
	c.RunUntilIdle()
	if r := c.result(endless); !r.Truncated || len(r.Text) > httpjob.MaxResponse || len(r.Text) < httpjob.MaxResponse-4 || strings.Trim(r.Text, "ä") != "" {
		t.Errorf("%d bytes, truncated %v", len(r.Text), r.Truncated)
	}
	if r := c.result(odd); string(r.Base64) != "\x89PNG\xff" {
		t.Errorf("%+v", r)
	}
	if job := c.Job(headers); job.Reason != httpjob.ReasonConnect || job.State != sojourn.Scheduled {
		t.Errorf("long headers: %v %s %s", job.State, job.Reason, job.Error)
	}
}

// TestNoResponse: a receiver that is slow, gone, or talks nonsense is tried again.
func TestNoResponse(t *testing.T) {
	release := make(chan struct{})
	c := receive(t, httpjob.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drip" {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path == "/hang-up" {
			panic(http.ErrAbortHandler)
		}
		<-release
	})
	defer close(release)
	for args, want := range map[string]string{
		`{"url": "URL/slow?key=hidden", "timeout": "50ms"}`: httpjob.ReasonTimeout, `{"url": "URL/drip?key=hidden", "timeout": "50ms"}`: httpjob.ReasonTimeout,
		`{"url": "URL/hang-up?key=hidden"}`: httpjob.ReasonConnect, `{"url": "https` + strings.TrimPrefix(c.url, "http") + `/?key=hidden", "timeout": "5s"}`: httpjob.ReasonConnect,
	} {
		id := c.job(args)
		c.Step()
		if job := c.Job(id); job.State != sojourn.Scheduled || job.Reason != want || strings.Contains(job.Error, "hidden") {
			t.Errorf("%s: %v %s %q", args, job.State, job.Reason, job.Error)
		}
	}
}

// TestBadArgs: args that make no request fail the job at once, and say why; no attempt is used up.
func TestBadArgs(t *testing.T) {
	c := receive(t, httpjob.Options{Timeout: time.Minute}, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	for args, want := range map[string]string{
		`{}`: "url: is missing", `{"url": 5}`: "url", `[]`: "array", ``: "EOF", `{"url": "URL"} {}`: "more than one", `{"url": "URL", "methud": "GET"}`: `unknown field "methud"`,
		`{"url": "URL", "method": "CONNECT"}`: "method", `{"url": "URL", "method": "GET /"}`: "method", `{"url": "URL", "headers": {"Host": "x"}}`: "Host is set by the worker",
		`{"url": "URL", "headers": {"content-length": "1"}}`: "Content-Length is set", `{"url": "URL", "headers": {"sojourn-respond-url": "x"}}`: "is set by the worker",
		`{"url": "URL", "headers": {"webhook-id": "x"}}`: "is set by the worker", `{"url": "URL", "headers": {"a b": "x"}}`: "not the name of a header",
		`{"url": "URL", "headers": {"A": "x\r\nB: y"}}`: "control characters", `{"url": "URL", "headers": {"A\r\nB": "y"}}`: "not the name of a header",
		`{"url": "URL", "timeout": "5"}`: "is not a duration", `{"url": "URL", "timeout": "-5s"}`: "is not a duration", `{"url": "URL", "retry_on": [500]}`: "retry_on",
		`{"url": "URL", "within": "5s"}`: "within", `{"url": "URL", "body": {"$base64": "%"}}`: "base64", `{"url": "URL", "body": {"$base64": 5}}`: "base64", `{"url": "http://[::1"}`: "is not a URL",
	} {
		id := c.job(args, func(j *sojourn.Job) { j.ContentType = "text/plain" }) // so that the store does not look into them
		c.Step()
		if job := c.Job(id); job.State != sojourn.Failed || job.Reason != sojourn.ReasonUndecodable || !strings.Contains(job.Error, want) {
			t.Errorf("%s: %v %s %q, want %q", args, job.State, job.Reason, job.Error, want)
		}
	}
	id := c.job(`{"url": "URL", "timeout": "2m"}`)
	c.Step()
	if job := c.Job(id); job.State != sojourn.Failed || job.Reason != httpjob.ReasonRefused || !strings.Contains(job.Error, "more than the worker's 1m0s") {
		t.Errorf("a long timeout: %v %s %q", job.State, job.Reason, job.Error)
	}
	for want, o := range map[string]httpjob.Options{
		"http_timeout": {Timeout: time.Hour}, "secrets": {Secrets: []httpjob.Secret{{Hosts: []string{"a"}, Key: "whsec_c2hvcnQ="}}}, "no host": {Secrets: []httpjob.Secret{{Key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}, "allow_port": {AllowPorts: []uint16{0}}, "100ms": {Timeout: -1},
	} {
		if _, err := httpjob.New(o); sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestSigned: the signatures of both secrets are good, the id is the same over attempts.
func TestSigned(t *testing.T) {
	secrets := []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + strings.Repeat("QUJD", 10)}
	ids := map[string]int{}
	hosts := []string{"127.0.0.1"}
	c := receive(t, httpjob.Options{Secrets: []httpjob.Secret{{Hosts: hosts, Key: secrets[0]}, {Hosts: hosts, Key: secrets[1]}}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for i, secret := range secrets {
			verifier, err := webhook.Standard(secret)
			if err != nil {
				t.Fatal(err)
			}
			v, err := verifier.Verify(r.Header, body, time.Now())
			if err != nil {
				t.Errorf("secret %d: %v in %v", i, err, r.Header)
			}
			if _, err := verifier.Verify(r.Header, append(body, ' '), time.Now()); err == nil {
				t.Errorf("secret %d signs everything", i)
			}
			ids[v.ID]++
		}
		w.WriteHeader(500)
	})
	id := c.job(`{"url": "URL", "body": {"a": 1}}`)
	c.Step()
	c.Advance(time.Hour)
	c.Step()
	if want := fmt.Sprint(map[string]int{c.Job(id).IdempotencyKey(): 4}); fmt.Sprint(ids) != want {
		t.Errorf("ids %v, want %s", ids, want)
	}
}

// TestArgsOfAProgram: a program in Go makes the same args.
func TestArgsOfAProgram(t *testing.T) {
	want := httpjob.Args{URL: "https://bank.example/", Method: "PUT", Body: []byte(`{"a":1}`), Timeout: httpjob.Duration(5 * time.Second), Await: true, Within: httpjob.Duration(6 * time.Hour)}
	job := httpjob.Kind.New(want)
	got, err := httpjob.Kind.Decode(job)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || !strings.Contains(string(job.Args), `"timeout":"5s"`) {
		t.Errorf("%s: %+v %v", job.Args, got, err)
	}
	if job := httpjob.Kind.New(httpjob.Args{URL: "https://bank.example/"}); string(job.Args) != `{"url":"https://bank.example/"}` {
		t.Errorf("%s", job.Args)
	}
}

// TestSecretsOfHosts: a secret signs requests to its hosts and to no other, which a redirect does
// not change.
func TestSecretsOfHosts(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for hosts, want := range map[string]struct {
		state  sojourn.State
		signed bool
	}{
		"127.0.0.1=" + key:                            {sojourn.Completed, true},
		"bank.example,127.0.0.1=" + key:               {sojourn.Completed, true},
		"bank.example=" + key:                         {sojourn.Failed, false},
		"*.0.0.1=" + key:                              {sojourn.Completed, true},
		"*.127.0.0.1=" + key:                          {sojourn.Failed, false},
		"bank.example=" + key + " 127.0.0.1=unsigned": {sojourn.Completed, false},
	} {
		var secrets []httpjob.Secret
		for _, text := range strings.Fields(hosts) {
			s, err := httpjob.ParseSecret(text)
			if err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, s)
		}
		came, signed := 0, false
		c := receive(t, httpjob.Options{Secrets: secrets}, func(w http.ResponseWriter, r *http.Request) {
			came, signed = came+1, r.Header.Get("Webhook-Signature") != ""
			w.WriteHeader(200)
		})
		id := c.job(`{"url": "URL"}`)
		c.Step()
		job := c.Job(id)
		if job.State != want.state || signed != want.signed || (came == 1) != (want.state == sojourn.Completed) {
			t.Errorf("%s: %v %s %q, %d requests, signed %v", hosts, job.State, job.Reason, job.Error, came, signed)
		}
		if job.State == sojourn.Failed && (job.Reason != httpjob.ReasonRefused || !strings.Contains(job.Error, "not be signed")) {
			t.Errorf("%s: %s %q", hosts, job.Reason, job.Error)
		}
	}
	came := 0
	c := receive(t, httpjob.Options{Secrets: []httpjob.Secret{{Hosts: []string{"127.0.0.1"}, Key: key}}}, func(w http.ResponseWriter, r *http.Request) {
		came++
		http.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	})
	id := c.job(`{"url": "URL"}`)
	c.Step()
	if job := c.Job(id); job.State != sojourn.Failed || came != 1 {
		t.Errorf("a redirect: %v after %d requests", job.State, came)
	}
	for _, text := range []string{key, "=" + key, "https://bank.example=" + key, "bank.example:443/x=" + key, "*=" + key, "a b=" + key} {
		s, err := httpjob.ParseSecret(text)
		if err == nil {
			_, err = httpjob.New(httpjob.Options{Secrets: []httpjob.Secret{s}})
		}
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || strings.Contains(err.Error(), key) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
