package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
	"github.com/sojourn-queue/sojourn/source"
)

// refusal is an answer that is not 2xx: nothing was stored, unless the code says it is unknown.
type refusal struct {
	status int
	code   string
	detail string // says what to do, and repeats nothing that the sender has sent
	retry  bool   // the same request may succeed later
}

func (r *refusal) Error() string { return r.code }

// One answer for every unknown path, so that a caller cannot learn how close a token was.
var notFound = &refusal{http.StatusNotFound, "not_found", "there is nothing here: look at the path", false}

// A message that reuses an id with another key or body is stored in the inbox. Its sender gets this
// error, because it has to choose another id.
var conflict = &refusal{http.StatusConflict, "conflict", "the message id came before with another key or body: give each message an id of its own", false}
var busy = &refusal{http.StatusServiceUnavailable, "busy", "too many requests are being stored: try again", true}

// door is the target of a request.
type door struct {
	endpoint  *Endpoint // nil: of a capability, or one that the secret has to show
	token     string
	kind, key string
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done := Handled{Status: http.StatusInternalServerError, Code: "internal"}
	h.bodies.Begin(w, r)
	defer func() {
		h.bodies.End(w, r)
		v := recover()
		if v == http.ErrAbortHandler {
			panic(v)
		}
		if v != nil {
			h.o.Logger.Error("webhook: a panic", "endpoint", done.Endpoint, "panic", fmt.Sprintf("%v\n%s", v, debug.Stack()))
			refuse(w, &refusal{done.Status, done.Code, "the receiver has failed", true})
		}
		h.o.Observe(done)
	}()
	answer, err := h.handle(w, r, &done)
	if err != nil {
		done.Status, done.Code = err.status, err.code
		refuse(w, err)
		return
	}
	done.Outcome = answer.Outcome
	if answer.Outcome == sojourn.Conflicting {
		done.Status, done.Code = conflict.status, conflict.code
		refuse(w, conflict)
		return
	}
	done.Status, done.Code = http.StatusOK, ""
	if answer.Outcome == sojourn.Early && answer.Job == 0 || answer.Outcome == sojourn.Parked {
		done.Status = http.StatusAccepted
	}
	reply(w, done.Status, "application/json", struct {
		Outcome sojourn.ResponseOutcome `json:"outcome"`
		Seq     int64                   `json:"seq,omitempty"`
	}{answer.Outcome, answer.Seq})
}

// PassedOver is the outcome of a message that its matcher skips: it is not stored.
const PassedOver sojourn.ResponseOutcome = "passed_over"

// handle runs the steps in order: a message is verified before any of it is parsed, and stored
// before it is acknowledged.
func (h *Handler) handle(w http.ResponseWriter, r *http.Request, done *Handled) (sojourn.Responded, *refusal) {
	var none sojourn.Responded
	d, no := h.route(r)
	if no != nil {
		return none, no
	}
	done.Endpoint = d.name()
	arriving := h.bodies.Body(w, http.MaxBytesReader(w, r.Body, int64(h.o.MaxBytes)))
	defer arriving.Release()
	body, no := h.body(w, r, arriving)
	if no != nil {
		return none, no
	}
	select { // only now, so that senders whose bodies never come hold no room
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		return none, busy
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.o.Timeout)
	defer cancel()
	if d.token != "" {
		answer, no := h.capability(ctx, d, r, body)
		connlimit.SetAuthenticated(r.Context(), no != notFound)
		return answer, no
	}
	e, v, no := h.verify(d, r.Header, body)
	connlimit.SetAuthenticated(r.Context(), no == nil)
	if no != nil {
		return none, no
	}
	done.Endpoint = e.Name
	if e.Match == nil {
		return h.store(ctx, e, &sojourn.Response{Kind: d.kind, Key: d.key, Source: e.Name, MessageID: v.ID, Body: body, ContentType: contentType(r.Header)}, nil)
	}
	m := e.Message(r.Header, body, v)
	response := e.Match.Response(ctx, e.Name, m)
	if response == nil {
		return sojourn.Responded{Outcome: PassedOver}, nil
	}
	return h.store(ctx, e, response, m)
}

func (d door) name() string {
	switch {
	case d.token != "":
		return CapabilitySource
	case d.endpoint != nil:
		return d.endpoint.Name
	}
	return ""
}

// route reads the path as it was sent, so that an encoded slash belongs to a key, and nothing is
// ever redirected.
func (h *Handler) route(r *http.Request) (d door, no *refusal) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i, p := range parts {
		var err error
		if parts[i], err = url.PathUnescape(p); err != nil || p == "" {
			return d, notFound
		}
	}
	switch e := h.at["/"+strings.Join(parts, "/")]; {
	case e != nil:
		d.endpoint = e
	case len(parts) == 2 && parts[0] == "respond" && !h.o.NoCapabilities:
		d.token = parts[1]
	case len(parts) == 3 && parts[0] == "respond" && len(h.open) > 0:
		d.kind, d.key = parts[1], parts[2]
	default:
		return d, notFound
	}
	if r.Method != http.MethodPost {
		return d, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "use POST", false}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return d, &refusal{http.StatusUnsupportedMediaType, "content_encoding", "send the body without a content encoding", false}
	}
	return d, nil
}

// body reads all of it, in bounded time and space.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, arriving *connlimit.Body) ([]byte, *refusal) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("at most %d bytes are taken: send a reference", h.o.MaxBytes), false}
	if r.ContentLength > int64(h.o.MaxBytes) {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	body, err := arriving.ReadAll(arriving, r.ContentLength, int64(h.o.MaxBytes), 100)
	_, over := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else it stays, because the server reads on to the end of a broken body
		return body, nil
	case over || errors.Is(err, connlimit.ErrTooLarge):
		return nil, tooLarge
	case errors.Is(err, connlimit.ErrNoRoom):
		w.Header().Set("Connection", "close")
		return nil, busy
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &refusal{http.StatusRequestTimeout, "body_timeout", "the body has not come in time: try again", true}
	}
	return nil, &refusal{http.StatusBadRequest, "body_broken", "the body has not come whole: try again", true}
}

// verify returns the endpoint whose verifier accepts the message.
func (h *Handler) verify(d door, header http.Header, body []byte) (e *Endpoint, v Verified, no *refusal) {
	candidates := h.open
	if d.endpoint != nil {
		candidates = []*Endpoint{d.endpoint}
	}
	no = &refusal{http.StatusUnauthorized, "bad_signature", "the message is not from a known sender", false}
	for _, c := range candidates {
		found, err := c.Verify.Verify(header, body, h.o.Now())
		switch {
		case err == nil && e == nil:
			e, v = c, found
		case errors.Is(err, ErrStale):
			no = &refusal{http.StatusUnauthorized, "stale", "the message was signed too long ago, or the clocks differ: sign it anew", false}
		}
	}
	if e == nil {
		return nil, v, no
	}
	return e, v, nil
}

// Message returns the message that the matcher of the endpoint gets for a verified request. Header
// names are in lower case; headers that carry secrets are omitted. A message without an id gets a
// random one.
func (e *Endpoint) Message(h http.Header, body []byte, v Verified) *source.Message {
	m := &source.Message{ID: v.ID, Topic: e.Name, Headers: map[string]string{}, ContentType: contentType(h), Time: v.Time, Body: body}
	if m.ID == "" {
		m.ID = rand.Text()
	}
	for name, values := range h {
		if name != "Authorization" && name != "Cookie" && len(values) > 0 {
			m.Headers[strings.ToLower(name)] = values[0]
		}
	}
	return m
}

// contentType is that of the request. One that is none must not refuse the message: its sender
// cannot mend it. A sender that gives none has sent bytes (RFC 9110, section 8.3).
func contentType(h http.Header) string {
	return cmp.Or(source.ContentType(h.Get("Content-Type")), "application/octet-stream")
}

// capability stores a response sent to a capability URL. Only the store can verify the token.
func (h *Handler) capability(ctx context.Context, d door, r *http.Request, body []byte) (sojourn.Responded, *refusal) {
	response := &sojourn.Response{Token: d.token, Source: CapabilitySource, MessageID: givenID(r.Header), KeepConflict: true, Body: body, ContentType: contentType(r.Header)}
	answer, err := h.client.Respond(ctx, response)
	if e, ok := errors.AsType[*sojourn.Error](err); ok && e.Field == "token" {
		return answer, notFound
	}
	return answer, h.refused(CapabilitySource, err)
}

// store makes a response durable. What the store refuses of a matched message is parked: sending it
// again would change nothing.
func (h *Handler) store(ctx context.Context, e *Endpoint, response *sojourn.Response, m *source.Message) (answer sojourn.Responded, no *refusal) {
	if no := h.allowed(ctx, e, response); no != nil {
		return answer, no
	}
	response.TTL, response.PerKey, response.KeepConflict = e.TTL, true, true
	answer, err := h.client.Respond(ctx, response)
	if code := sojourn.ErrorCode(err); m != nil && !response.Park && (code == sojourn.CodeInvalid || code == sojourn.CodeInvalidJSON || code == sojourn.CodeNotFound) {
		cause := err
		why := source.Matcher(func(context.Context, *source.Message) (*sojourn.Response, error) {
			return nil, &source.ParkError{Reason: code, Err: cause}
		})
		answer, err = h.client.Respond(ctx, why.Response(ctx, e.Name, m))
	}
	return answer, h.refused(e.Name, err)
}

// allowed restricts a sender to its kinds, and with KnownOnly to known keys.
func (h *Handler) allowed(ctx context.Context, e *Endpoint, r *sojourn.Response) *refusal {
	if r.Park || r.Token != "" || slices.Contains(e.Kinds, "*") && !e.KnownOnly {
		return nil
	}
	if !slices.Contains(e.Kinds, "*") && !slices.Contains(e.Kinds, r.Kind) {
		return &refusal{http.StatusForbidden, "kind_not_allowed", "this sender may not answer jobs of that kind", false}
	}
	if !e.KnownOnly || r.Key == "" {
		return nil
	}
	_, err := h.client.GetByKey(ctx, r.Key, r.Kind)
	if errors.Is(err, sojourn.ErrNotFound) {
		return &refusal{http.StatusNotFound, "unknown_key", "no job has this key: try again later", true}
	}
	return h.refused(e.Name, err)
}

// refused translates an error of the store.
func (h *Handler) refused(endpoint string, err error) *refusal {
	switch code := sojourn.ErrorCode(err); {
	case err == nil:
		return nil
	case code == sojourn.CodeInvalid:
		return &refusal{http.StatusBadRequest, "invalid", "kind, key or message id is malformed", false}
	case code == sojourn.CodeInvalidJSON:
		return &refusal{http.StatusBadRequest, code, "the body is no JSON, which its content type says it is", false}
	case code == sojourn.CodeTooLarge:
		return &refusal{http.StatusRequestEntityTooLarge, "body_too_large", "the store takes no body of this size: send a reference", false}
	case errors.Is(err, sojourn.ErrNotFound):
		return notFound
	case code == sojourn.CodeUnavailable || errors.Is(err, sojourn.ErrClosed):
		h.o.Logger.Warn("webhook: the store does not take responses", "endpoint", endpoint, "error", err)
		return &refusal{http.StatusServiceUnavailable, "unavailable", "the message is not stored: try again", true}
	}
	h.o.Logger.Warn("webhook: nobody knows whether a response is stored", "endpoint", endpoint, "error", err)
	return &refusal{http.StatusServiceUnavailable, "unknown_outcome", "the message may or may not be stored: send it again with the same id", true}
}

// refuse answers with a problem (RFC 9457).
func refuse(w http.ResponseWriter, r *refusal) {
	switch r.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	reply(w, r.status, "application/problem+json", struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Code      string `json:"code"`
		Retryable bool   `json:"retryable"`
	}{"about:blank", http.StatusText(r.status), r.status, r.detail, r.code, r.retry})
}

func reply(w http.ResponseWriter, status int, contentType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings and numbers
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer") // the path may be a capability
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a sender that does not get the answer retries
}
