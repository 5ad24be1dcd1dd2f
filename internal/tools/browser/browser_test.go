// Package browser tests the web page of a real server in a real browser.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	root     = "../../.."
	patience = 6 * time.Minute // for everything that a browser does in one test
)

// command builds the command once, for all tests.
var command = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "sojourn-browser-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "sojourn")
	build := exec.Command("go", "build", "-o", path, "./cmd/sojourn")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return path, fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built.Load() {
		path, _ := command()
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// built says that command was called, so that there is a folder to remove.
var built atomic.Bool

// server is a server on loopback with jobs in it.
type server struct {
	*testing.T
	sojourn, store, url string
	group               string // of failures
}

// start builds the command and starts a server. Without a browser the test is skipped; where CI is
// true, it fails.
func start(t *testing.T) (*server, string) {
	t.Helper()
	var chromium string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no Chromium: apt-get install chromium")
		}
		t.Skip("there is no Chromium: apt-get install chromium")
	}
	built.Store(true)
	sojourn, err := command()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{T: t, sojourn: sojourn, store: "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")}
	s.url = s.serve()
	return s, chromium
}

// serve starts a server of the store and returns its URL.
func (s *server) serve(flags ...string) string {
	s.Helper()
	cmd := exec.Command(s.sojourn, append([]string{"serve", "--addr", "127.0.0.1:0", "--store", s.store}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	url := regexp.MustCompile(`http://\S+`).FindString(line)
	if url == "" {
		s.Fatalf("the server said %q", line)
	}
	return url
}

// call sends JSON to the HTTP API and reads the answer.
func (s *server) call(method, path string, in any) map[string]any {
	s.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		s.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode >= 300 {
		s.Fatalf("%s %s: %s %v\n%s", method, path, got.Status, err, b)
	}
	out := map[string]any{}
	_ = json.Unmarshal(b, &out)
	return out
}

type object = map[string]any

// job stores a job and returns its id.
func (s *server) job(j object) int64 {
	s.Helper()
	return int64(s.call("POST", "/v1/jobs", j)["id"].(float64))
}

// step claims a job of a queue and a kind, and ends its step with the outcome; without one it stays
// running.
func (s *server) step(queue, kind string, outcome object) {
	s.Helper()
	claimed := s.call("POST", "/v1/claim", object{"worker": "web-1/4711", "name": "web-1", "queues": []string{queue}, "kinds": []string{kind}, "max": 1, "capacity": 100})
	jobs := claimed["jobs"].([]any)
	if len(jobs) != 1 {
		s.Fatalf("claimed %v", claimed)
	}
	if outcome != nil {
		outcome["lease"] = jobs[0].(object)["lease"]
		s.call("POST", "/v1/finish", object{"outcomes": []any{outcome}})
	}
}

// fill makes a store with something on every page. It returns the job of order-42, which waits.
func (s *server) fill() int64 {
	s.Helper()
	var waits int64
	for i := range 8 {
		id := s.job(object{"kind": "charge", "queue": "payments", "key": fmt.Sprintf("order-%d", 40+i), "args": object{"amount": 1200 + 17*i, "currency": "EUR", "customer": fmt.Sprintf("c-%d", 9000+i)}, "tags": []string{"shop"}})
		if i == 2 {
			waits = id
		}
		s.step("payments", "charge", object{"type": "await", "wait": object{"within": fmt.Sprintf("%dm", 20+i*13)}})
	}
	for i := range 3 {
		s.job(object{"kind": "charge", "queue": "payments", "key": fmt.Sprintf("order-%d", 60+i), "policy": object{"max_attempts": 1}})
		s.step("payments", "charge", object{"type": "error", "reason": "card_declined", "error": "the bank declined the card: insufficient funds"})
	}
	s.fails("mail", "send", 24)
	s.group = s.call("GET", "/v1/failures?queue=mail", nil)["failures"].([]any)[0].(object)["id"].(string)
	s.call("POST", "/v1/operations", object{"id": "redrive-mail", "filter": object{"failure": s.group}, "edit": object{"action": "redrive", "reason": "the mail server is back"}, "canary": 10, "rate": 50})
	for i := range 5 {
		s.job(object{"kind": "thumbnail", "queue": "images", "args": object{"file": fmt.Sprintf("photo-%d.jpg", i)}})
		s.step("images", "thumbnail", object{"type": "completed", "result": object{"bytes": 20480 + i}})
	}
	for i := range 6 {
		s.job(object{"kind": "export", "queue": "exports", "key": fmt.Sprintf("e-%d", i), "priority": 50})
	}
	s.call("PATCH", "/v1/queues/exports", object{"limit": 2})
	s.step("exports", "export", nil)
	s.step("exports", "export", nil)
	s.job(object{"kind": "report", "queue": "nightly", "delay": "5h"})
	s.call("POST", "/v1/responses", object{"kind": "charge", "key": "ORDER-43", "source": "bank", "message_id": "bank-1", "body": object{"paid": true}})
	s.call("PATCH", "/v1/queues/nightly", object{"windows": []any{object{"days": []string{"mon-fri"}, "start": "22:00", "end": "06:00", "zone": "Europe/Berlin"}}})
	s.call("PUT", "/v1/schedules/every-hour", object{"every": "1h", "job": object{"kind": "report", "queue": "nightly"}})
	s.call("PUT", "/v1/schedules/nightly-report", object{"cron": "30 2 * * *", "zone": "Europe/Berlin", "job": object{"kind": "report", "queue": "nightly"}})
	member := func(name string, after ...string) object {
		return object{"name": name, "job": object{"kind": name, "queue": "orders"}, "after": after}
	}
	s.call("PUT", "/v1/workflows/order-4711", object{"members": []any{member("reserve"), member("charge"), member("pack", "reserve", "charge"), member("ship", "pack"), member("invoice", "charge"), member("mail", "ship", "invoice")}})
	s.step("orders", "reserve", object{"type": "completed"})
	s.step("orders", "charge", object{"type": "await", "wait": object{"within": "1h"}})
	return waits
}

// browser is one browser. Everything that goes wrong in its pages is in faults.
type browser struct {
	*server
	ctx    context.Context
	mu     sync.Mutex // guards faults
	faults []string
}

func (s *server) browse(chromium string) *browser {
	s.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	s.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	s.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	s.Cleanup(cancel)
	b := &browser{server: s, ctx: ctx}
	b.listen(ctx)
	return b
}

// tab is another tab of the same browser.
func (b *browser) tab() *browser {
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	o := &browser{server: b.server, ctx: ctx}
	o.listen(ctx)
	return o
}

// listen collects console messages, exceptions and entries of the browser's log, among which are
// violations of the content security policy.
func (b *browser) listen(ctx context.Context) {
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				b.faults = append(b.faults, fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		case *runtime.EventExceptionThrown:
			b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.faults = append(b.faults, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	})
}

func (b *browser) run(what string, actions ...chromedp.Action) {
	b.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// open opens a page and waits until its live part has been updated once, if it has one.
func (b *browser) open(path string) {
	b.Helper()
	b.run(path, chromedp.Navigate(b.url+"/ui/"+path), chromedp.WaitReady("#main"))
}

// sees waits for a text on the page. A page that is being left answers with an error.
func (b *browser) sees(text string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var found bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate(fmt.Sprintf("document.body.innerText.includes(%q)", text), &found))
		if found {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the page does not show %q: %v", text, err)
		}
	}
}

func (b *browser) clean(where string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.Errorf("%s: %s", where, f)
	}
	b.faults = nil
}

// fails makes jobs that have failed with one cause.
func (s *server) fails(queue, kind string, n int) {
	s.Helper()
	for i := range n {
		s.job(object{"kind": kind, "queue": queue, "key": fmt.Sprintf("%s-%d", kind, 100+i), "policy": object{"max_attempts": 1}})
		s.step(queue, kind, object{"type": "error", "reason": queue + "_down", "error": fmt.Sprintf("%s %d: dial tcp 10.0.0.%d:25: connect: connection refused", kind, 100+i, 1+i%3)})
	}
}

// paths are the pages, by the name of their pictures.
func (s *server) paths(waits int64) map[string]string {
	return map[string]string{"overview": "", "jobs": "jobs", "job": fmt.Sprintf("jobs/%d", waits), "bulk": "bulk?action=cancel&scope=all&kind=export", "waiting": "waiting?outcome=early", "response": "response?seq=1",
		"queues": "queues", "queue": "queue?name=exports", "schedules": "schedules", "calendar": "calendar?days=7", "workflows": "workflows", "workflow": "workflow?name=order-4711", "workers": "workers", "statistics": "statistics?days=7", "audit": "audit", "missing": "jobs/999999",
		"failures": "failures", "failure": "failure?id=" + s.group, "operations": "operations", "operation": "operation?id=redrive-mail", "redrive": "bulk?action=redrive&scope=all&canary=10&failure=" + s.group}
}

// TestBrowserPages opens each page on a desk and on a phone, in light and dark: no error, nothing
// that the content security policy refuses, and nothing wider than the screen. With
// SOJOURN_PICTURES it writes a picture of each into that folder.
func TestBrowserPages(t *testing.T) {
	s, chromium := start(t)
	all := s.paths(s.fill())
	b, pictures := s.browse(chromium), os.Getenv("SOJOURN_PICTURES")
	b.run("log", log.Enable(), runtime.Enable())
	for _, width := range []int64{1280, 360} {
		for _, scheme := range []string{"light", "dark"} {
			b.run("emulate", emulation.SetDeviceMetricsOverride(width, 800, 1, width < 600),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			for name, path := range all {
				where := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				b.open(path)
				var wide int64
				b.run(where, chromedp.Sleep(50*time.Millisecond), chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
				if wide > width {
					t.Errorf("%s is %d pixels wide", where, wide)
				}
				if pictures != "" {
					var png []byte
					b.run(where, chromedp.ActionFunc(func(ctx context.Context) (err error) {
						png, err = page.CaptureScreenshot().Do(ctx)
						return err
					}))
					if err := os.WriteFile(filepath.Join(pictures, where+".png"), png, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if name == "missing" { // the browser notes a 404 as an error
					b.mu.Lock()
					b.faults = nil
					b.mu.Unlock()
				}
				b.clean(where)
			}
		}
	}
}

// TestBrowserAnswer: a customer asks about an order. The operator finds its job by the key, sees
// why it waits, and answers it by hand. The page shows the new state by itself.
func TestBrowserAnswer(t *testing.T) {
	s, chromium := start(t)
	s.fill()
	b := s.browse(chromium)
	b.open("")
	b.run("find", chromedp.SendKeys(".find input", "order-42\r"), chromedp.WaitVisible("#answer"))
	b.sees("It waits for a response with the key order-42.")
	b.run("answer", chromedp.SendKeys("#answer textarea", `{"paid": true}`), chromedp.Click("#answer button.primary"))
	b.sees("The answer is stored.")
	b.sees("responded")
	s.step("payments", "charge", object{"type": "completed"})
	b.sees("It completed")
	// Not chromedp.NavigateBack: it waits for a load event, and a page out of the browser's cache
	// has none.
	b.run("back", chromedp.Evaluate("setTimeout(() => history.go(-2), 0)", nil))
	b.sees("Overview")
	b.clean("answer")
}

// TestBrowserPause: a queue that is paused in one tab is shown as paused in another one, which
// nobody touches. A row that is selected stays selected while the rows are updated.
func TestBrowserPause(t *testing.T) {
	s, chromium := start(t)
	s.fill()
	a := s.browse(chromium)
	a.open("queue?name=payments")
	b := a.tab()
	b.open("queues")
	b.sees("Pause")
	a.run("pause", page.BringToFront(), chromedp.Click("#pause"), chromedp.WaitVisible("#pause.primary"))
	b.run("show", page.BringToFront())
	b.sees("paused")
	b.sees("Resume")
	b.open("jobs?queue=exports")
	b.run("select", chromedp.Click("tbody tr:nth-child(2) input[type=checkbox]"))
	id := s.job(object{"kind": "export", "queue": "exports"})
	b.sees("Show 1 new job")
	var checked bool
	b.run("selected", chromedp.Evaluate("document.querySelector('tbody tr:nth-child(2) input[type=checkbox]').checked", &checked))
	if !checked {
		t.Error("the selection is lost")
	}
	b.run("newer", chromedp.Click(".newer"), chromedp.WaitVisible(fmt.Sprintf("#j%d", id)))
	a.clean("pause")
	b.clean("queues")
}

// TestBrowserOpenStays: an opened form in the live part of a page stays open while it is updated.
func TestBrowserOpenStays(t *testing.T) {
	s, chromium := start(t)
	s.fill()
	b := s.browse(chromium)
	b.open("workers")
	b.run("open", chromedp.Click("#live details summary"), chromedp.WaitVisible("#live details button"))
	s.job(object{"kind": "export", "queue": "reports"})
	s.step("reports", "export", nil)
	b.sees("reports") // the worker has asked for another queue, so the page was updated
	var open bool
	b.run("still open", chromedp.Evaluate("document.querySelector('#live details').open", &open))
	if !open {
		t.Error("the update has closed it")
	}
	b.clean("workers")
}

// TestBrowserRedrive: many jobs have failed. The operator finds their cause, redrives 10 of them as
// canaries with a double click, and the rest follows when these have completed. The page of the
// operation shows each step by itself (spec:H12).
func TestBrowserRedrive(t *testing.T) {
	s, chromium := start(t)
	s.fill()
	s.fails("sms", "text", 60)
	b := s.browse(chromium)
	b.open("")
	b.run("by cause", chromedp.Click(`a[href$="failures?open=1"]`), chromedp.WaitVisible(`a[href*="failure?id="]`))
	b.sees("connection refused")
	b.sees("card_declined")
	b.run("group", chromedp.Click(`//tr[td[.="sms_down"]]//a[contains(@href, "failure?id=")]`, chromedp.BySearch), chromedp.WaitVisible("#redrive"))
	b.sees("60 jobs have failed with this cause")
	b.run("count", chromedp.SendKeys("#redrive input[name=why]", "the provider is back"), chromedp.Click("#redrive button"), chromedp.WaitVisible("#confirm"))
	b.sees("Redrive 60 jobs?")
	before := len(s.call("GET", "/v1/operations", nil)["operations"].([]any))
	b.run("confirm", chromedp.DoubleClick("#confirm"), chromedp.WaitVisible("#pause"))
	b.sees("10 of 60 jobs. It waits for 10 canary jobs to complete.")
	b.sees("the provider is back")
	if n := len(s.call("GET", "/v1/operations", nil)["operations"].([]any)); n != before+1 {
		t.Errorf("a double click has started %d operations", n-before)
	}
	for range 10 {
		s.step("sms", "text", object{"type": "completed"})
	}
	b.sees("60 of 60 jobs.")
	b.sees("completed")
	b.open("failures?open=1")
	b.sees("card_declined")
	var text string
	b.run("rest", chromedp.Text("#live", &text))
	if strings.Contains(text, "sms_down") {
		t.Errorf("the group has open jobs:\n%s", text)
	}
	b.clean("redrive")
}
