package server

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/events"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
)

// route is one operation of the API.
type route struct {
	method, path string
	id           string // of the operation in the description
	tag          string
	summary      string
	verb         access.Verb // that a token needs; the operation checks for which jobs
	others       others
	class        admission.Class
	in, out      reflect.Type
	raw          bool // the body is not JSON: the operation reads it
	serve        func(c *call) (any, error)
}

// call is one request while its operation runs.
type call struct {
	*Server
	ctx    context.Context // ends with the caller
	w      *recorder
	r      *http.Request
	who    *holder
	raw    bool // the operation reads the body
	class  admission.Class
	slot   *admission.Slot // nil until the body has been read
	body   *connlimit.Body // nil if none has been read
	codec  wire.Codec
	status int
	most   int64 // bytes of the body

	detail   any              // of an operator's action, for the audit log
	claimed  []driver.Claimed // to be given back if the answer does not arrive
	answered func()           // called when the answer was delivered or abandoned; may be nil
}

// others is the answer to a token that has the verb, but not for the queue or kind of the request.
type others string

const (
	refused  others = "refused"  // 403
	hidden   others = "hidden"   // 404, as if there were no such job
	filtered others = "filtered" // limited to the queues and kinds of the token
	shared   others = "shared"   // the full answer: none of it belongs to a queue or a kind
)

// op makes a route of a function.
func op[In, Out any](method, path, id, summary string, verb access.Verb, c admission.Class, fn func(*call, *In) (Out, error)) route {
	others := refused
	if strings.Contains(path, "{id}") {
		others = hidden
	}
	return route{method: method, path: path, id: id, summary: summary, verb: verb, class: c, others: others,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		serve: func(c *call) (any, error) {
			in := new(In)
			if d, ok := any(in).(interface{ defaults() }); ok {
				d.defaults()
			}
			if err := c.bind(in); err != nil {
				return nil, err
			}
			if err := c.begin(0); err != nil {
				return nil, err
			}
			return fn(c, in)
		}}
}

// onStore makes an operation of a function that needs nothing but the store. in.Detail, if it has
// one, goes to the audit log.
func onStore[In, Out any](fn func(context.Context, sojourn.Store, *In) (Out, error)) func(*call, *In) (Out, error) {
	return func(c *call, in *In) (Out, error) {
		if d, ok := any(in).(interface{ Detail() any }); ok {
			c.detail = d.Detail()
		}
		return fn(c.ctx, c.store, in)
	}
}

// but sets the answer to tokens for other queues and kinds.
func (r route) but(o others) route {
	r.others = o
	return r
}

// raw marks a route whose operation reads the body itself.
func raw(r route) route {
	r.raw = true
	return r
}

// tagged names the part of the API that routes belong to.
func tagged(tag string, rs ...route) []route {
	for i := range rs {
		rs[i].tag = tag
	}
	return rs
}

// handler authenticates and admits the requests of a route and runs its operation.
func (s *Server) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := w.(*problems).recorder
		if err := s.pass(rt, answer, r); err != nil {
			s.fail(answer, r, err)
		}
	})
}

func (s *Server) pass(rt route, w *recorder, r *http.Request) error {
	who, err := s.enter(r, rt.verb)
	if err != nil {
		return err
	}
	w.token = who.id
	if err := s.rate(w, who, rt.class); err != nil {
		return err
	}
	if err := acceptable(r, rt); err != nil {
		return err
	}
	if s.closing.Load() && rt.class != admission.Finishing {
		return draining()
	}
	if s.admit.Full(rt.class) {
		return admission.Overloaded()
	}
	ctx, cancel := context.WithCancel(access.WithCaller(r.Context(), who.caller))
	defer cancel()
	c := &call{Server: s, ctx: ctx, w: w, r: r, who: who, raw: rt.raw, class: rt.class, status: http.StatusOK, most: s.most(rt.class),
		codec: wire.Codec{Exact: r.Header.Get(wire.ExactHeader) == wire.ExactValue}}
	defer c.end()
	defer func() {
		if c.answered != nil {
			c.answered()
		}
	}()
	out, err := rt.serve(c)
	c.audit(rt, err)
	if err != nil {
		return err
	}
	if err = c.write(out); err != nil {
		c.giveBack()
	}
	return err
}

// most is how many bytes a body of a class may have.
func (s *Server) most(c admission.Class) int64 {
	if c == admission.Finishing {
		return s.o.MaxBody * finishFactor
	}
	return s.o.MaxBody
}

// begin takes the slot of a request whose body has been read. It does nothing if the request has
// its slot, or if the operation is yet to read the body.
func (c *call) begin(size int64) (err error) {
	if c.slot != nil || c.raw {
		return nil
	}
	if c.door == nil { // without tokens, a client counts as authenticated after one whole request
		connlimit.SetAuthenticated(c.ctx, true)
	}
	c.slot, err = c.admit.Enter(c.class, size)
	return err
}

// end releases the resources of the request.
func (c *call) end() {
	if c.slot != nil {
		c.slot.Leave()
	}
	if c.body != nil {
		c.body.Release()
	}
}

func draining() error {
	e := wire.Refusal(wire.CodeDraining, "the server is shutting down; nothing was stored, try again elsewhere or later")
	e.Retryable = true
	return e
}

// bytesAnswer is an answer that is not JSON. A browser must not render it, because its bytes are
// untrusted.
type bytesAnswer struct {
	contentType string
	body        []byte
}

// done is the answer of an operation that has written its own.
type done struct{}

func (c *call) write(out any) error {
	head := c.w.Header()
	var body []byte
	switch v := c.redacted.Answer(c.who.caller, out).(type) {
	case done, eventStream:
		return nil
	case bytesAnswer:
		head.Set("Content-Type", v.contentType)
		head.Set("Content-Disposition", "attachment")
		body = v.body
	default:
		var buffer bytes.Buffer
		if err := c.codec.Write(&buffer, v); err != nil {
			return err
		}
		head.Set("Content-Type", jsonType)
		body = buffer.Bytes()
	}
	if len(c.claimed) > 0 && c.r.Context().Err() != nil { // checked before sending: a caller may disconnect after receiving it
		return &undelivered{c.r.Context().Err()}
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(c.status)
	_, err := c.w.Write(body)
	if err == nil && len(c.claimed) > 0 { // a short answer waits in a buffer
		err = http.NewResponseController(c.w).Flush()
	}
	if err != nil {
		return &undelivered{err}
	}
	return nil
}

// acceptable refuses a request, before it has any effect, if its Accept header excludes the answer.
// Errors are sent in any case.
func acceptable(r *http.Request, rt route) error {
	wants := strings.Join(r.Header.Values("Accept"), ",")
	if wants == "" || rt.out == nil || rt.out == reflect.TypeFor[bytesAnswer]() {
		return nil
	}
	gives := jsonType
	switch rt.out {
	case reflect.TypeFor[done]():
		gives = ndjsonType
	case reflect.TypeFor[eventStream]():
		gives = events.StreamType
	}
	for want := range strings.SplitSeq(wants, ",") {
		t, _, _ := mime.ParseMediaType(want)
		if t == gives || t == "*/*" || t == "application/*" {
			return nil
		}
	}
	return wire.Refusal(wire.CodeNotAcceptable, "the response is %s, which the header Accept excludes; add it to Accept", gives)
}

// undelivered is an answer that could not be sent.
type undelivered struct{ error }
