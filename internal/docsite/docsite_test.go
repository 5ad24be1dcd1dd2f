package docsite_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sojourn-queue/sojourn/docs"
	"github.com/sojourn-queue/sojourn/internal/docsite"
)

const source = "https://example.com/files"

// written is the site of the real documentation in a folder, by path.
func written(t *testing.T) map[string]string {
	t.Helper()
	site, err := docsite.New(docs.Files, source)
	if err != nil {
		t.Fatal(err)
	}
	dir, files := t.TempDir(), map[string]string{}
	if err := site.Write(dir); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		relative, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// Every link and picture of every page is in the site, or an address on the web. None begins with a
// slash, so the site works from any folder and from the disk.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	files := written(t)
	pages, inside := 0, 0
	for name, text := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		pages++
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			inside++
			found, is := files[target]
			if !is || strings.HasPrefix(to, "/") || fragment != "" && !strings.Contains(found, `id="`+fragment+`"`) {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
		}
	}
	if pages < 80 || inside < 5000 {
		t.Errorf("only %d pages and %d links were checked", pages, inside)
	}
}

// Each page has its Markdown beside it, and llms.txt lists it.
func TestPagesForPrograms(t *testing.T) {
	files := written(t)
	for name := range files {
		if twin := strings.TrimSuffix(name, ".html") + ".md"; path.Ext(name) == ".html" && (files[twin] == "" || !strings.Contains(files["llms.txt"], "("+twin+"): ")) {
			t.Errorf("%s has no Markdown, or is not listed", name)
		}
	}
}

// The words under which people look for things that they know from other systems.
var fieldWords = []string{"dead letter", "visibility timeout", "cron", "payload", "heartbeat", "backoff", "idempotency", "at least once", "exactly once", "outbox",
	"webhook", "callback", "correlation id", "rate limit", "concurrency", "throttle", "priority", "delay", "scheduled", "recurring",
	"unique", "deduplication", "lease", "lock", "ack", "nack", "poison", "redrive", "retry", "timeout",
	"batch", "workflow", "dependency", "fan-out", "saga", "checkpoint", "progress", "circuit breaker", "dashboard", "backup"}

func TestFieldWordsAreThere(t *testing.T) {
	index := strings.ToLower(written(t)["search-index.js"])
	sections := strings.Split(index, `{"id":`)
	for _, words := range fieldWords {
		if !slices.ContainsFunc(sections, func(s string) bool {
			return !slices.ContainsFunc(strings.Fields(words), func(w string) bool { return !strings.Contains(s, w) })
		}) {
			t.Errorf("no section has %q: say in the glossary what it is here", words)
		}
	}
	if len(fieldWords) != 40 {
		t.Errorf("%d words", len(fieldWords))
	}
}

// A link to a page or a heading that does not exist is an error that names both.
func TestBrokenLinks(t *testing.T) {
	good := "# A\n\nSee [b](guides/b.md#its-part), [above](#a), [code](../main.go), [own](guides/b.md#mark), [web](https://example.com).\n"
	b := "# B\n\n<a id=\"mark\"></a>\n\n## Its `part`\n\n[back](../README.md)\n"
	for text, want := range map[string]string{
		good:                     "",
		"# A\n\n[b](b.md)\n":     "README.md: the link b.md leads nowhere",
		"# A\n\n[b](#b)\n":       "README.md: the link #b leads nowhere",
		"[b](guides/b.md#other)": "README.md: the link guides/b.md#other leads nowhere",
	} {
		_, err := docsite.New(fstest.MapFS{"README.md": {Data: []byte(text)}, "guides/b.md": {Data: []byte(b)}}, source)
		if got := errorText(err); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLinksOutOfTheSite(t *testing.T) {
	site, err := docsite.New(fstest.MapFS{"guides/a.md": {Data: []byte("# A\n\n[x](../../examples/hello/main.go#L3) [all](../../README.md)\n")}}, source)
	if err != nil {
		t.Fatal(err)
	}
	got := get(site.Handler(), http.MethodGet, "/guides/a.html").Body.String()
	for _, want := range []string{`href="https://example.com/files/examples/hello/main.go#L3"`, `href="https://example.com/files/README.md"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func get(h http.Handler, method, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, url, nil))
	return w
}

func TestHandler(t *testing.T) {
	site, err := docsite.New(docs.Files, source)
	if err != nil {
		t.Fatal(err)
	}
	h := site.Handler()
	for url, want := range map[string]string{"/": "text/html; charset=utf-8", "/decisions/": "text/html; charset=utf-8", "/guides/go.md": "text/plain; charset=utf-8",
		"/site.js": "text/javascript; charset=utf-8", "/site.css": "text/css; charset=utf-8", "/ui/job-light.png": "image/png", "/icon.svg": "image/svg+xml", "/llms.txt": "text/plain; charset=utf-8"} {
		if w := get(h, http.MethodGet, url); w.Code != 200 || w.Header().Get("Content-Type") != want || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", url, w.Code, w.Header())
		}
	}
	for url, want := range map[string]int{"/no.html": 404, "/../docs.go": 404, "/docs.go": 404, "/page.html": 404} {
		if w := get(h, http.MethodGet, url); w.Code != want {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
	}
	if w := get(h, http.MethodPost, "/"); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

// The same files make the same site.
func TestSameFilesSameSite(t *testing.T) {
	if !maps.Equal(written(t), written(t)) {
		t.Error("two sites of the same files differ")
	}
}
