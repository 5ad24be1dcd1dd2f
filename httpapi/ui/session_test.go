package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/session"
)

func grant(queue string, verbs ...access.Verb) access.Grant {
	return access.Grant{Verbs: verbs, Queue: queue}
}

// TestSignIn: pages need a session, a session needs a valid token, and its cookie is out of reach
// of scripts and other sites.
func TestSignIn(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	id, bearer := b.token("ana", grant("", access.VerbAdmin))
	for _, path := range append(paths, "jobs/1", "queue?name=x", "find?q=x") {
		if got := b.get(path); got.StatusCode != http.StatusSeeOther || !strings.Contains(got.Header.Get("Location"), "signin") || len(got.body) > 0 {
			t.Errorf("%s without a session: %s to %q", path, got.Status, got.Header.Get("Location"))
		}
	}
	if got := b.get("jobs", "HX-Request: true"); got.StatusCode != http.StatusNoContent || got.Header.Get("HX-Refresh") != "true" {
		t.Errorf("a live update without a session: %s", got.Status)
	}
	if got := b.get("jobs?kind=a&tag=b").Header.Get("Location"); got != "./signin?next="+url.QueryEscape("jobs?kind=a&tag=b") {
		t.Errorf("led to %q", got)
	}
	b.see("signin?next="+url.QueryEscape("jobs?kind=a"), "Access token", `value="jobs?kind=a"`)
	if got := b.post("signin", url.Values{"token": {bearer + "x"}}); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %s", got.Status)
	}
	got := b.post("signin", url.Values{"token": {bearer}, "next": {"jobs?kind=a"}})
	if to := got.Header.Get("Location"); got.StatusCode != http.StatusSeeOther || to != "./jobs?kind=a" {
		t.Errorf("signed in: %s to %q", got.Status, to)
	}
	set := got.Cookies()
	if len(set) != 1 || !set[0].HttpOnly || set[0].SameSite != http.SameSiteStrictMode || set[0].Secure || strings.Contains(set[0].Value, bearer) {
		t.Errorf("the cookie: %+v", set)
	}
	if page := b.see("", "ana", "Sign out"); strings.Contains(page, bearer) || strings.Contains(page, set[0].Value) {
		t.Error("the page has the token or the cookie")
	}
	b.see("audit", "signIn", "ana", id)
	b.done("signout", url.Values{})
	if got := b.get("jobs"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("after signing out: %s", got.Status)
	}
}

// TestSecureCookie: where the browser uses TLS, be it to a proxy, the cookie is of this host only.
func TestSecureCookie(t *testing.T) {
	b := mount(t, Options{SignIn: true, AnyHost: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	b.see("signin")
	got := b.post("signin", url.Values{"token": {bearer}}, "Origin: https://jobs.example.com")
	if set := got.Cookies(); len(set) != 1 || !set[0].Secure || set[0].Name != secureName || set[0].Path != "/" || set[0].Domain != "" {
		t.Errorf("the cookie: %+v", set)
	}
}

// TestSessionFixation: signing in makes a new session, and ends the one of the cookie that came.
func TestSessionFixation(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	chosen := "Cookie: " + cookieName + "=CHOSENBYSOMEBODYELSE"
	b.see("signin")
	got := b.post("signin", url.Values{"token": {bearer}}, chosen)
	if set := got.Cookies(); len(set) == 0 || set[len(set)-1].Value == "CHOSENBYSOMEBODYELSE" || set[len(set)-1].Value == "" {
		t.Errorf("the cookie: %+v", set)
	}
	if got := b.another().get("jobs", chosen); got.StatusCode != http.StatusSeeOther {
		t.Errorf("the chosen cookie is a session: %s", got.Status)
	}
	var first string
	for _, c := range b.http.Jar.Cookies(b.base()) {
		first = "Cookie: " + c.Name + "=" + c.Value
	}
	b.signIn(bearer)
	if got := b.another().get("jobs", first); got.StatusCode != http.StatusSeeOther {
		t.Errorf("the session before is open: %s", got.Status)
	}
}

func (b *browser) base() *url.URL {
	u, err := url.Parse(b.url)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// TestOpenRedirect: after signing in, nobody is led to another site.
func TestOpenRedirect(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", `\\evil.example`, "javascript:alert(1)", "/etc", "../../evil", "jobs\r\nSet-Cookie: a=b", "data:text/html,x", "https:evil.example", "http:/evil"} {
		b.see("signin")
		if to := b.done("signin", url.Values{"token": {bearer}, "next": {next}}); to != "./" {
			t.Errorf("%q leads to %q", next, to)
		}
	}
}

// TestAttempts: an address that guesses tokens has to wait.
func TestAttempts(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	b.see("signin")
	for i := range session.AttemptsLimit {
		if got := b.post("signin", url.Values{"token": {fmt.Sprintf("sj_guess_%d", i)}}); got.StatusCode != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %s", i, got.Status)
		}
	}
	if got := b.post("signin", url.Values{"token": {bearer}}); got.StatusCode != http.StatusTooManyRequests || len(got.Cookies()) > 0 {
		t.Errorf("after %d attempts: %s", session.AttemptsLimit, got.Status)
	}
	s, now := session.New[*person](), time.Now()
	for range session.AttemptsLimit {
		s.FailedTry("a", now)
	}
	if s.MayTry("a", now) || !s.MayTry("b", now) || !s.MayTry("a", now.Add(session.AttemptsTime+time.Second)) {
		t.Error("the limit is not one of the address and the minute")
	}
}

// found reports whether there is a session.
func found(_ *person, ok bool) bool { return ok }

// TestSessionEnds: a session ends some time after its beginning, and earlier if no page is opened.
func TestSessionEnds(t *testing.T) {
	b := mount(t, Options{})
	now := time.Now()
	begin := func() (*session.Store[*person], string) {
		s := session.New[*person]()
		return s, s.Add(&person{client: throughAPI(b.site.o.API, "")}, now)
	}
	s, cookie := begin()
	if !found(s.Find(cookie, now.Add(session.Idle-time.Second), false)) || !found(s.Find(cookie, now.Add(2*session.Idle-2*time.Second), false)) {
		t.Error("a session in use ended")
	}
	if found(s.Find(cookie, now.Add(3*session.Idle), false)) {
		t.Error("an idle session is open")
	}
	s, cookie = begin()
	for at := time.Duration(0); at < session.Idle; at += session.Idle / 4 {
		s.Find(cookie, now.Add(at), true)
	}
	if found(s.Find(cookie, now.Add(session.Idle+time.Second), true)) {
		t.Error("live updates keep a session open")
	}
	s, cookie = begin()
	for at := time.Duration(0); at < session.Life; at += session.Idle / 2 {
		s.Find(cookie, now.Add(at), false)
	}
	if found(s.Find(cookie, now.Add(session.Life+time.Second), false)) {
		t.Error("a session has no end")
	}
}

// TestRevokedToken: the session of a token that is revoked ends with it.
func TestRevokedToken(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	id, bearer := b.token("ana", grant("", access.VerbAdmin))
	b.signIn(bearer)
	keeper := b.client.Store().(access.Keeper)
	all, err := keeper.AccessTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.ID == id {
			one.RevokedAt = time.Now().Add(-time.Second)
			if err := keeper.SetAccessToken(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); b.get("jobs").StatusCode == http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session is open")
		}
	}
	if b.site.sessions.Len() != 0 {
		t.Error("the session is kept")
	}
}

// TestForgery: a changing request needs the session, the token of a current page, and the origin
// (spec:H11).
func TestForgery(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	id := b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	b.signIn(bearer)
	for _, action := range []string{"bulk", "answer", "redrive", "cancel", "edit", "inbox", "pause", "hold", "setting", "schedule", "workflow", "drain", "forget", "mute", "operation"} {
		form := func(csrf string) url.Values {
			return url.Values{"csrf": {csrf}, "job": {id.String()}, "queue": {"pay"}, "paused": {"true"}, "action": {"cancel"}, "kind": {"charge"}, "total": {"1"}, "for": {"10m"}, "worker": {"w"}, "name": {"x"}, "seq": {"1"}}
		}
		good := b.csrf
		for name, send := range map[string]func() shown{
			"no token":             func() shown { return b.post("do/"+action, form("")) },
			"token of the sign-in": func() shown { return b.post("do/"+action, form(b.site.csrf("signin"))) },
			"another site":         func() shown { return b.post("do/"+action, form(good), "Sec-Fetch-Site: cross-site") },
			"a sibling site":       func() shown { return b.post("do/"+action, form(good), "Sec-Fetch-Site: same-site") },
			"another origin": func() shown {
				return b.post("do/"+action, form(good), "Sec-Fetch-Site: ", "Origin: https://evil.example")
			},
			"an origin of null": func() shown { return b.post("do/"+action, form(good), "Sec-Fetch-Site: ", "Origin: null") },
		} {
			if got := send(); got.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: %s", action, name, got.Status)
			}
		}
		if got := b.another().post("do/"+action, form(good)); got.StatusCode != http.StatusSeeOther || !strings.Contains(got.Header.Get("Location"), "signin") {
			t.Errorf("%s without a session: %s", action, got.Status)
		}
		if got := b.get("do/" + action); got.StatusCode != http.StatusNotFound && got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %s", action, got.Status)
		}
		b.csrf = good
	}
	if j, err := b.client.Get(t.Context(), id); err != nil || j.State != sojourn.Ready {
		t.Errorf("the job changed: %v, %v", j.State, err)
	}
	if q, err := b.client.Queues().Get(t.Context(), "pay"); err != nil || q.Settings.Paused || !q.HeldUntil.IsZero() {
		t.Errorf("the queue changed: %+v, %v", q, err)
	}
}

// TestForgedSignIn: another site cannot sign a person in under a token of its choice.
func TestForgedSignIn(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	b.see("signin")
	for _, header := range []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"} {
		if got := b.post("signin", url.Values{"token": {bearer}}, header, "Sec-Fetch-Site: cross-site"); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
			t.Errorf("%s: %s", header, got.Status)
		}
	}
}

// TestLargeForms: a stranger cannot make the server read much.
func TestLargeForms(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	_, bearer := b.token("ana", grant("", access.VerbAdmin))
	b.see("signin")
	if got := b.post("signin", url.Values{"token": {bearer}, "next": {strings.Repeat("x", maxSignIn)}}); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
		t.Errorf("a large sign-in: %s", got.Status)
	}
	b.see("signin")
	b.signIn(bearer)
	if got := b.post("do/cancel", url.Values{"job": {"1"}, "why": {strings.Repeat("x", maxForm)}}); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a large form: %s", got.Status)
	}
}

// TestRebinding: without sign-in, a host name that somebody may have pointed here is refused.
func TestRebinding(t *testing.T) {
	b := mount(t, Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example"
	if got := b.do(r); got.StatusCode != http.StatusForbidden {
		t.Errorf("another name: %s", got.Status)
	}
	if got := mount(t, Options{AnyHost: true}).do(r); got.StatusCode != http.StatusForbidden { // r goes to the first site
		t.Errorf("another name: %s", got.Status)
	}
}

// TestLinkFromElsewhere: a browser that follows a link sends no SameSite=Strict cookie. The page
// loads itself again, and then the cookie comes.
func TestLinkFromElsewhere(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	got := b.get("jobs/17?x=1", "Sec-Fetch-Site: cross-site")
	if got.StatusCode != http.StatusOK || !strings.Contains(got.body, `http-equiv="refresh"`) {
		t.Errorf("%s\n%s", got.Status, got.body)
	}
	if got := b.get("jobs/17", "Sec-Fetch-Site: same-origin"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("the second load: %s", got.Status)
	}
}

// TestRoles: what each sort of token sees, and which actions it may do. The rest is refused by the
// API, whatever the page shows (spec:H11).
func TestRoles(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	job := func(queue string) sojourn.ID {
		return b.enqueue(sojourn.NewJob("charge", []byte(`{"secret":"of-the-customer"}`), sojourn.Queue(queue), sojourn.Key(queue+"-key")))
	}
	mine, other := job("pay"), job("other")
	people, bearers := map[string]*browser{}, map[string]string{}
	for name, g := range map[string]access.Grant{
		"viewer": grant("", access.VerbRead), "reader": grant("", access.VerbRead, access.VerbReadArgs), "operator": grant("", access.VerbRead, access.VerbReadArgs, access.VerbOperate),
		"answerer": grant("", access.VerbRead, access.VerbRespond), "admin": grant("", access.VerbAdmin), "tenant": grant("pay", access.VerbAdmin),
	} {
		_, bearers[name] = b.token(name, g)
	}
	for name, bearer := range bearers { // a server reads the list of tokens once a second
		people[name] = b.another()
		people[name].signIn(bearer)
	}
	for name, sees := range map[string]bool{"viewer": false, "reader": true, "operator": true, "answerer": false, "admin": true, "tenant": true} {
		page := people[name].see(fmt.Sprintf("jobs/%d", mine), "pay-key")
		if strings.Contains(page, "of-the-customer") != sees {
			t.Errorf("%s sees args: %v, want %v", name, !sees, sees)
		}
		if got := people[name].get(fmt.Sprintf("jobs/%d/args", mine)); (got.StatusCode == http.StatusOK) != sees || strings.Contains(got.body, "of-the-customer") != sees {
			t.Errorf("%s downloads args: %s", name, got.Status)
		}
	}
	actions := map[string]struct {
		path string
		form url.Values
		may  string
	}{
		"edit":   {"do/edit", url.Values{"job": {mine.String()}, "priority": {"5"}}, "operator admin tenant"},
		"answer": {"do/answer", url.Values{"job": {mine.String()}, "type": {"text/plain"}, "body": {"x"}}, "answerer admin tenant"},
		"pause":  {"do/pause", url.Values{"queue": {"pay"}, "paused": {"true"}}, "admin tenant"},
		"hold":   {"do/hold", url.Values{"queue": {"pay"}, "for": {"1s"}}, "operator admin tenant"},
		"limit":  {"do/setting", url.Values{"queue": {"pay"}, "setting": {"limit"}, "value": {"9"}}, "admin tenant"},
		"bulk":   {"do/bulk", url.Values{"action": {"redrive"}, "queue": {"pay"}, "total": {"1"}}, "operator admin tenant"},
		"all":    {"do/bulk", url.Values{"action": {"redrive"}, "total": {"1"}}, "operator admin"},
		"theirs": {"do/edit", url.Values{"job": {other.String()}, "priority": {"5"}}, "operator admin"},
		"drain":  {"do/drain", url.Values{"worker": {"none"}}, "operator admin"},
		"forget": {"do/forget", url.Values{"worker": {"none"}}, "operator admin"},
	}
	for what, a := range actions {
		for name, p := range people {
			got := p.post(a.path, a.form)
			allowed := got.StatusCode == http.StatusSeeOther || (what == "drain" || what == "forget") && got.StatusCode == http.StatusNotFound
			if want := strings.Contains(" "+a.may+" ", " "+name+" "); allowed != want {
				t.Errorf("%s may %s: %v (%s), want %v", name, what, allowed, got.Status, want)
			}
		}
	}
	tenantSees(t, people["tenant"], mine, other)
	people["admin"].see("audit", "editJobs", "pauseQueue", "insufficient_scope", "operator", "tenant")
}

// tenantSees: a token for one queue sees nothing of the other.
func tenantSees(t *testing.T, tenant *browser, mine, other sojourn.ID) {
	t.Helper()
	for _, path := range append(paths, fmt.Sprintf("jobs/%d", other), "queue?name=other", "jobs?queue=other", "jobs?key=other-key", "find?q=other-key", fmt.Sprintf("jobs?id=%d", other),
		fmt.Sprintf("jobs?shown=%d", other), fmt.Sprintf("bulk?action=cancel&id=%d", other)) {
		for _, headers := range [][]string{nil, {"HX-Request: true"}} {
			if got := tenant.get(path, headers...); strings.Contains(strings.NewReplacer("key=other-key", "", `value="other-key"`, "").Replace(got.body), "other-key") || strings.Contains(got.body, `name=other"`) {
				t.Errorf("%s shows the other queue:\n%s", path, got.body)
			}
		}
	}
	tenant.see("jobs?queue=pay", mine.String(), "pay-key")
	tenant.see("queues", "pay")
	if got := tenant.get("jobs"); got.StatusCode != http.StatusForbidden || !strings.Contains(got.body, "Queues that you may look at") {
		t.Errorf("all jobs: %s", got.Status)
	}
	if got := tenant.get(fmt.Sprintf("jobs/%d", other)); got.StatusCode != http.StatusNotFound {
		t.Errorf("the other job: %s", got.Status)
	}
}
