package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// asks makes a job that waits with a question, and returns the link to its page.
func (s *server) asks(question object) string {
	s.Helper()
	s.job(object{"kind": "ask", "queue": "people"})
	claimed := s.call("POST", "/v1/claim", object{"worker": "web-1/4711", "queues": []string{"people"}, "kinds": []string{"ask"}, "max": 1, "capacity": 100})
	found := claimed["jobs"].([]any)
	if len(found) != 1 {
		s.Fatalf("claimed %v", claimed)
	}
	outcome := object{"lease": found[0].(object)["lease"], "type": "await", "wait": object{"within": "48h"}, "ask": question}
	s.call("POST", "/v1/finish", object{"outcomes": []any{outcome}})
	return s.url + "/ask/" + found[0].(object)["job"].(object)["token"].(string)
}

var invoice = object{"title": "Do you approve this invoice?", "text": "Invoice 2026-114 of Acme Exhibitions Ltd: 1,200.00 € for the stand at the spring fair.\n\nIt is due on 30 November.",
	"comment": "A note for accounting", "brand": object{"name": "Northwind Trading", "color": "#ffd400"},
	"choices": []any{object{"value": "yes", "label": "Approve", "style": "primary"}, object{"value": "no", "label": "Reject", "style": "danger"}, object{"value": "later", "label": "Ask me again next week"}}}

// TestBrowserQuestion: a person approves by a link, on a phone, with a double click. The page has
// no script, and its policy allows none. Another button in a tab that is still open changes nothing
// (spec:H13).
func TestBrowserQuestion(t *testing.T) {
	s, chromium := start(t)
	link := s.asks(invoice)
	b := s.browse(chromium)
	b.run("emulate", log.Enable(), runtime.Enable(), emulation.SetDeviceMetricsOverride(360, 740, 2, true))
	b.run("open", chromedp.Navigate(link), chromedp.WaitVisible(`textarea[name="comment"]`, chromedp.ByQuery))
	b.picture("question-phone-light")
	var field string // of the form in another tab
	b.run("the form", chromedp.AttributeValue(`input[name="form"]`, "value", &field, nil, chromedp.ByQuery))
	b.run("answer", chromedp.SendKeys("textarea", "Booked under 4711.", chromedp.ByQuery), chromedp.DoubleClick("button.primary", chromedp.ByQuery), chromedp.WaitVisible(".outcome", chromedp.ByQuery))
	var outcome, address string
	b.run("outcome", chromedp.Text(".outcome p", &outcome, chromedp.ByQuery), chromedp.Location(&address))
	if outcome != "The answer is: Approve" || address != link {
		t.Errorf("the page says %q at %s", outcome, address)
	}
	b.picture("question-answered-phone-light")
	b.run("reload", chromedp.Reload(), chromedp.WaitVisible(".outcome", chromedp.ByQuery))
	old, err := http.PostForm(link, url.Values{"form": {field}, "choice": {"no"}})
	if err != nil {
		t.Fatal(err)
	}
	old.Body.Close()
	if old.StatusCode != http.StatusConflict {
		t.Errorf("another button in the other tab is answered %s", old.Status)
	}
	if in := s.call("GET", "/v1/inbox", nil)["responses"].([]any); len(in) != 1 || in[0].(object)["outcome"] != "applied" {
		t.Errorf("the inbox has %v", in)
	}
	b.clean("question")
}

// TestBrowserQuestionAccessible: axe-core finds nothing serious or critical on the page in any
// state and theme, and nothing is wider than a phone.
func TestBrowserQuestionAccessible(t *testing.T) {
	s, chromium := start(t)
	script := axe(t)
	open := s.asks(invoice)
	long := object{"title": fmt.Sprintf("%0150d", 1), "choices": []any{object{"value": fmt.Sprintf("%0100d", 2), "style": "primary"}}, "brand": object{"name": fmt.Sprintf("%0100d", 3), "color": "#10131a"}}
	answered := s.asks(long)
	b := s.browse(chromium)
	b.run("log", log.Enable(), runtime.Enable())
	for _, p := range []struct{ name, link string }{{"open", open}, {"long", answered}, {"answered", answered}, {"unknown", s.url + "/ask/1.1.1.0.AAAA"}} {
		if p.name == "answered" {
			b.run("answer", chromedp.Click("button.primary", chromedp.ByQuery), chromedp.WaitVisible(".outcome", chromedp.ByQuery))
		}
		for i, theme := range themes() {
			b.show(theme)
			b.run(p.name, chromedp.Navigate(p.link), chromedp.WaitReady("main", chromedp.ByQuery), chromedp.Evaluate(script+"; 0", nil))
			var rules []string
			if i > 0 && theme.width > 600 { // the theme changes only colours
				rules = []string{"color-contrast"}
			}
			for _, v := range b.violations(p.name, rules...) {
				if v.Impact == "serious" || v.Impact == "critical" {
					t.Errorf("%s, %s: %s (%s)\n%v", p.name, theme.name, v.Help, v.ID, v.Nodes)
				}
			}
			var wide int64
			b.run(p.name, chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
			if wide > theme.width {
				t.Errorf("%s, %s: %d pixels wide", p.name, theme.name, wide)
			}
			b.picture("question-" + p.name + "-" + theme.name)
		}
	}
}

// picture writes what is on the screen into the folder SOJOURN_PICTURES, if that is set.
func (b *browser) picture(name string) {
	b.Helper()
	folder := os.Getenv("SOJOURN_PICTURES")
	if folder == "" {
		return
	}
	var png []byte
	b.run(name, chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}
