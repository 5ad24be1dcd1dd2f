package browser

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestBrowserDocs: the documentation that "sojourn docs --write" has written is opened from the
// disk. Its search finds what people look for, and leads there.
func TestBrowserDocs(t *testing.T) {
	s, chromium := start(t)
	dir := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command(s.sojourn, "docs", "--write", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := s.browse(chromium)
	first := (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, "guides", "go.html"))}).String()
	empty := chromedp.Evaluate(`document.getElementById("search").value = ""`, nil)
	b.run("the page", chromedp.Navigate(first), chromedp.WaitReady("main h1"))
	for words, page := range map[string]string{"dead letter": "glossary", "visibility timeout": "glossary", "cron": "schedules", "payload": "glossary", "heartbeat": "", "backof": "retries",
		"webhok": "webhooks", "idempotency": "", "circuit breaker": "flow-control", "outbox": "transactions", "saga": "", "rate limit": "flow-control", "timeout": "", "checkpoint": "", "unknown_outcome": "errors"} {
		var links []string
		b.run(words, empty, chromedp.SendKeys("#search", words),
			chromedp.Evaluate(`[...document.querySelectorAll("#found a")].map((a) => a.href)`, &links))
		if len(links) == 0 || !strings.Contains(strings.Join(links, " "), page) {
			t.Errorf("%q finds %v, want a section of %q", words, links, page)
		}
	}
	b.run("nothing", empty, chromedp.SendKeys("#search", "xyzzyx"), chromedp.WaitVisible("#found p"))
	var title string
	b.run("enter", empty, chromedp.SendKeys("#search", "dead letter"), chromedp.SendKeys("#search", "\r"), chromedp.WaitReady("main h1"))
	b.sees("dead letter")
	b.run("title", chromedp.Title(&title))
	if !strings.HasSuffix(title, " · Sojourn") {
		t.Errorf("Enter led to %q", title)
	}
	b.clean("docs")
}
