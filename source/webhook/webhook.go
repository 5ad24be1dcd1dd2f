// Package webhook receives responses over HTTP. A Handler is part of your own server or has its own
// port, and serves three routes:
//
//	POST /webhook/{name}          (or Endpoint.Path) a signed message of one sender, of which a source.Matcher makes a response
//	POST /respond/{kind}/{key}    the body is the answer to the job of that key, from a sender who knows a secret
//	POST /respond/{token}         a capability link: answers one wait (sojourn.Job.RespondURL)
//
// A 2xx status means that the message is durable, whatever its outcome, and need not be sent again.
// docs/guides/webhooks.md lists all status codes and which of them make a sender retry. Tokens,
// secrets, headers and bodies are never logged.
package webhook

import (
	"cmp"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
	"github.com/sojourn-queue/sojourn/source"
)

// Defaults of Options and Server.
const (
	DefaultMaxBytes    = sojourn.DefaultMaxBytes // of a body
	DefaultTimeout     = 10 * time.Second        // for the body to come, and for the store to make the response durable
	DefaultMaxInFlight = 100                     // requests that are verified and stored at a time
	DefaultMaxConns    = 10_000                  // of Server: connections at a time
	MaxHeaderBytes     = 16 << 10                // of Server
	HeaderTimeout      = 5 * time.Second         // of Server: for the header to come
	IdleTimeout        = 2 * time.Minute         // of Server: of a connection between two requests
	reservedShare      = 4                       // one connection in so many is kept for known senders
)

// CapabilitySource is the source of responses sent to a capability URL.
const CapabilitySource = "capability"

// Endpoint configures one sender.
type Endpoint struct {
	// Name is the source of its responses in the inbox, and with Match the last part of the default
	// path: 1-128 bytes of A-Za-z0-9_.:-. Message ids are unique within it and a key: two
	// endpoints, or two keys, may have the same ones.
	Name string
	// Path is where the sender posts, default /webhook/{name}: up to 255 bytes of A-Za-z0-9_.:~-/
	// that do not begin with /respond. It needs Match.
	Path string
	// Verify authenticates the sender's messages.
	Verify Verifier
	// Match makes responses of messages. Without it the sender names kind and key in the path,
	// which no signature covers, so Verify must be one that knows a secret, such as Bearer.
	Match source.Matcher
	// Kinds lists the kinds that the sender may answer; "*" means all. A response to a job by its
	// id needs "*". Never empty.
	Kinds []string
	// TTL is the time that an early response waits for its job. 0 = the store's own, 24 h by
	// default.
	TTL time.Duration
	// KnownOnly refuses responses to a key that no job has or had, with 404, so that the sender
	// retries. Default: they are stored, and a job that awaits the key within the TTL gets them.
	KnownOnly bool
}

// Options of a Handler.
type Options struct {
	// Endpoints are the senders that are known. Without any, only capabilities are taken.
	Endpoints []Endpoint
	// NoCapabilities disables capability URLs.
	NoCapabilities bool
	// MaxBytes limits a body: 1 to 16 MiB, default 256 KiB. The store has its own limit; the lower
	// one applies.
	MaxBytes int
	// Timeout is for the body to come, and then for the store: 100 ms to 10 min, default 10 s.
	Timeout time.Duration
	// MaxInFlight limits the requests that are verified and stored concurrently; others are refused
	// and may retry. All bodies together take at most MaxInFlight × MaxBytes of memory. 1 to
	// 100,000, default 100.
	MaxInFlight int
	// MaxConns bounds the connections of Server. A quarter is kept for those that have carried a
	// message of a known sender or a valid link; of the others the oldest makes room. 1 to
	// 1,000,000, default 10,000.
	MaxConns int
	// Logger logs errors of the store, and panics. Default: slog.Default().
	Logger *slog.Logger
	// Observe is called with each request that had an answer. Default: none.
	Observe func(Handled)
	// Now is the clock against which signatures are checked. Default: time.Now.
	Now func() time.Time
}

// Handled is the result of a request.
type Handled struct {
	Endpoint string // "" if it is not known, CapabilitySource of a capability
	Status   int
	Code     string                  // error code of a refusal
	Outcome  sojourn.ResponseOutcome // of the stored response
}

// Handler is the receiver. It is safe for concurrent use.
type Handler struct {
	client *sojourn.Client
	o      Options
	at     map[string]*Endpoint // those with Match, by path
	open   []*Endpoint          // the others
	room   chan struct{}        // one token for each request in flight
	bodies *connlimit.Budget
}

// New makes a receiver that gives responses to client. An error is about the options.
func New(client *sojourn.Client, o Options) (*Handler, error) {
	h := &Handler{client: client, at: map[string]*Endpoint{}}
	named := map[string]bool{}
	o.Endpoints = slices.Clone(o.Endpoints)
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		if err := e.validate(); err != nil {
			return nil, err
		}
		if named[e.Name] {
			return nil, sojourn.Invalid("name", "two endpoints are called %.64q: message ids are unique within one", e.Name)
		}
		named[e.Name] = true
		if e.Match == nil {
			h.open = append(h.open, e)
			continue
		}
		if e.Path == "" {
			e.Path = "/webhook/" + e.Name
		}
		if h.at[e.Path] != nil {
			return nil, sojourn.Invalid("path", "endpoints %s and %s have the same, %s", h.at[e.Path].Name, e.Name, e.Path)
		}
		h.at[e.Path] = e
	}
	var err error
	if h.o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	h.room = make(chan struct{}, h.o.MaxInFlight)
	h.bodies = connlimit.NewBudget(int64(h.o.MaxInFlight)*int64(h.o.MaxBytes), h.o.Timeout)
	return h, nil
}

func (e *Endpoint) validate() error {
	if err := cmp.Or(sojourn.ValidName("name", e.Name), sojourn.ValidSource("name", e.Name)); err != nil {
		return err
	}
	if strings.Contains(e.Name, "/") || e.Name == CapabilitySource {
		return sojourn.Invalid("name", "%.64q is no name of an endpoint: it is one part of a path, and %q is taken", e.Name, CapabilitySource)
	}
	if err := e.validatePath(); err != nil {
		return err
	}
	if e.Verify == nil {
		return sojourn.Invalid("verify", "endpoint %s verifies nothing: give it Standard, GitHub, Stripe or Bearer", e.Name)
	}
	if _, signed := e.Verify.(*Signed); signed && e.Match == nil {
		return sojourn.Invalid("match", "endpoint %s has signatures, which do not cover the path: give it a matcher that finds kind and key in the message", e.Name)
	}
	if len(e.Kinds) == 0 {
		return sojourn.Invalid("kinds", "endpoint %s has no kinds; list the kinds that it may answer, or \"*\" for all", e.Name)
	}
	for _, k := range e.Kinds {
		if k == "*" {
			continue
		}
		if err := sojourn.ValidName("kinds", k); err != nil {
			return err
		}
	}
	if e.TTL != 0 && (e.TTL < sojourn.MinInboxTTL || e.TTL > sojourn.MaxHorizon) {
		return sojourn.Invalid("ttl", "%v is out of range: 1s to 10 years, or 0 for the store's own", e.TTL)
	}
	return nil
}

// plainPath needs no escaping, and nothing to be made straight.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_:~-][A-Za-z0-9_.:~-]*)+$`)

func (e *Endpoint) validatePath() error {
	switch {
	case e.Path == "":
		return nil
	case e.Match == nil:
		return sojourn.Invalid("path", "endpoint %s has no matcher: its sender names kind and key in the path /respond/{kind}/{key}", e.Name)
	case len(e.Path) > 255 || !plainPath.MatchString(e.Path) || e.Path == "/respond" || strings.HasPrefix(e.Path, "/respond/"):
		return sojourn.Invalid("path", "%.64q is no path such as /hooks/bank: up to 255 bytes of A-Za-z0-9_.:~-/ that do not begin with /respond", e.Path)
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if o.MaxBytes < 0 || o.MaxBytes > sojourn.MaxMaxBytes {
		return o, sojourn.Invalid("max_bytes", "%d is out of range: 1 to %d, or 0 for %d", o.MaxBytes, sojourn.MaxMaxBytes, DefaultMaxBytes)
	}
	if o.Timeout != 0 && (o.Timeout < 100*time.Millisecond || o.Timeout > 10*time.Minute) {
		return o, sojourn.Invalid("timeout", "%v is out of range: 100ms to 10m, or 0 for %v", o.Timeout, DefaultTimeout)
	}
	if o.MaxInFlight < 0 || o.MaxInFlight > 100_000 {
		return o, sojourn.Invalid("max_in_flight", "%d is out of range: 1 to 100000, or 0 for %d", o.MaxInFlight, DefaultMaxInFlight)
	}
	if o.MaxConns < 0 || o.MaxConns > 1_000_000 {
		return o, sojourn.Invalid("max_conns", "%d is out of range: 1 to 1000000, or 0 for %d", o.MaxConns, DefaultMaxConns)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observe == nil {
		o.Observe = func(Handled) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Server is an http.Server for a port of the receiver's own, with limits against slow and large
// requests. Set Addr, then call ListenAndServe or ListenAndServeTLS, and Shutdown to end it:
// requests that are being stored get their answer first.
func Server(h *Handler) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: HeaderTimeout, WriteTimeout: HeaderTimeout + 3*h.o.Timeout,
		IdleTimeout: IdleTimeout, MaxHeaderBytes: MaxHeaderBytes, ErrorLog: slog.NewLogLogger(h.o.Logger.Handler(), slog.LevelDebug)}
	connlimit.New(h.o.MaxConns, h.o.MaxConns/reservedShare).Install(s)
	return s
}
