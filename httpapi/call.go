package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Tries.
const (
	maxTries    = 3
	firstPause  = 50 * time.Millisecond // before the second try, four times as long before the third
	longestWait = 10 * time.Second      // a call that is to be repeated later than this, says Retry-After, is not repeated
	patience    = time.Minute           // for a whole answer, beside the time that a call is meant to wait
	maxAnswer   = 64 << 20              // bytes of a body
)

// safety says whether a call may be repeated after its response was lost.
type safety uint8

const (
	looks  safety = iota // changes nothing: repeat it
	safe                 // the same call again has the same effect: repeat it
	unsafe               // the outcome stays unknown, unless the server says that nothing has happened
)

// request is one call.
type request struct {
	method, path string
	in, out      any
	safety       safety
	wait         time.Duration // that the server may take longer
	complete     func() bool   // whether out is an answer to the request; nil if any is
}

// again says whether and when a request may be retried. The zero value means no retry.
type again struct {
	after time.Duration // at least
	asked bool          // by the server, so the pause does not grow
}

// pause is the time before the try with that number, from 2.
func (a again) pause(try int) time.Duration {
	if a.asked {
		return a.after
	}
	return a.after << (2 * (try - 2))
}

// codec is exact: stored values are returned byte for byte.
var codec = wire.Codec{Exact: true}

// transport sends requests to one server and decodes its answers.
type transport struct {
	base   *url.URL
	token  string
	http   *http.Client
	closed context.Context // ends with Close
	close  context.CancelFunc
}

func newTransport(base *url.URL, o options) *transport {
	t := &transport{base: base, token: o.token, http: &http.Client{Transport: o.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}} // a redirect could take the token elsewhere
	t.closed, t.close = context.WithCancel(context.Background())
	return t
}

// call sends a request, again if that is safe, and decodes the answer.
func (t *transport) call(ctx context.Context, r request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.closed, func() { cancel(sojourn.ErrClosed) })()
	var body []byte
	if r.in != nil {
		var err error
		if body, err = codec.Marshal(r.in); err != nil {
			return sojourn.Invalid("", "cannot be sent as JSON: %v", err)
		}
	}
	for try := 1; ; try++ {
		if err := t.ended(ctx, r, try > 1); err != nil {
			return err
		}
		next, err := t.once(ctx, r, body)
		switch {
		case err == nil:
			return nil
		case next.after == 0:
			return err
		case ctx.Err() != nil:
			return t.ended(ctx, r, true)
		case try == maxTries:
			return err
		}
		select {
		case <-time.After(next.pause(try + 1)):
		case <-ctx.Done():
		}
	}
}

// ended returns the error of a call whose context has ended or whose store is closed, else nil.
// sent reports whether the server may have received the call.
func (t *transport) ended(ctx context.Context, r request, sent bool) error {
	switch {
	case t.closed.Err() != nil:
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the client is closed", Err: sojourn.ErrClosed}
	case ctx.Err() == nil:
		return nil
	case sent && r.safety != looks:
		return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: context.Cause(ctx),
			Message: "the call ended before the server had answered; it may or may not have been executed: repeat it unchanged"}
	}
	return context.Cause(ctx)
}

// once sends a request once and reports whether it may be retried.
func (t *transport) once(ctx context.Context, r request, body []byte) (again, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+r.wait)
	defer cancel()
	answer, err := t.send(ctx, r, body)
	if err != nil {
		return unanswered(r, plainly(err), err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("it has more than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return unanswered(r, plainly(err), err)
	}
	if answer.StatusCode >= 300 {
		return refused(r, answer, b)
	}
	if r.out == nil {
		return again{}, nil
	}
	err = codec.Read(b, r.out)
	if err == nil && r.complete != nil && !r.complete() {
		err = errors.New("its response does not match the request")
	}
	if err != nil {
		return unanswered(r, "it is not that of a Sojourn server: "+plainly(err), err)
	}
	return again{}, nil
}

func (t *transport) send(ctx context.Context, r request, body []byte) (*http.Response, error) {
	h, err := http.NewRequestWithContext(ctx, r.method, t.base.String()+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		h.Header.Set("Content-Type", "application/json")
	}
	h.Header.Set(wire.ExactHeader, wire.ExactValue)
	if t.token != "" {
		h.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.http.Do(h)
}

// plainly is the error without the URL, which adds nothing.
func plainly(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return sojourn.Cut(err.Error(), sojourn.MaxReason)
}

// unanswered returns the error of a request that got no response from a Sojourn server. The server
// may have executed the request, even if a proxy responded instead.
func unanswered(r request, why string, err error) (again, error) {
	switch r.safety {
	case unsafe:
		return again{}, unknown(sojourn.CodeUnknown, "the server's answer did not come ("+why+"); the call may or may not have been executed", err)
	case safe:
		return again{after: firstPause}, unknown(sojourn.CodeUnknown, "the server's answer did not come ("+why+"); repeat the call unchanged", err)
	}
	return again{after: firstPause}, unknown(sojourn.CodeUnavailable, "the server cannot be reached: "+why, err)
}

func unknown(code, message string, err error) error {
	return &sojourn.Error{Code: code, Index: -1, Retryable: true, Message: message, Err: err}
}

// refused reads an error response. An overloaded or draining server states that the request had no
// effect, so any call may be retried.
func refused(r request, answer *http.Response, b []byte) (again, error) {
	var p wire.Problem
	t, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if t != "application/problem+json" || codec.Read(b, &p) != nil || p.Code == "" || p.Status != answer.StatusCode {
		return unanswered(r, "the answer is not that of a Sojourn server: "+answer.Status, nil) // something in between has written it
	}
	switch p.Code {
	case wire.CodeOverloaded, wire.CodeDraining, wire.CodeRateLimited:
		return retryAfter(answer.Header), p.Err()
	case wire.CodeInternal:
		if r.safety != unsafe {
			return again{after: firstPause}, p.Err()
		}
	case wire.CodeBodyTooLarge:
		p.Code = sojourn.CodeTooLarge
	}
	return again{}, p.Err()
}

// retryAfter returns the delay of the Retry-After header. If it is too long to wait here, the retry
// is left to the caller.
func retryAfter(h http.Header) again {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return again{after: firstPause}
	}
	if after := time.Duration(min(seconds, 1<<20)) * time.Second; after <= longestWait {
		return again{after: after, asked: true}
	}
	return again{}
}

// post sends a POST request; most calls use it. complete, if not nil, rejects JSON that does not
// answer the request: a proxy's page, or a list of another length. Without it the caller would
// index past the end, or treat a lost lease as extended.
func post[Out any](ctx context.Context, t *transport, path string, in any, how safety, wait time.Duration, complete func(Out) bool) (Out, error) {
	var out Out
	r := request{method: http.MethodPost, path: path, in: in, out: &out, safety: how, wait: wait}
	if complete != nil {
		r.complete = func() bool { return complete(out) }
	}
	err := t.call(ctx, r)
	return out, err
}

func get[Out any](ctx context.Context, t *transport, path string) (Out, error) {
	var out Out
	err := t.call(ctx, request{method: http.MethodGet, path: path, out: &out})
	return out, err
}
