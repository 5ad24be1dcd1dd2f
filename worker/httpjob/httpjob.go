// Package httpjob is the built-in kind http: a job that sends one request, and may wait for the
// answer that comes later.
//
//	caller, err := httpjob.New(httpjob.Options{})
//	worker.Handle(w, httpjob.Kind, caller.Run)
//	client.Enqueue(ctx, httpjob.Kind.New(httpjob.Args{URL: "https://bank.example/charges", Body: body, Await: true}))
//
// Any caller that may enqueue sets the URL, so it must not give access to the worker's network.
// Requests go to public addresses only, unless [Options] allow others. The check is made for each
// connection, on the address after the name was resolved (guard.go). Redirects are not followed,
// and proxies of the environment are not used.
package httpjob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/internal/webhooksign"
)

const (
	// DefaultTimeout bounds a request from its first packet to the end of the response.
	DefaultTimeout = 30 * time.Second
	// MaxTimeout is the maximum of Options.Timeout.
	MaxTimeout = 10 * time.Minute
	// MaxResponse is how many bytes of a response's body are kept; the rest is not read.
	MaxResponse = 64 << 10
	// MaxNext is how many follow-up jobs a response may name.
	MaxNext = 100
	// MaxHold cuts the Retry-After of a response: it closes the queue for all of its jobs.
	MaxHold = time.Hour

	maxHeaders  = 16 << 10 // bytes of a response's headers; more is an error
	connectTime = 10 * time.Second
	idleTime    = 30 * time.Second // a connection that is not used is closed
	saveTime    = time.Second
)

// Reasons of errors. One that follows from a status n has the reason http_n.
const (
	ReasonRefused = "http_refused" // the URL, or the address behind it, is not allowed; final
	ReasonTimeout = "http_timeout"
	ReasonConnect = "http_connect" // no connection, no TLS, or no response that can be read
	ReasonFollow  = "http_follow"  // the follow-up jobs or the stage in the response cannot be read
	ReasonNoLink  = "http_no_link" // await without a key of the job and without worker.Options.RespondURL
)

// Options of a Caller. The zero value allows https to public addresses on port 443.
type Options struct {
	// AllowHTTP also allows http, on port 80.
	AllowHTTP bool
	// AllowCIDR are non-public networks that are allowed, for internal receivers.
	AllowCIDR []netip.Prefix
	// AllowPorts are allowed besides 443, and 80 with AllowHTTP.
	AllowPorts []uint16
	// Timeout is the default, and the most, for a request: 100 ms to MaxTimeout, default
	// DefaultTimeout.
	Timeout time.Duration
	// Secrets sign the requests by Standard Webhooks (https://www.standardwebhooks.com). If any is
	// set, a request to a host without a secret is refused: a receiver must not collect signatures
	// that are meant for another. Default: no request is signed.
	Secrets []Secret
	// Resolver finds the addresses of names. Default: net.DefaultResolver.
	Resolver *net.Resolver
}

// Secret signs the requests to some hosts.
type Secret struct {
	// Hosts are names or addresses, such as bank.example; *.bank.example stands for all names below
	// bank.example. Never empty.
	Hosts []string
	// Key is "whsec_" and the base64 of 24 to 64 bytes. During a key rotation several secrets may
	// name one host: the request carries a signature by each. Unsigned allows requests to the hosts
	// without a signature.
	Key string
}

// Unsigned as the key of a Secret lets requests to its hosts go without a signature.
const Unsigned = "unsigned"

// Caller sends the requests of jobs. It is safe for concurrent use.
type Caller struct {
	guard   guard
	timeout time.Duration
	secrets []secret
	http    *http.Client
}

// New checks the options. Its errors are *sojourn.Error with CodeInvalid.
func New(o Options) (*Caller, error) {
	c := &Caller{guard: guard{allowHTTP: o.AllowHTTP, allowed: o.AllowCIDR, ports: []uint16{443}}, timeout: o.Timeout}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.timeout < 100*time.Millisecond || c.timeout > MaxTimeout {
		return nil, sojourn.Invalid("http_timeout", "%v is out of range: 100ms to %v", o.Timeout, MaxTimeout)
	}
	if o.AllowHTTP {
		c.guard.ports = append(c.guard.ports, 80)
	}
	c.guard.ports = append(c.guard.ports, o.AllowPorts...)
	if slices.Contains(o.AllowPorts, 0) {
		return nil, sojourn.Invalid("allow_port", "0 is not a port")
	}
	for i, s := range o.Secrets {
		key, err := s.check(i + 1)
		if err != nil {
			return nil, err
		}
		c.secrets = append(c.secrets, key)
	}
	c.http = &http.Client{
		Transport: &http.Transport{DialContext: c.guard.dialer(o.Resolver), ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: connectTime,
			MaxResponseHeaderBytes: maxHeaders, IdleConnTimeout: idleTime, MaxIdleConns: 100, MaxIdleConnsPerHost: 2},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Run sends the request of one step; it is the handler of [Kind]. With await it runs twice, and the
// second time it has the answer.
//
//	2xx                           completed with a Result; with await, awaiting
//	429, 503 with Retry-After     the queue is held for so long, at most MaxHold; counts as no error
//	other 5xx, 408, 425, 429      an error, retried with backoff; so are those of retry_on, and errors of the network
//	other 4xx, 3xx                failed, even if attempts remain
//
// With follow, the body of a 2xx response may have the fields "next", a list of jobs as in the HTTP
// API, or "advance", such as {"queue": "ship"}. The jobs are enqueued in the transaction that
// completes the job; with advance the job goes on with its next stage. Enqueuing is the worker's
// right and not the receiver's, so a request with follow goes only to hosts for which the worker
// has a secret, and is signed. A response that cannot be read is an error, http_follow.
//
// The response of a failed request is stored as the job's checkpoint and not in its error, because
// errors are shown to users who may not read the args of jobs.
func (c *Caller) Run(ctx context.Context, job *sojourn.Job, args Args) error {
	if r := job.Response; args.Await && r != nil {
		var done Result
		if err := json.Unmarshal(job.Checkpoint, &done); err != nil {
			done = Result{} // the answer came to an attempt that had sent no request
		}
		done.Answer = &Answer{r.Key, r.Source, r.MessageID, r.ContentType, r.ReceivedAt, contentOf(r.Body, false)}
		return job.SetResult(done)
	}
	request, cancel, err := c.request(ctx, job, args)
	if err != nil {
		return err
	}
	defer cancel()
	got, header, err := c.send(request)
	if err != nil {
		return c.failed(ctx, request, err)
	}
	where := fmt.Sprintf("%s %s://%s%s: %d %s", request.Method, request.URL.Scheme, request.URL.Host, request.URL.EscapedPath(), got.Status, http.StatusText(got.Status))
	if got.Status >= 200 && got.Status < 300 && !args.Await {
		if err := job.SetResult(got); err != nil {
			return err
		}
		out, err := follow(args, got)
		if err != nil {
			return errors.Join(sojourn.WithReason(ReasonFollow, fmt.Errorf("%s; the response names no follow-up jobs or stage that can be: %w", where, err)), save(ctx, job, got))
		}
		return out
	}
	if err := save(ctx, job, got); err != nil {
		return err
	}
	if got.Status >= 200 && got.Status < 300 {
		return sojourn.Await(time.Duration(args.Within))
	}
	return verdict(got, header, where, args.RetryOn)
}

// errFollow hides what the decoder says, which may quote the body.
var errFollow = errors.New(`write {"next": [{"kind": "ship"}]} or {"advance": {"queue": "ship"}}, with the fields of the HTTP API`)

// follow is the outcome that a response names: nil, sojourn.Then or sojourn.Advance.
func follow(args Args, got Result) (out, err error) {
	if !args.Follow || len(got.Body) == 0 && len(got.Text)+len(got.Base64) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	var f jsonform.Follow
	if json.Unmarshal(got.Body, &fields) != nil { // other fields are the receiver's own
		return nil, errFollow
	}
	for name, to := range map[string]any{"next": &f.Next, "advance": &f.Advance} {
		if fields[name] != nil && jsonform.ReadStrict(fields[name], to) != nil {
			return nil, errFollow
		}
	}
	if len(f.Next) > MaxNext {
		return nil, sojourn.Invalid("next", "%d jobs exceed the limit of %d", len(f.Next), MaxNext)
	}
	if out = f.Outcome(); sojourn.ErrorCode(out) != "" {
		return nil, out
	}
	return out, nil
}

// save keeps the response.
func save(ctx context.Context, job *sojourn.Job, got Result) error {
	b, err := json.Marshal(got)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	return job.SaveCheckpoint(ctx, b)
}

// verdict returns the outcome for an unsuccessful status.
func verdict(got Result, header http.Header, where string, retryOn []int) error {
	status := got.Status
	again := sojourn.WithDetail(got, sojourn.WithReason("http_"+strconv.Itoa(status), errors.New(where)))
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		if after, ok := retryAfter(header); ok {
			return sojourn.Hold("", min(after, MaxHold))
		}
		return again
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, slices.Contains(retryOn, status):
		return again
	case status >= 300 && status < 400:
		return sojourn.Abort(sojourn.WithDetail(got, sojourn.WithReason("http_"+strconv.Itoa(status), fmt.Errorf("%s; redirects are not followed", where))))
	}
	return sojourn.Abort(again)
}

// retryAfter reads seconds or a date, which is compared with that of the response, so that clocks
// do not matter.
func retryAfter(h http.Header) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(at.Sub(now), 0), true
}

// request makes the request; cancel ends its time.
func (c *Caller) request(ctx context.Context, job *sojourn.Job, args Args) (r *http.Request, cancel func(), err error) {
	refused := func(err error) error { return sojourn.Abort(sojourn.WithReason(ReasonRefused, err)) }
	u, err := url.Parse(args.URL)
	if err == nil {
		err = c.guard.checkURL(u)
	}
	if err != nil {
		return nil, nil, refused(err)
	}
	keys, err := c.keys(u.Hostname())
	if err == nil && args.Follow && len(keys) == 0 {
		err = sojourn.Invalid("follow", "needs a secret for the host %.64q: only a receiver that the worker signs for may name follow-up jobs (SOJOURN_HTTP_SECRETS)", u.Hostname())
	}
	if err != nil {
		return nil, nil, refused(err)
	}
	timeout := time.Duration(args.Timeout)
	if timeout > c.timeout {
		return nil, nil, refused(sojourn.Invalid("timeout", "%v is more than the worker's %v (--http-timeout)", timeout, c.timeout))
	}
	if timeout == 0 {
		timeout = c.timeout
	}
	body, contentType, err := args.body()
	if err != nil {
		return nil, nil, refused(err)
	}
	ctx, cancel = context.WithTimeout(ctx, timeout)
	r, err = http.NewRequestWithContext(ctx, args.Method, args.URL, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, nil, refused(sojourn.Invalid("url", "makes no request"))
	}
	r.Header.Set("User-Agent", "sojourn")
	r.Header.Set("Idempotency-Key", job.IdempotencyKey())
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if parent, state := job.TraceContext(); parent != "" {
		r.Header.Set(sojourn.MetaTraceparent, parent)
		if state != "" {
			r.Header.Set(sojourn.MetaTracestate, state)
		}
	}
	for name, v := range args.Headers {
		r.Header.Set(name, v)
	}
	r.Header.Set("Sojourn-Job", strconv.FormatInt(int64(job.ID), 10))
	r.Header.Set("Sojourn-Attempt", strconv.Itoa(int(job.Attempt)))
	if job.Stage > 0 {
		r.Header.Set("Sojourn-Stage", strconv.Itoa(int(job.Stage)))
	}
	if job.Schedule != "" {
		r.Header.Set("Sojourn-Scheduled-For", job.ScheduledFor.UTC().Format(time.RFC3339))
	}
	if args.Await {
		link, err := job.RespondURL(0)
		if err != nil && job.Key == "" {
			cancel()
			return nil, nil, sojourn.WithReason(ReasonNoLink, errors.New("the job cannot be answered: enqueue it with a key, or start its worker with --respond-url"))
		}
		if err == nil {
			r.Header.Set("Sojourn-Respond-Url", link)
		}
	}
	webhooksign.Sign(r.Header, keys, job.IdempotencyKey(), body, time.Now())
	return r, cancel, nil
}

// send sends the request and reads the response.
func (c *Caller) send(r *http.Request) (Result, http.Header, error) {
	response, err := c.http.Do(r)
	if err != nil {
		return Result{}, nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, MaxResponse+1))
	if err != nil {
		return Result{}, nil, err
	}
	got := Result{Status: response.StatusCode, Content: contentOf(b[:min(len(b), MaxResponse)], len(b) > MaxResponse), Headers: map[string]string{}}
	for name, values := range response.Header {
		got.Headers[name] = strings.Join(values, ", ")
	}
	return got, response.Header, nil
}

// failed returns the outcome of a request without a response. Errors of net/http show the whole
// URL, and its query may hold secrets.
func (c *Caller) failed(ctx context.Context, r *http.Request, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // the step has ended, not the request
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	where := fmt.Errorf("%s %s://%s%s: %w", r.Method, r.URL.Scheme, r.URL.Host, r.URL.EscapedPath(), err)
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return sojourn.Abort(sojourn.WithReason(ReasonRefused, where))
	}
	if r.Context().Err() != nil {
		return sojourn.WithReason(ReasonTimeout, where)
	}
	return sojourn.WithReason(ReasonConnect, where)
}
