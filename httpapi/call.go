package httpapi

import (
	"bytes"
	"context"
	"errors"
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
	longestWait = 2 * time.Second       // of what Retry-After may ask for
	patience    = time.Minute           // for an answer, beside the time that a call is meant to wait
	maxProblem  = 1 << 20               // bytes of an error
)

// safety says what may be done about a call whose answer did not come.
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
}

// codec is exact: what a program stores comes back byte for byte.
var codec = wire.Codec{Exact: true}

// call sends a request, again if that is safe, and decodes the answer.
func (s *Store) call(ctx context.Context, r request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closed, func() { cancel(sojourn.ErrClosed) })()
	var body []byte
	if r.in != nil {
		var err error
		if body, err = codec.Marshal(r.in); err != nil {
			return sojourn.Invalid("", "cannot be sent as JSON: %v", err)
		}
	}
	for try := 1; ; try++ {
		if err := s.ended(ctx, r, try > 1); err != nil {
			return err
		}
		pause, err := s.once(ctx, r, body)
		switch {
		case err == nil:
			return nil
		case pause == 0:
			return err
		case ctx.Err() != nil:
			return s.ended(ctx, r, true)
		case try == maxTries:
			return err
		}
		select {
		case <-time.After(pause << (2 * (try - 1))):
		case <-ctx.Done():
		}
	}
}

// ended says how a call ends whose context or store has ended, if it has. sent tells whether the server may have seen it.
func (s *Store) ended(ctx context.Context, r request, sent bool) error {
	switch {
	case s.closed.Err() != nil:
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the client is closed", Err: sojourn.ErrClosed}
	case ctx.Err() == nil:
		return nil
	case sent && r.safety != looks:
		return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: context.Cause(ctx),
			Message: "the call ended before the server had answered; it may or may not have been executed: repeat it unchanged"}
	}
	return context.Cause(ctx)
}

// once sends a request. pause is how long to wait before it may be sent again; 0 means never.
func (s *Store) once(ctx context.Context, r request, body []byte) (pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+r.wait)
	defer cancel()
	answer, err := s.send(ctx, r, body)
	if err == nil {
		defer answer.Body.Close()
		if answer.StatusCode >= 400 {
			return refused(r, answer)
		}
		var b []byte
		if b, err = io.ReadAll(answer.Body); err == nil {
			if r.out == nil {
				return 0, nil
			}
			if err = codec.Read(b, r.out); err == nil {
				return 0, nil
			}
		}
	}
	if r.safety == unsafe {
		return 0, unanswered(sojourn.CodeUnknown, "the server's answer did not come ("+plainly(err)+"); the call may or may not have been executed", err)
	}
	if r.safety == safe {
		return firstPause, unanswered(sojourn.CodeUnknown, "the server's answer did not come ("+plainly(err)+"); repeat the call unchanged", err)
	}
	return firstPause, unanswered(sojourn.CodeUnavailable, "the server cannot be reached: "+plainly(err), err)
}

func (s *Store) send(ctx context.Context, r request, body []byte) (*http.Response, error) {
	h, err := http.NewRequestWithContext(ctx, r.method, s.base.String()+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		h.Header.Set("Content-Type", "application/json")
	}
	h.Header.Set(wire.ExactHeader, wire.ExactValue)
	if s.token != "" {
		h.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.http.Do(h)
}

// plainly is the error without the URL, which adds nothing.
func plainly(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return sojourn.Cut(err.Error(), sojourn.MaxReason)
}

func unanswered(code, message string, err error) error {
	return &sojourn.Error{Code: code, Index: -1, Retryable: true, Message: message, Err: err}
}

// refused reads an error. A server that is too busy or about to end says that nothing has happened, so any call may be sent again.
func refused(r request, answer *http.Response) (pause time.Duration, err error) {
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	var p wire.Problem
	if t, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || t != "application/problem+json" || codec.Read(b, &p) != nil {
		code := sojourn.CodeUnavailable // it comes from something in between
		if r.safety != looks && answer.StatusCode >= 500 {
			code = sojourn.CodeUnknown
		}
		return 0, unanswered(code, "the answer is not that of a Sojourn server: "+answer.Status, err)
	}
	if p.Code == wire.CodeOverloaded || p.Code == wire.CodeDraining || p.Code == wire.CodeRateLimited {
		return retryAfter(answer.Header), p.Err()
	}
	if p.Code == wire.CodeBodyTooLarge {
		p.Code = sojourn.CodeTooLarge
	}
	return 0, p.Err()
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return firstPause
	}
	return min(time.Duration(seconds)*time.Second, longestWait)
}
