package ui

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/session"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
)

const (
	tokensFresh = 2 * time.Second
	cookieName  = "sojourn_session"
	secureName  = "__Host-" + cookieName // a cookie that only this host, and only over TLS, can set
)

// person is on whose behalf calls are made: the holder of a token, or anyone if no sign-in is
// needed. Safe for concurrent use.
type person struct {
	client     *sojourn.Client
	token      string // id of the access token; empty of anyone
	name       string // of the access token
	csrf       string // what the CSRF tokens of the session are made of
	queues     cache[[]sojourn.QueueStatus]
	failures   cache[[]failure.Group]
	operations cache[[]operation.Status]
}

// Close ends the calls of a session that has ended.
func (p *person) Close() error { return p.client.Close() }

// cookie is the cookie of a request, "" if it has none.
func cookie(r *http.Request) string {
	for _, name := range []string{secureName, cookieName} {
		if c, err := r.Cookie(name); err == nil {
			return c.Value
		}
	}
	return ""
}

// overTLS reports whether the browser uses TLS, to this server or to a proxy in front of it: the
// browser states the origin of the form.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

func setCookie(w http.ResponseWriter, value string, life time.Duration, tls bool) {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: int(life / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: tls}
	if tls {
		c.Name = secureName
	}
	http.SetCookie(w, c)
}

// enter finds the person of a request. It answers the request if there is none.
func (s *site) enter(w http.ResponseWriter, r *http.Request) (*person, bool) {
	if !s.o.SignIn {
		return s.anyone, true
	}
	value := cookie(r)
	live := r.Method == http.MethodGet && r.Header.Get("HX-Request") == "true"
	if who, ok := s.sessions.Find(value, time.Now(), live); ok {
		return who, true
	}
	// A browser that follows a link from another site sends no SameSite=Strict cookie. A page that
	// loads itself again is not of another site.
	if r.Method == http.MethodGet && value == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		q := s.request(w, r, nil)
		q.render(http.StatusOK, page{name: "again", title: "One moment", data: q.self()})
		return nil, false
	}
	s.askToSignIn(s.request(w, r, nil))
	return nil, false
}

// askToSignIn leads to the form, and from there back to the page.
func (s *site) askToSignIn(q *request) {
	if q.partial() {
		q.w.Header().Set("HX-Refresh", "true")
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	to := "signin"
	if q.r.Method == http.MethodGet {
		if here := strings.TrimPrefix(q.r.URL.EscapedPath(), "/"); here != "" || q.r.URL.RawQuery != "" {
			to += "?next=" + url.QueryEscape(strings.TrimSuffix(here+"?"+q.r.URL.RawQuery, "?"))
		}
	}
	q.redirect(to)
}

// local returns next if it is a page of this site, else the overview.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.HasPrefix(u.Path, "/") || strings.ContainsAny(next, "\\\r\n\t") || strings.Contains(u.Path, "..") {
		return ""
	}
	return next
}

// signInForm is the page with the form.
type signInForm struct{ Next, Error string }

func (s *site) signInPage(w http.ResponseWriter, r *http.Request) {
	q := s.request(w, r, nil)
	if !s.o.SignIn {
		q.redirect("")
		return
	}
	q.render(http.StatusOK, page{name: "signin", title: "Sign in", data: signInForm{Next: local(r.URL.Query().Get("next"))}})
}

// signIn checks a token and begins a new session, whatever cookie the request has.
func (s *site) signIn(w http.ResponseWriter, r *http.Request) {
	q := s.request(w, r, nil)
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	if err := q.readForm("signin"); err != nil || !s.o.SignIn {
		s.fail(q, errForged)
		return
	}
	form := signInForm{Next: local(q.get("next"))}
	if !s.sessions.MayTry(address, time.Now()) {
		form.Error = "Too many failed attempts from your address. Wait a minute and try again."
		w.Header().Set("Retry-After", "60")
		q.render(http.StatusTooManyRequests, page{name: "signin", title: "Sign in", data: form})
		return
	}
	bearer := q.get("token")
	who := &person{client: throughAPI(s.o.API, bearer), csrf: rand.Text()}
	_, err := who.client.Store().Status(q.ctx) // every token with the verb read may ask for it
	if err != nil {
		_ = who.client.Close()
		status := statusOf(err)
		switch sojourn.ErrorCode(err) {
		case wire.CodeUnauthorized:
			status, form.Error = http.StatusUnauthorized, "This token is wrong, expired or revoked."
			s.sessions.FailedTry(address, time.Now())
		case access.CodeScope:
			form.Error = "This token lacks the verb read, which the page needs."
		default:
			form.Error = message(err)
		}
		s.log.Warn("sign-in failed", "from", r.RemoteAddr, "code", sojourn.ErrorCode(err))
		q.render(status, page{name: "signin", title: "Sign in", data: form})
		return
	}
	if t, ok := s.tokens.find(q.ctx, tokenID(bearer)); ok {
		who.token, who.name = t.ID, t.Name
	}
	s.endSession(w, r)
	setCookie(w, s.sessions.Add(who, time.Now()), session.Life, overTLS(r))
	s.audit(q.ctx, who, "signIn", r)
	q.redirect(form.Next)
}

func (s *site) signOut(w http.ResponseWriter, r *http.Request) {
	who, ok := s.enter(w, r)
	if !ok {
		return
	}
	q := s.request(w, r, who)
	if err := q.readForm(who.csrf); err != nil {
		s.fail(q, err)
		return
	}
	s.endSession(w, r)
	if s.o.SignIn {
		s.audit(q.ctx, who, "signOut", r)
	}
	q.redirect("signin")
}

// endSession ends the session of a request, if it has one, and takes its cookie back.
func (s *site) endSession(w http.ResponseWriter, r *http.Request) {
	if value := cookie(r); value != "" {
		s.sessions.End(value)
		setCookie(w, "", -time.Second, overTLS(r))
	}
}

// audit records a sign-in or a sign-out. What people do on the pages is recorded by the HTTP API.
func (s *site) audit(ctx context.Context, who *person, action string, r *http.Request) {
	store, keeps := s.client.Store().(access.AuditStore)
	if !keeps {
		return
	}
	if err := store.Audit(ctx, access.AuditEntry{Who: who.token, Action: action, Target: "web page", From: r.RemoteAddr}); err != nil {
		s.log.Error("not in the audit log", "error", err, "who", who.token, "action", action)
	}
}

// tokens knows the names and grants of tokens. The API checks the grants; the page only shows no
// actions that it would refuse.
type tokens struct {
	keeper access.Keeper

	mu   sync.Mutex // guards the fields below
	at   time.Time
	byID map[string]access.Token
}

// find returns a token by its id.
func (t *tokens) find(ctx context.Context, id string) (access.Token, bool) {
	if t.keeper == nil || id == "" {
		return access.Token{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.at) > tokensFresh {
		all, err := t.keeper.AccessTokens(ctx)
		if err != nil {
			return access.Token{}, false
		}
		t.at, t.byID = now, make(map[string]access.Token, len(all))
		for _, one := range all {
			t.byID[one.ID] = one
		}
	}
	found, ok := t.byID[id]
	return found, ok
}

// tokenID is the id in the text of a token, which is "sj_ID_SECRET".
func tokenID(bearer string) string {
	parts := strings.SplitN(bearer, "_", 3)
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// can reports whether the person may do something to the jobs of a queue and kind.
func (q *request) can(verb access.Verb, queue, kind string) bool {
	if q.o.ReadOnly && verb != access.VerbRead && verb != access.VerbReadArgs {
		return false
	}
	if q.who == nil || q.who.token == "" {
		return q.who != nil
	}
	t, ok := q.tokens.find(q.ctx, q.who.token)
	return ok && (&access.Caller{Token: t.ID, Grants: t.Grants}).Allows(verb, queue, kind)
}
