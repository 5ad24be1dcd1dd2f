package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Matcher converts a message to a response, addressed by kind and key, by job or by token. Fields
// that the response leaves empty are taken from the message: message id, body, content type. nil
// without an error skips the message: it is acknowledged and not stored. An error parks it, with
// the reason of a *ParkError, else ReasonUndecodable. A matcher must be deterministic: the same
// message always gives the same result.
type Matcher func(ctx context.Context, m *Message) (*sojourn.Response, error)

// Reasons of parked messages. A message that the store refuses has the refusal's code as its
// reason, such as sojourn.CodeTooLarge.
const (
	ReasonUndecodable = "undecodable" // the body cannot be decoded
	ReasonRule        = "rule"        // a rule failed, or its result has the wrong type
	ReasonPanic       = "panic"       // the matcher panicked
)

// ParkError is an error of a Matcher with the reason under which the message is parked.
type ParkError struct {
	Reason string // up to 128 bytes
	Err    error
}

func (e *ParkError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ParkError) Unwrap() error { return e.Err }

// Response returns the response that a source of this name stores: nil for a message that the
// matcher skips, a parked response if the matcher fails.
func (match Matcher) Response(ctx context.Context, name string, m *Message) *sojourn.Response {
	r, err := match.call(ctx, m)
	switch {
	case err != nil:
		return parked(name, m, err)
	case r == nil:
		return nil
	}
	r.Source, r.KeepConflict = name, true // a broker cannot report the conflict
	if r.MessageID == "" {
		r.MessageID = m.ID
	}
	r.MessageID = storable(r.MessageID)
	if r.Body == nil {
		r.Body = m.Body
	}
	if r.ContentType == "" { // without any, the body is bytes, which the store does not parse
		r.ContentType = cmp.Or(ContentType(m.ContentType), "application/octet-stream")
	}
	return r
}

// ContentType returns named if a store accepts it as a content type, else application/octet-stream.
func ContentType(named string) string {
	if sojourn.ValidContentType("content_type", named) != nil {
		return "application/octet-stream"
	}
	return named
}

func (match Matcher) call(ctx context.Context, m *Message) (r *sojourn.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			r, err = nil, &ParkError{ReasonPanic, fmt.Errorf("the matcher panicked: %v", v)}
		}
	}()
	m.Headers = LowerCase(m.Headers)
	return match(ctx, m)
}

// LowerCase gives headers names in lower case, so that it does not matter how a sender or a broker
// writes them. Of names that differ only in case, the first in byte order counts. Matchers see all
// messages so; a broker that knows the order in which the sender wrote the headers keeps the first
// one by itself.
func LowerCase(headers map[string]string) map[string]string {
	is := true
	for name := range headers {
		is = is && name == strings.ToLower(name)
	}
	if is {
		return headers
	}
	out := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if lower := strings.ToLower(name); !has(out, lower) {
			out[lower] = headers[name]
		}
	}
	return out
}

func has(headers map[string]string, name string) bool {
	_, ok := headers[name]
	return ok
}

// parkedID separates the ids of parked messages from those of responses: a message that is sent
// again after the matcher is fixed must not be a duplicate of the parked one.
const parkedID = "parked:"

func parked(name string, m *Message, err error) *sojourn.Response {
	reason := ReasonUndecodable
	if p, ok := errors.AsType[*ParkError](err); ok {
		reason = p.Reason
	}
	return &sojourn.Response{Park: true, KeepConflict: true, Source: name, MessageID: storable(parkedID + m.ID), Reason: reason, Error: err.Error(),
		Body: m.Body, ContentType: ContentType(m.ContentType)}
}

// keptOfRefused is how much of a body that the store refuses is kept, if it takes that much.
const keptOfRefused = 64 << 10

// parkRefused puts in the place of a response that the store refuses one that it takes: the message
// parked, and smaller if need be. It reports whether there was anything left to change.
func parkRefused(r *sojourn.Response, m *Message, e sojourn.Error) bool {
	keep := keptOfRefused
	switch {
	case !r.Park:
		e.Index = -1
		*r = *parked(r.Source, m, &ParkError{e.Code, &e})
		if e.Code != sojourn.CodeTooLarge {
			return true
		}
	case len(r.Body) > keep:
	case len(r.Body) > 0 || r.ContentType != "":
		keep = 0
	default:
		return false
	}
	r.ContentType = ""
	if len(r.Body) > keep {
		r.Body = r.Body[:keep]
		r.Error = fmt.Sprintf("%s; kept are %d of %d bytes", r.Error, keep, len(m.Body))
	}
	return true
}

// storable returns a message id that every store accepts: the id itself, or its SHA-256 if it is
// too long or not text.
func storable(id string) string {
	if sojourn.ValidKey("message_id", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Pauses after a failure, doubling from the first to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

type pause struct{ next time.Duration }

func newPause() *pause { return &pause{firstPause} }

func (p *pause) reset() { p.next = firstPause }

func (p *pause) sleep(ctx context.Context) {
	select {
	case <-time.After(p.next):
	case <-ctx.Done():
	}
	p.next = min(2*p.next, longestPause)
}
