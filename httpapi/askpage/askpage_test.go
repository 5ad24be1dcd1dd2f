package askpage

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/ask"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

var payment = ask.Question{Title: "May we pay?", Text: "1.200 € to Acme\nfor the stand\n\nIt is due.", Comment: "Why", Brand: ask.Brand{Name: "Acme", Color: "#663399"},
	Choices: []ask.Choice{{Value: "yes", Label: "Pay it", Style: ask.Primary}, {Value: "no", Label: "Do not", Style: ask.Danger}, {Value: "later"}}}

// site is the page over a store in memory, mounted below a path.
type site struct {
	*testing.T
	client *sojourn.Client
	url    string
	http   *http.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/in/ask/", http.StripPrefix("/in", New(c, Options{Brand: ask.Brand{Name: "House"}})))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.Close(); _ = c.Close() })
	return &site{T: t, client: c, url: server.URL + "/in/ask/", http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// claim makes a job and starts it.
func (s *site) claim() driver.Claimed {
	s.Helper()
	if _, err := s.client.Enqueue(s.Context(), sojourn.NewJob("pay", nil)); err != nil {
		s.Fatal(err)
	}
	return s.start()
}

// start claims the next job.
func (s *site) start() driver.Claimed {
	s.Helper()
	found, err := driver.Of(s.client).Claim(s.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{sojourn.DefaultQueue}, Kinds: []string{"pay"}, Max: 1, Capacity: 100, Lease: time.Minute})
	if err != nil || len(found) != 1 {
		s.Fatalf("claimed %d jobs, %v", len(found), err)
	}
	return found[0]
}

func (s *site) finish(c driver.Claimed, err error) {
	s.Helper()
	o := sojourn.OutcomeOf(err)
	o.Lease = c.Lease
	fs, failed := driver.Of(s.client).Finish(s.Context(), []sojourn.Outcome{o})
	if failed != nil || fs[0].Status != driver.FinishApplied {
		s.Fatalf("finish: %+v, %v", fs, failed)
	}
}

// asked is the capability of a new job that waits with a question.
func (s *site) asked(q ask.Question) (token string, job sojourn.ID) {
	s.Helper()
	c := s.claim()
	s.finish(c, ask.With(q, sojourn.Await(time.Hour)))
	return c.Job.Token, c.Job.ID
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (s *site) send(method, token string, form url.Values, headers ...string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+token, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := s.http.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(b)}
}

func (s *site) get(token string) answer { s.Helper(); return s.send(http.MethodGet, token, nil) }

var hiddenField = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

// choose sends the form of the page as a browser does.
func (s *site) choose(token, choice, comment string) answer {
	s.Helper()
	return s.send(http.MethodPost, token, url.Values{"form": {formToken(token)}, "choice": {choice}, "comment": {comment}}, "Origin", s.url[:strings.Index(s.url, "/in")], "Sec-Fetch-Site", "same-origin")
}

// shows wants a status and texts; those after "!" must be absent.
func (a answer) shows(t *testing.T, what string, status int, texts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: answered %d, want %d\n%s", what, a.status, status, a.body)
	}
	for _, text := range texts {
		if text, absent := strings.CutPrefix(text, "!"); strings.Contains(a.body, text) == absent {
			t.Errorf("%s: %q is there: %t\n%s", what, text, absent, a.body)
		}
	}
}

// responses are those in the inbox.
func (s *site) responses() []sojourn.Response {
	s.Helper()
	rs, err := s.client.Store().Inbox(s.Context(), sojourn.InboxFilter{})
	if err != nil {
		s.Fatal(err)
	}
	return rs
}

// TestAnswer: programs that follow the link answer nothing, a person answers once, and the page
// shows the chosen answer and its time (spec:H13).
func TestAnswer(t *testing.T) {
	s := newSite(t)
	token, id := s.asked(payment)
	for range 2 {
		a := s.get(token)
		a.shows(t, "the question", 200, "<h1>May we pay?</h1>", "1.200 € to Acme\nfor the stand</p>", "<p class=\"text\">It is due.</p>", ">Acme</p>", "Pay it", "Do not", "later",
			`name="choice" value="yes" class="primary"`, "You can answer until", "--brand: #663399; --on-brand: #ffffff", "<label for=\"comment\">Why</label>", "!<script")
		if f := hiddenField.FindStringSubmatch(a.body); f == nil || f[1] != formToken(token) {
			t.Errorf("the form has no token: %s", a.body)
		}
		if h := s.send(http.MethodHead, token, nil); h.status != 200 || h.body != "" {
			t.Errorf("HEAD answered %d %q", h.status, h.body)
		}
	}
	form := url.Values{"form": {formToken(token)}, "choice": {"yes"}}
	s.send(http.MethodPut, token, form).shows(t, "PUT", 405)
	s.send(http.MethodPost, token, url.Values{"choice": {"yes"}}).shows(t, "without the token of the form", 403, "was not stored")
	s.send(http.MethodPost, token, url.Values{"choice": {"yes"}, "form": {formToken(token + "x")}}).shows(t, "with the token of another form", 403)
	s.send(http.MethodPost, token, form, "Origin", "https://evil.example").shows(t, "from another site", 403)
	s.send(http.MethodPost, token, form, "Sec-Fetch-Site", "cross-site").shows(t, "from another site", 403)
	s.send(http.MethodPost, token, form, "Content-Type", "application/json").shows(t, "no form", 403)
	s.choose(token, "maybe", "my words").shows(t, "no choice", 400, "Choose one of the answers.", "my words</textarea>")
	s.choose(token, "yes", strings.Repeat("é", ask.MaxComment+1)).shows(t, "a long text", 400, "too long")
	s.choose(token, "yes", strings.Repeat("é", maxForm)).shows(t, "a very long form", 403)
	if rs := s.responses(); len(rs) != 0 {
		t.Fatalf("something was answered: %+v", rs)
	}
	for range 2 {
		a := s.choose(token, "yes", "It is\r\nfine")
		a.shows(t, "the answer", 303)
		if to := a.header.Get("Location"); to != token {
			t.Errorf("it leads to %q", to)
		}
	}
	for _, a := range []answer{s.get(token), s.choose(token, "no", "")} {
		a.shows(t, "afterwards", a.status, "The answer is: <strong>Pay it</strong>", "<blockquote>It is\nfine</blockquote>", "Answered on <time", "!<form", "!<button")
	}
	s.choose(token, "no", "").shows(t, "another answer", 409, "Nothing was changed")
	if rs := s.responses(); len(rs) != 1 || rs[0].Outcome != sojourn.Applied || string(rs[0].Body) != `{"value":"yes","comment":"It is\nfine"}` || rs[0].Source != ask.Source {
		t.Errorf("the responses are %+v", rs)
	}
	if j, err := s.client.Get(t.Context(), id); err != nil || j.State != sojourn.Ready {
		t.Errorf("the job is %v, %v", j, err)
	}
}

// TestAnswersAtOnce: of many clicks at the same time one answers, and all see it.
func TestAnswersAtOnce(t *testing.T) {
	s := newSite(t)
	token, _ := s.asked(payment)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() { s.choose(token, []string{"yes", "no"}[i%2], "") })
	}
	wait.Wait()
	rs := s.responses()
	if len(rs) != 1 || rs[0].Outcome != sojourn.Applied {
		t.Fatalf("the responses are %+v", rs)
	}
	label := "Do not"
	if strings.Contains(string(rs[0].Body), "yes") {
		label = "Pay it"
	}
	s.get(token).shows(t, "afterwards", 200, "<strong>"+label+"</strong>")
}

// TestEnds: each end has a sentence and a status, shows no details, and takes no answer.
func TestEnds(t *testing.T) {
	s := newSite(t)
	open, id := s.asked(payment)
	expired, err := access.Expiring(open, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, job := s.asked(payment)
	if err := s.client.Cancel(t.Context(), job, ""); err != nil {
		t.Fatal(err)
	}
	elsewhere, job := s.asked(payment)
	if _, err := s.client.Respond(t.Context(), &sojourn.Response{Job: job, Body: []byte(`{"value":"yes","comment":"secret"}`)}); err != nil {
		t.Fatal(err)
	}
	next := s.start()
	s.finish(next, ask.With(payment, sojourn.Await(time.Hour)))
	other, _ := s.asked(payment)
	if _, err := s.client.Respond(t.Context(), &sojourn.Response{Token: other, Body: []byte(`"secret"`)}); err != nil {
		t.Fatal(err)
	}
	replaced, job := s.asked(payment)
	if err := s.client.Cancel(t.Context(), job, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Store().Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{job}}, sojourn.Edit{Action: sojourn.EditRedrive}); err != nil {
		t.Fatal(err)
	}
	running := s.claim()
	for what, c := range map[string]struct {
		token, text string
		status      int
	}{
		"expired":   {expired, "The time to answer this question is over.", 410},
		"cancelled": {cancelled, "This question was withdrawn.", 410},
		"elsewhere": {elsewhere, "This question was answered in another way.", 410},
		"replaced":  {replaced, "This link is out of date.", 410},
		"no answer": {other, "This question was answered with this link.", 200},
		"not asked": {running.Job.Token, "The question of this link is not ready.", 404},
	} {
		count := len(s.responses())
		details := "!It is due."
		if c.status == 200 {
			details = "It is due."
		}
		s.get(c.token).shows(t, what, c.status, c.text, details, "!secret", "!<form")
		status := c.status
		if status == 200 {
			status = 409
		}
		s.choose(c.token, "yes", "").shows(t, what, status, c.text, details, "!secret", "!<form")
		if n := len(s.responses()); n != count {
			t.Errorf("%s: %d responses were stored", what, n-count)
		}
	}
	s.get(next.Job.Token).shows(t, "the next question", 200, "<form")
	s.get(open).shows(t, "the open question", 200, "<form")
	if j, err := s.client.Get(t.Context(), id); err != nil || j.State != sojourn.Awaiting {
		t.Errorf("the job is %v, %v", j, err)
	}
}

var nonce = regexp.MustCompile(`nonce="[^"]*"`)

// TestUnknown: every link of which nothing is known has the same answer.
func TestUnknown(t *testing.T) {
	s := newSite(t)
	token, _ := s.asked(payment)
	want := ""
	for _, bad := range []string{"x", token + "A", token[:len(token)-1], "1" + token, access.NewCapability([]byte("other"), 1, 1, 1, 0), token + "/x", "%2e%2e", "a%2fb", "", "%ff",
		strings.Repeat("9", 3000), "<script>"} {
		a := s.get(bad)
		a.shows(t, bad, 404, "This link does not work", "House", "!May we pay", "!<script>")
		if a.body = nonce.ReplaceAllString(a.body, ""); want == "" {
			want = a.body
		} else if a.body != want {
			t.Errorf("%q has another answer:\n%s", bad, a.body)
		}
		if bad != "" && !strings.Contains(bad, "/") {
			if _, err := url.PathUnescape(bad); err == nil {
				s.send(http.MethodPost, bad, url.Values{"form": {formToken(bad)}, "choice": {"yes"}}).shows(t, bad, 404, "This link does not work")
			}
		}
	}
	if rs := s.responses(); len(rs) != 0 {
		t.Errorf("something was stored: %+v", rs)
	}
}

// TestHostileTexts: what a job says is shown as text, wherever it stands.
func TestHostileTexts(t *testing.T) {
	s := newSite(t)
	for _, text := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</style><script>alert(1)</script>`, `{{.Form}}`, `javascript:alert(1)`, `' onfocus='alert(1)`,
		`</textarea><b>`, `&lt;b&gt;<b>`, `<!--`, `\u003cscript\u003e`} {
		q := ask.Question{Title: text, Text: text, Comment: text, Choices: []ask.Choice{{Value: text, Label: text}}, Brand: ask.Brand{Name: text}}
		token, _ := s.asked(q)
		check := func(a answer) {
			t.Helper()
			for _, raw := range []string{"<script", "<img", "<b>", "onerror=alert(1)>", "' onfocus='", "<!--"} {
				if strings.Contains(a.body, raw) {
					t.Errorf("%q: the page has %q:\n%s", text, raw, a.body)
				}
			}
		}
		check(s.get(token))
		check(s.choose(token, "none", text))
		s.choose(token, text, text).shows(t, text, 303)
		a := s.get(token)
		check(a)
		a.shows(t, text, 200, "The answer is: <strong>")
	}
}

// TestHeaders: no page is stored, framed or indexed, nor loads anything.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	token, _ := s.asked(payment)
	seen := map[string]bool{}
	for _, a := range []answer{s.get(token), s.get("x"), s.choose(token, "yes", ""), s.choose(token, "no", ""), s.send(http.MethodPost, token, nil)} {
		csp := a.header.Get("Content-Security-Policy")
		m := regexp.MustCompile(`^default-src 'none'; style-src 'nonce-([A-Z0-9]{26})'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$`).FindStringSubmatch(csp)
		if m == nil || seen[m[1]] || !strings.Contains(a.body, fmt.Sprintf("<style nonce=%q>", m[1])) {
			t.Errorf("Content-Security-Policy: %s", csp)
			continue
		}
		seen[m[1]] = true
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "same-origin",
			"X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if strings.Contains(a.body, "http://") || strings.Contains(a.body, "https://") || strings.Contains(a.body, "src=") {
			t.Errorf("the page names another host: %s", a.body)
		}
	}
}

// TestColors: the text on a button in any colour has the contrast of WCAG AA.
func TestColors(t *testing.T) {
	for _, color := range []string{"", "#000000", "#ffffff", "#ffff00", "#777777", "#767676", "#FF0000", "#00ff00", "#0b6e6e", "#663399", "red", "#fff;}"} {
		css := string(style(color))
		m := regexp.MustCompile(`--brand: #([0-9a-f]{6}); --on-brand: #([0-9a-f]{6});`).FindStringSubmatch(css)
		if m == nil {
			t.Fatalf("%q: %s", color, css[:100])
		}
		var back, text uint64
		if _, err := fmt.Sscanf(m[1]+" "+m[2], "%x %x", &back, &text); err != nil {
			t.Fatal(err)
		}
		if a, b := luminance(back), luminance(text); (max(a, b)+0.05)/(min(a, b)+0.05) < 4.5 {
			t.Errorf("%q: %s has too little contrast on %s", color, m[2], m[1])
		}
		if strings.Contains(css, "red;") || strings.Contains(css, "%!") {
			t.Errorf("%q: %s", color, css)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a bad colour of the options is taken")
		}
	}()
	New(nil, Options{Brand: ask.Brand{Color: "red"}})
}
