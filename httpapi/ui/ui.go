package ui

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/session"
)

// Times and sizes of a request.
const (
	pagePatience = 15 * time.Second // for everything that a page reads
	bulkPatience = 60 * time.Second // for a change of many jobs
	formPatience = 10 * time.Second // for the body of a form to arrive
	maxForm      = 1 << 20          // bytes of a form
	maxSignIn    = 16 << 10         // of the form to sign in, which strangers may send
)

// webName names the page in the history of jobs.
const webName = "web"

// Options are settings of the web page. The zero value serves everyone who names the host by its
// address or as localhost.
type Options struct {
	// API is the HTTP API of the same store, a server.Server. If it is set, each call of a page
	// goes through it.
	API http.Handler
	// SignIn makes people sign in with an access token. It needs API, and a store that keeps
	// tokens.
	SignIn bool
	// AnyHost accepts requests for any host name. Set it behind authentication of your own. By
	// default, and without SignIn, only an address or localhost is accepted: another name may have
	// been pointed at this machine by a hostile page (DNS rebinding).
	AnyHost  bool
	ReadOnly bool         // show no actions, and refuse all changes
	Name     string       // shown beside the title, such as "production"
	Logger   *slog.Logger // sign-ins and errors, never with tokens or args; default none
}

// site is the handler.
type site struct {
	client   *sojourn.Client
	o        Options
	log      *slog.Logger
	mux      *http.ServeMux
	pages    pages
	sessions *session.Store[*person]
	tokens   tokens
	edges    edgeCache
	key      []byte // of the CSRF tokens
	anyone   *person
}

// New makes the web page of a store. The handler is safe for concurrent use. It panics if o.SignIn
// is set without o.API, or with a store that keeps no access tokens.
func New(c *sojourn.Client, o Options) http.Handler {
	s := &site{client: c, o: o, log: o.Logger, mux: http.NewServeMux(), pages: parsePages(), sessions: session.New[*person](), key: []byte(rand.Text())}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	keeper, keeps := c.Store().(access.Keeper)
	if o.SignIn && (!keeps || o.API == nil) {
		panic("ui: SignIn needs API, and a store that keeps access tokens")
	}
	s.tokens.keeper = keeper
	if !o.SignIn {
		s.anyone = &person{client: c.As(webName)}
		if o.API != nil {
			s.anyone.client = throughAPI(o.API, "")
		}
	}
	s.routes()
	return s
}

// routes registers the pages and the actions.
func (s *site) routes() {
	for path, page := range map[string]func(*request) (page, error){
		"/{$}": overviewPage, "/jobs": jobsPage, "/jobs/{id}": jobPage, "/bulk": bulkPage, "/waiting": waitingPage, "/response": responsePage,
		"/queues": queuesPage, "/queue": queuePage, "/schedules": schedulesPage, "/calendar": calendarPage, "/workflows": workflowsPage, "/workflow": workflowPage,
		"/failures": failuresPage, "/failure": failurePage, "/operations": operationsPage, "/operation": operationPage,
		"/statistics": statisticsPage, "/workers": workersPage, "/audit": auditPage,
	} {
		s.mux.HandleFunc("GET "+path, s.page(page))
	}
	for name, action := range map[string]func(*request) (string, error){
		"bulk": doBulk, "answer": doAnswer, "redrive": doRedrive, "cancel": doCancel, "edit": doEdit, "inbox": doInbox, "pause": doPause, "hold": doHold,
		"setting": doSetting, "schedule": doSchedule, "workflow": doWorkflow, "drain": doDrain, "forget": doForget, "mute": doMute, "operation": doOperation,
	} {
		s.mux.HandleFunc("POST /do/"+name, s.action(action))
	}
	s.mux.HandleFunc("GET /find", s.page(find))
	s.mux.HandleFunc("GET /jobs/{id}/{part}", s.page(download))
	s.mux.HandleFunc("GET /signin", s.signInPage)
	s.mux.HandleFunc("POST /signin", s.signIn)
	s.mux.HandleFunc("POST /signout", s.signOut)
	s.mux.HandleFunc("GET /static/{file}", serveStatic)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(s.request(w, r, s.anyone), sojourn.NotFound("there is no such page"))
	})
}

// request is a request of a person while it is answered.
type request struct {
	*site
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	who  *person // nil: not signed in
	base string  // relative link to the overview, such as "../"
}

func (s *site) request(w http.ResponseWriter, r *http.Request, who *person) *request {
	depth := strings.Count(r.URL.EscapedPath(), "/") - 1
	return &request{site: s, w: w, r: r, ctx: withAddress(r.Context(), r.RemoteAddr), who: who, base: cmp.Or(strings.Repeat("../", max(depth, 0)), "./")}
}

// partial reports whether a page that is open asks for its live part.
func (q *request) partial() bool { return q.r.Header.Get("HX-Request") == "true" }

// get is a parameter of the URL or of the form.
func (q *request) get(name string) string { return strings.TrimSpace(q.r.FormValue(name)) }

// ServeHTTP answers one request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !s.o.SignIn && !s.o.AnyHost && !plainHost(r.Host) {
		http.Error(w, "Open this page by the address of the machine or as localhost. Another host name may have been pointed here by a hostile page.", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// secure sets the headers of every response. The Referrer-Policy is not no-referrer: with that,
// browsers send "Origin: null" with the forms of the page itself, which the check against
// cross-site requests must refuse.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
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

// page answers with a page, or with its live part.
func (s *site) page(make func(*request) (page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.enter(w, r)
		if !ok {
			return
		}
		q := s.request(w, r, who)
		ctx, cancel := context.WithTimeout(q.ctx, pagePatience)
		defer cancel()
		q.ctx = ctx
		p, err := make(q)
		switch {
		case err != nil:
			s.fail(q, err)
		case p.name != "":
			q.render(http.StatusOK, p)
		}
	}
}

// action carries out a change, and leads back to a page. A reload of that page repeats nothing.
func (s *site) action(do func(*request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.enter(w, r)
		if !ok {
			return
		}
		q := s.request(w, r, who)
		ctx, cancel := context.WithTimeout(q.ctx, bulkPatience)
		defer cancel()
		q.ctx = ctx
		err := q.readForm(who.csrf)
		if err == nil && s.o.ReadOnly {
			err = &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this page is read-only: nothing was changed"}
		}
		if err != nil {
			s.fail(q, err)
			return
		}
		to, err := do(q)
		who.queues.drop()
		who.failures.drop()
		who.operations.drop()
		if err != nil {
			s.fail(q, err)
			return
		}
		q.redirect(to)
	}
}

// redirect leads to a page of this site, by a relative link: the path under which the site is
// mounted is not known.
func (q *request) redirect(to string) {
	q.w.Header().Set("Location", q.base+to)
	q.w.WriteHeader(http.StatusSeeOther)
}

// readForm reads the form of a changing request, and refuses one that another site may have sent:
// by the headers of the browser, and by a token that only pages of this site have.
func (q *request) readForm(about string) error {
	if err := new(http.CrossOriginProtection).Check(q.r); err != nil {
		return errForged
	}
	out := http.NewResponseController(q.w)
	_ = out.SetReadDeadline(time.Now().Add(formPatience)) // not every server can
	limit := int64(maxForm)
	if q.who == nil {
		limit = maxSignIn
	}
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, limit)
	if err := q.r.ParseForm(); err != nil {
		return sojourn.Invalid("form", "the form did not arrive, or has more than %d KiB; send larger values with the command or the HTTP API", limit>>10)
	}
	_ = out.SetReadDeadline(time.Time{})
	if !hmac.Equal([]byte(q.r.PostForm.Get("csrf")), []byte(q.csrf(about))) {
		return errForged
	}
	return nil
}

var errForged = &sojourn.Error{Code: wire.CodeCrossOrigin, Index: -1,
	Message: "the form was not sent from a current page of this server, so nothing was changed; load the page again and repeat the action"}

// csrf is the token in the forms of a session.
func (s *site) csrf(about string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(about))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// problem is what the page of an error shows.
type problem struct {
	Code, Title, Text string
	Queues            []string // that the person may look at, if it may not look at all
}

// fail answers with the page of an error. A session whose token is no longer valid ends.
func (s *site) fail(q *request, err error) {
	code := sojourn.ErrorCode(err)
	if code == wire.CodeUnauthorized && s.o.SignIn {
		s.endSession(q.w, q.r)
		s.askToSignIn(q)
		return
	}
	p := problem{Code: code, Title: "This did not work", Text: message(err)}
	status := statusOf(err)
	switch status {
	case http.StatusNotFound:
		p.Title = "Not found"
	case http.StatusForbidden:
		p.Title = "Not allowed"
		p.Queues = q.someQueues()
	case http.StatusTooManyRequests:
		p.Title = "Try again later"
	case http.StatusServiceUnavailable:
		p.Title = "The store does not answer"
	case http.StatusInternalServerError:
		s.log.Error("page failed", "path", q.r.URL.Path, "error", err)
	}
	q.render(status, page{name: "error", title: p.Title, data: p})
}

// statusOf is the status of the HTTP API for the same error.
func statusOf(err error) int {
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusServiceUnavailable
	}
	return wire.StatusOf(sojourn.ErrorCode(err))
}

// message is an error for people. Texts of drivers, which name hosts and files, stay in the log.
func message(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "The store took too long to answer. Narrow the filter, or try again."
	}
	e, ok := errors.AsType[*sojourn.Error](err)
	switch {
	case !ok:
		return "The server failed. Its log has the cause."
	case e.Code == sojourn.CodeUnavailable || e.Code == sojourn.CodeSchema:
		return "The store cannot be reached. Nothing was changed; try again. The server's log has the cause."
	case e.Field != "":
		return e.Field + ": " + e.Message
	}
	return e.Message
}
