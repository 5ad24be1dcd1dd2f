package ui

import (
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// browser is a person with a browser that has no JavaScript, at a page that is mounted under /ui/.
type browser struct {
	*testing.T
	site   *site
	client *sojourn.Client // past the page
	store  driver.Store
	url    string // ends in /ui/
	http   *http.Client
	csrf   string // of the last page
}

// mount serves the page of a new store over the HTTP API, as "sojourn serve" does.
func mount(t *testing.T, o Options) *browser {
	t.Helper()
	return mountOn(t, o, server.Options{})
}

// mountOn serves the page over a server with options.
func mountOn(t *testing.T, o Options, so server.Options) *browser {
	t.Helper()
	so.Open = !o.SignIn
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(t.Context(), driver.Of(c), so)
	if err != nil {
		t.Fatal(err)
	}
	o.API = api
	page := New(c, o)
	mux := http.NewServeMux()
	mux.Handle("/ui/", http.StripPrefix("/ui", page))
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		api.Drain()
		s.Close()
		_ = c.Close()
	})
	b := &browser{T: t, site: page.(*site), client: c, store: driver.Of(c), url: s.URL + "/ui/"}
	b.http = b.another().http
	return b
}

// another is a person with another browser.
func (b *browser) another() *browser {
	jar, _ := cookiejar.New(nil)
	o := *b
	o.http = &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &o
}

// shown is a response with its body.
type shown struct {
	*http.Response
	body string
}

var csrfField = regexp.MustCompile(`name="csrf" value="([0-9a-f]+)"`)

func (b *browser) do(r *http.Request) shown {
	b.Helper()
	got, err := b.http.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		b.Fatal(err)
	}
	if found := csrfField.FindStringSubmatch(string(body)); found != nil {
		b.csrf = found[1]
	}
	return shown{got, string(body)}
}

func (b *browser) get(path string, headers ...string) shown {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return b.do(r)
}

// see is a page that must be there.
func (b *browser) see(path string, texts ...string) string {
	b.Helper()
	got := b.get(path)
	if got.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s\n%s", path, got.Status, got.body[strings.Index(got.body, "<main"):])
	}
	for _, text := range texts {
		if !strings.Contains(got.body, text) {
			b.Errorf("%s lacks %q:\n%s", path, text, got.body)
		}
	}
	return got.body
}

// post sends a form as the browser does: with the token of the last page, and the header that says
// where the form was.
func (b *browser) post(path string, form url.Values, headers ...string) shown {
	b.Helper()
	form = maps.Clone(form)
	if _, given := form["csrf"]; !given {
		form.Set("csrf", b.csrf)
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return b.do(r)
}

// done posts a form that must lead to a page.
func (b *browser) done(path string, form url.Values) string {
	b.Helper()
	got := b.post(path, form)
	if got.StatusCode != http.StatusSeeOther {
		b.Fatalf("%s: %s\n%s", path, got.Status, got.body)
	}
	return got.Header.Get("Location")
}

// token stores an access token.
func (b *browser) token(name string, grants ...access.Grant) (id, bearer string) {
	b.Helper()
	t, bearer := server.NewToken(name, time.Hour, grants)
	if err := b.client.Store().(access.Keeper).SetAccessToken(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	return t.ID, bearer
}

// signIn signs in with a token.
func (b *browser) signIn(bearer string) {
	b.Helper()
	b.see("signin")
	b.done("signin", url.Values{"token": {bearer}})
	b.get("")
}

func (b *browser) enqueue(j *sojourn.Job) sojourn.ID {
	b.Helper()
	e, err := b.client.Enqueue(b.Context(), j)
	if err != nil {
		b.Fatal(err)
	}
	return e.ID
}

// claim gives one job of a queue to a worker.
func (b *browser) claim(worker, queue, kind string) driver.Claimed {
	b.Helper()
	got, err := b.store.Claim(b.Context(), driver.ClaimRequest{Worker: worker, Name: worker, Queues: []string{queue}, Kinds: []string{kind}, Max: 1, Capacity: 1000})
	if err != nil || len(got) != 1 {
		b.Fatalf("claim: %d jobs, %v", len(got), err)
	}
	return got[0]
}

// finish ends the step of a claimed job.
func (b *browser) finish(c driver.Claimed, o sojourn.Outcome) {
	b.Helper()
	o.Lease = c.Lease
	if _, err := b.store.Finish(b.Context(), []sojourn.Outcome{o}); err != nil {
		b.Fatal(err)
	}
}
