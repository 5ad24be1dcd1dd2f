package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/claimants"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/redact"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
)

// Defaults of Options.
const (
	DefaultMaxBody     = 4 << 20          // bytes; raised to fit two values of the store's MaxBytes
	DefaultMaxRequests = 1024             // at work at a time
	DefaultMaxWaiting  = 10_000           // long polls at a time
	DefaultMaxBytes    = 64 << 20         // of bodies in memory at a time
	DefaultMaxQueues   = 1000             // that the jobs of one token may create
	finishFactor       = 4                // times MaxBody for outcomes: a long error text is cut by the store, never a ground to lose the outcome
	bodyPatience       = 10 * time.Second // for the next connlimit.MinPiece bytes of a body, or for its end
	writePatience      = 30 * time.Second
	strictTransport    = "max-age=31536000" // a browser that was here by TLS comes by nothing else for a year
)

// Options are settings of a server. The zero value is fine for loopback.
type Options struct {
	Logger      *slog.Logger // one line a request, never with args or tokens; default none
	Open        bool         // no token is required: any client that reaches the address may do everything
	AnyHost     bool         // with Open: accept any host name; otherwise only an address or localhost
	MaxBody     int64        // bytes of a request's body
	MaxRequests int          // requests at work at a time, long polls not counted
	MaxWaiting  int          // long polls at a time
	MaxBytes    int64        // bytes of all bodies in memory at a time
	MaxQueues   int          // queues that the jobs of one token may create: default DefaultMaxQueues, below 0 any number
	Rate        float64      // requests a second of one token, in bursts of up to a second's; four times as many reports of workers; default no bound
	Redact      []string     // paths such as args.card.number, whose values only tokens with access.VerbReadRedacted see
}

// Server is an http.Handler over a store. Safe for concurrent use.
type Server struct {
	store     driver.Store
	redacted  redact.Paths
	client    *sojourn.Client // draws ids for jobs that come without one
	o         Options
	log       *slog.Logger
	mux       *http.ServeMux
	door      *door
	admit     *admission.Limiter
	rates     *admission.Rates
	claimants claimants.Claimants
	bodies    *connlimit.Budget
	patience  time.Duration // of bodies
	arriving  atomic.Int64  // bodies that are being read
	lasting   lasting       // long polls and streams
	meters    *meters
	ready     readiness
	began     time.Time
	closing   atomic.Bool
	drained   context.Context // ends with Drain, and with it the long polls
	drain     context.CancelFunc
}

// New makes a server over a store, which the caller closes after the server has been shut down.
// Without Options.Open the store must be an access.Keeper.
func New(ctx context.Context, store driver.Store, o Options) (*Server, error) {
	keeper, keeps := store.(access.Keeper)
	if !keeps && !o.Open {
		return nil, sojourn.Invalid("store", "keeps no tokens, so the server can only be open to everyone: set Open")
	}
	status, err := store.Status(ctx)
	if err != nil {
		return nil, err
	}
	o.MaxBody = cmp.Or(o.MaxBody, max(DefaultMaxBody, 3*int64(status.MaxBytes)))
	o.MaxRequests, o.MaxWaiting = cmp.Or(o.MaxRequests, DefaultMaxRequests), cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	o.MaxQueues = max(cmp.Or(o.MaxQueues, DefaultMaxQueues), 0)
	o.MaxBytes = max(cmp.Or(o.MaxBytes, DefaultMaxBytes), o.MaxBody)
	s := &Server{began: time.Now(), store: store, client: sojourn.NewServerClient(store), o: o, log: o.Logger, mux: http.NewServeMux(), meters: newMeters()}
	s.setPatience(bodyPatience)
	if s.redacted, err = redact.Parse(o.Redact); err != nil {
		return nil, err
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.admit, s.rates = admission.NewLimiter(o.MaxRequests, o.MaxWaiting), admission.NewRates(o.Rate)
	s.ready.worker = sojourn.ProbeQueue + "." + rand.Text()
	s.meters.watch(s)
	s.drained, s.drain = context.WithCancel(context.Background())
	if !o.Open {
		s.door = newDoor(keeper, s.log)
	}
	for _, r := range routes {
		s.mux.Handle(r.method+" "+r.path, s.handler(r))
	}
	s.mux.HandleFunc("GET /livez", s.livez)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.Handle("GET /metrics", s.handler(metricsRoute))
	s.mux.HandleFunc("GET /openapi.json", serveFile("application/json", specification))
	s.mux.HandleFunc("GET /docs", serveDocs)
	return s, nil
}

// setPatience makes the budget of the bodies.
func (s *Server) setPatience(d time.Duration) {
	s.patience, s.bodies = d, connlimit.NewBudget(s.o.MaxBytes, d)
}

// Drain answers long polls with the results so far and refuses new requests, except completions and
// extensions, with CodeDraining. Call it before http.Server.Shutdown; /readyz fails from then on.
func (s *Server) Drain() {
	s.closing.Store(true)
	s.drain()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := requestID(r)
	head := w.Header()
	head.Set("X-Request-Id", id)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		head.Set("Strict-Transport-Security", strictTransport)
	}
	if len(r.TransferEncoding) > 0 {
		head.Set("Connection", "close") // it may have had a length too, of which net/http does not tell: what follows could be part of the body
	}
	s.bodies.Begin(w, r)
	answer := &recorder{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, id))
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.log.Error("panic", "request_id", id, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			s.fail(answer, r, errors.New("panic"))
		}
		if !answer.read {
			s.bodies.End(w, r)
		}
		took := time.Since(began)
		s.meters.request(r.Pattern, answer.status, took)
		s.log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("request_id", id), slog.String("method", r.Method),
			slog.String("route", r.Pattern), slog.Int("status", answer.status), slog.Duration("took", took),
			slog.String("token", answer.token), slog.String("code", answer.code), slog.String("from", r.RemoteAddr))
	}()
	if err := s.refused(r); err != nil {
		s.fail(answer, r, err)
		return
	}
	s.mux.ServeHTTP(&problems{answer, s, r}, r)
}

// refused returns the error of a request that is invalid on any route.
func (s *Server) refused(r *http.Request) error {
	if headerSize(r) > MaxHeader {
		return wire.Refusal(wire.CodeHeaderSize, "the request line and the headers have more than %d bytes", MaxHeader)
	}
	// http.ServeMux would redirect to the cleaned path. The meaning of a path must not depend on
	// the component that cleans it. Names may hold an encoded slash.
	if p := r.URL.EscapedPath(); p != path.Clean(p) {
		return wire.Refusal(wire.CodeNoRoute, "there is nothing at this path; /docs lists the paths")
	}
	if q := r.URL.RawQuery; strings.Contains(q, "token=") || strings.Contains(q, bearerPrefix) {
		return wire.Refusal(wire.CodeTokenInURL, "a token does not belong into a URL, which is logged everywhere: send it as Authorization: Bearer, and rotate this one")
	}
	// DNS rebinding: a page whose name is changed to resolve to this machine has our own origin. A
	// token stops it; without tokens the host name must be checked.
	if s.o.Open && !s.o.AnyHost && !plainHost(r.Host) {
		return wire.Refusal(wire.CodeCrossOrigin, "the header Host has a name, but a server without tokens accepts only its address or localhost; use one of them")
	}
	// A browser states the origin of the page that sends a request. No page of another origin may
	// use this API, at any address.
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return wire.Refusal(wire.CodeCrossOrigin, "a page of another origin sent this request; send it from the same origin")
	}
	return nil
}

// plainHost reports whether a host is an address or this machine, so that no name server has a say
// in it.
func plainHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	_, err = netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}

type requestKey struct{}

// requestID returns the caller's request id if it is harmless, else a random one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && sojourn.ValidName("id", id) == nil {
		return id
	}
	return rand.Text()
}

// recorder records the response for the log.
type recorder struct {
	http.ResponseWriter
	status      int
	read        bool // the body was read to its end
	token, code string
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		// The deadline of the answer before is still set: net/http keeps it for the whole
		// connection.
		_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(writePatience))
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// fail answers with a problem.
func (s *Server) fail(w *recorder, r *http.Request, err error) {
	id, _ := r.Context().Value(requestKey{}).(string)
	p := wire.Of(s.coded(r, id, err), id)
	w.code = p.Code
	if w.status != 0 {
		return // the answer has begun
	}
	head := w.Header()
	switch {
	case p.Code == wire.CodeUnauthorized:
		connlimit.SetAuthenticated(r.Context(), false)
		head.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	case head.Get("Retry-After") != "":
	case p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable:
		head.Set("Retry-After", "1")
	case p.Code == wire.CodeBodyTooLarge || p.Code == wire.CodeBodyTimeout || p.Code == wire.CodeHeaderSize:
		head.Set("Connection", "close")
	case p.Code == wire.CodeMediaType:
		head.Set("Accept-Post", jsonType)
	}
	head.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = wire.Codec{}.Write(w, p)
	}
}

// coded gives an error its code. What has none is ours, and its text stays in the log.
func (s *Server) coded(r *http.Request, id string, err error) *sojourn.Error {
	if e, ok := errors.AsType[*sojourn.Error](err); ok {
		return s.public(id, e)
	}
	switch {
	case errors.Is(err, sojourn.ErrNotFound):
		return sojourn.NotFound("there is no such job, queue or response")
	case errors.Is(err, sojourn.ErrClosed):
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Retryable: true}
	case r.Context().Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "the request was given up", Retryable: true}
	}
	s.log.Error("internal error", "request_id", id, "error", err.Error())
	return wire.Refusal(wire.CodeInternal, "the server failed; its log has the cause under this request_id")
}

// public returns an error without the driver's text, which names hosts, databases, users and files.
// That text is only logged.
func (s *Server) public(id string, e *sojourn.Error) *sojourn.Error {
	if e.Err == nil {
		return e
	}
	shown := *e
	switch e.Code {
	case sojourn.CodeUnavailable:
		shown.Message = "the store cannot be reached or written; nothing happened (the server's log has the cause)"
	case sojourn.CodeUnknown:
		shown.Message = "the call may or may not have been executed: repeat it unchanged (the server's log has the cause)"
	case sojourn.CodeSchema:
		shown.Message = "the store's tables do not fit this server (its log has the cause)"
	default:
		return e
	}
	s.log.Warn("the store failed", "request_id", id, "code", e.Code, "error", e.Error())
	return &shown
}

// problems turns the plain refusals of http.ServeMux, for unknown paths and methods, into problems.
type problems struct {
	*recorder
	s *Server
	r *http.Request
}

func (p *problems) WriteHeader(status int) {
	if p.r.Pattern != "" || status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		p.recorder.WriteHeader(status)
		return
	}
	e := wire.Refusal(wire.CodeNoRoute, "there is nothing at this path; /docs lists the paths")
	if status == http.StatusMethodNotAllowed {
		e = wire.Refusal(wire.CodeMethod, "this path does not accept %.16s; the header Allow lists the accepted methods", p.r.Method)
	}
	p.s.fail(p.recorder, p.r, e)
}

func (p *problems) Write(b []byte) (int, error) {
	if p.code != "" && p.r.Pattern == "" {
		return len(b), nil // the mux's own text
	}
	return p.recorder.Write(b)
}
