package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/workflow"
)

// paths are all pages.
var paths = []string{"", "jobs", "waiting", "failures", "operations", "queues", "schedules", "calendar", "workflows", "workers", "audit", "statistics"}

func TestEmptyPages(t *testing.T) {
	b := mount(t, Options{})
	for path, text := range map[string]string{
		"": "Nothing is held back", "jobs": "There are no jobs yet", "waiting": "No job waits for an answer", "queues": "There are no queues yet",
		"schedules": "There are no schedules", "calendar": "No queue has time windows", "workflows": "There are no workflows", "failures": "Nothing has failed", "operations": "There are no operations", "workers": "No worker has asked for jobs", "audit": "The log is empty", "statistics": "Nothing has happened today",
	} {
		b.see(path, text)
	}
	for _, path := range []string{"jobs/17", "jobs/x", "queue?name=none", "workflow?name=none", "response?seq=4", "failure?id=00000000000000ff", "operation?id=none", "nothing"} {
		if got := b.get(path); got.StatusCode != http.StatusNotFound || !strings.Contains(got.body, "Not found") {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	if got := b.get("jobs?state=nosuch"); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("unknown state: %s", got.Status)
	}
}

// TestHeaders: no page may be framed, run a script of another origin, or be cached.
func TestHeaders(t *testing.T) {
	b := mount(t, Options{})
	for _, path := range append(paths, "nothing", "static/app.css", "jobs/17") {
		h := b.get(path).Header
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		if h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
		if cached := h.Get("Cache-Control"); (cached == "no-store") == strings.HasPrefix(path, "static/") {
			t.Errorf("%s: Cache-Control %q", path, cached)
		}
	}
}

// evil closes tags and attributes of every sort that a page has.
const evil = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.Base}}`

// hostile fills a store with jobs whose every text that an outsider can write is evil.
func hostile(b *browser) (ids []sojourn.ID) {
	b.Helper()
	awaiting := b.enqueue(sojourn.NewJob("charge", []byte(fmt.Sprintf("%q", evil)), sojourn.Key(evil), sojourn.Group(evil), sojourn.Queue("pay"), sojourn.Meta("trace", evil)))
	c := b.claim("worker-1", "pay", "charge")
	progress := evil
	if _, err := b.store.Save(b.Context(), []driver.Saved{{Lease: c.Lease, Progress: &progress, Log: []sojourn.LogLine{{Level: "info", Text: evil}}}}); err != nil {
		b.Fatal(err)
	}
	b.finish(c, sojourn.OutcomeOf(sojourn.AwaitAll(time.Hour, evil, "second "+evil)))
	text := sojourn.NewJob("charge", []byte(evil), sojourn.Queue("pay"))
	text.ContentType = "text/plain"
	failed := b.enqueue(text)
	c = b.claim("worker-1", "pay", "charge")
	o := sojourn.OutcomeOf(sojourn.Abort(errors.New(evil)))
	o.Reason = evil
	b.finish(c, o)
	running := b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	b.claim("worker-1", "pay", "charge")
	for i, r := range []sojourn.Response{{Kind: "charge", Key: "nobody " + evil}, {Job: failed}} {
		r.Source, r.MessageID, r.Body, r.ContentType = evil, fmt.Sprint(i, evil), []byte(evil), "text/plain"
		if _, err := b.client.Respond(b.Context(), &r); err != nil {
			b.Fatal(err)
		}
	}
	if err := b.client.Queues().Hold(b.Context(), "pay", time.Hour, evil); err != nil {
		b.Fatal(err)
	}
	return []sojourn.ID{awaiting, failed, running}
}

// TestHostileContent: whatever an outsider writes is shown as text (spec:H11).
func TestHostileContent(t *testing.T) {
	b := mount(t, Options{})
	ids := hostile(b)
	pages := append([]string{"queue?name=pay", "response?seq=1", "response?seq=2", "jobs?key=" + url.QueryEscape(evil), "jobs?kind=" + url.QueryEscape(evil), "queues?q=" + url.QueryEscape(evil),
		"waiting?outcome=early", "waiting?outcome=" + url.QueryEscape(evil), "bulk?action=cancel&scope=all&key=" + url.QueryEscape(evil), "workflows?q=" + url.QueryEscape(evil),
		"schedules?q=" + url.QueryEscape(evil), "audit?who=" + url.QueryEscape(evil), "statistics?queue=" + url.QueryEscape(evil), "statistics?days=7", "jobs?done=" + url.QueryEscape(evil), "jobs?done=bulk-cancel&n=" + url.QueryEscape(evil), "signin?next=" + url.QueryEscape(evil)}, paths...)
	for _, id := range ids {
		pages = append(pages, fmt.Sprintf("jobs/%d", id))
	}
	pages = append(pages, hostileFailures(b)...)
	seen := 0
	for _, path := range pages {
		for _, headers := range [][]string{nil, {"HX-Request: true"}} {
			got := b.get(path, headers...)
			if strings.Contains(got.body, "<script>alert") || strings.Contains(got.body, "<img src=x") || strings.Contains(got.body, "onerror=alert(2)>") {
				t.Errorf("%s: the text is markup:\n%s", path, got.body)
			}
			if strings.Contains(html.UnescapeString(got.body), evil) {
				seen++
			}
		}
	}
	if seen < 20 {
		t.Errorf("the text is on %d pages only, so this test looks at nothing", seen)
	}
	for _, part := range []string{"args", "result", "checkpoint"} {
		got := b.get(fmt.Sprintf("jobs/%d/%s", ids[1], part))
		if got.Header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: a browser would show it: %v", part, got.Header)
		}
	}
}

var inline = regexp.MustCompile(`<script>|<script [^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href|action)="(?:https?:)?//`)

// TestNothingInline: the policy forbids inline scripts and styles, and no file is of another host.
func TestNothingInline(t *testing.T) {
	b := mount(t, Options{})
	b.enqueue(sojourn.NewJob("charge", []byte(`{}`), sojourn.Queue("pay")))
	if _, err := b.client.Respond(t.Context(), &sojourn.Response{Kind: "charge", Key: "none"}); err != nil {
		t.Fatal(err)
	}
	g := b.fails(2, "mail", "send", "bounced", "mailbox %d is full")
	b.see("queues") // for its token
	b.done("do/bulk", url.Values{"action": {"redrive"}, "failure": {g.ID}, "total": {"2"}, "operation": {"op-1"}, "canary": {"1"}})
	for _, path := range append(paths, "jobs/1", "queue?name=pay", "response?seq=1", "failure?id="+g.ID, "operation?id=op-1", "jobs?failure="+g.ID, "bulk?action=redrive&scope=all&failure="+g.ID) {
		if found := inline.FindString(b.see(path)); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

// TestAssets: the libraries are the published files, unchanged; htmx.org 4.0.1 and uplot 1.6.32 of
// npm.
func TestAssets(t *testing.T) {
	b := mount(t, Options{})
	for name, sum := range map[string]string{
		"htmx-4.0.1.min.js":    "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
		"htmx-LICENSE.txt":     "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
		"uplot-1.6.32.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uplot-LICENSE.txt":    "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		got := sha256.Sum256([]byte(b.see("static/" + name)))
		if hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has the SHA-256 %x", name, got)
		}
	}
	page := b.see("")
	names, _ := fs.Glob(files, "static/*")
	for _, name := range names {
		if !strings.Contains(page, strings.TrimPrefix(name, "static/")) && !strings.Contains(name, "LICENSE") {
			t.Errorf("no page uses %s", name)
		}
	}
	if got := b.get("static/none.js"); got.StatusCode != http.StatusNotFound {
		t.Errorf("missing file: %s", got.Status)
	}
}

// TestFindAndAnswer: somebody asks about an order; the operator finds its job by the key, sees why
// it waits, and answers it (spec:H11).
func TestFindAndAnswer(t *testing.T) {
	b := mount(t, Options{})
	id := b.enqueue(sojourn.NewJob("charge", []byte(`{"amount":12345678901234567890}`), sojourn.Key("order-42"), sojourn.Queue("pay")))
	b.finish(b.claim("w", "pay", "charge"), sojourn.OutcomeOf(sojourn.Await(time.Hour)))
	got := b.get("find?q=order-42")
	if want := fmt.Sprintf("./jobs/%d", id); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
		t.Fatalf("find: %s to %q", got.Status, got.Header.Get("Location"))
	}
	at := fmt.Sprintf("jobs/%d", id)
	page := b.see(at, "awaiting", "order-42", "12345678901234567890", "Answer by hand", "Awaits", fmt.Sprintf("sojourn respond --job %d", id))
	message := regexp.MustCompile(`name="message" value="([^"]+)"`).FindStringSubmatch(page)[1]
	form := url.Values{"job": {id.String()}, "kind": {"charge"}, "key": {"order-42"}, "message": {message}, "type": {"application/json"}, "body": {`{"paid":true}`}}
	for range 2 { // a double click
		if to := b.done("do/answer", form); to != "../"+at+"?done=answered" {
			t.Errorf("led to %q", to)
		}
	}
	b.see(at+"?done=answered", "The answer is stored.", "ready", "responded", "paid", "1 repeats")
	form.Set("body", `{"paid":`)
	if got := b.post("do/answer", form); got.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(got.body, "not JSON") {
		t.Errorf("broken JSON: %s", got.Status)
	}
}

func TestEditCancelRedrive(t *testing.T) {
	b := mount(t, Options{})
	id := b.enqueue(sojourn.NewJob("charge", []byte(`{}`), sojourn.Queue("pay"), sojourn.Delay(time.Hour), sojourn.Tags("old")))
	job, at := url.Values{"job": {id.String()}}, fmt.Sprintf("jobs/%d", id)
	b.see(at, "scheduled", "Edit priority")
	b.done("do/edit", url.Values{"job": {id.String()}, "priority": {"7"}, "was_priority": {"100"}, "tags": {"vip, slow"}, "was_tags": {"old"}, "now": {"1"}, "why": {"a customer waits"}})
	b.see(at, "ready", "7, weight 1", "vip", "slow", "a customer waits", ">web<")
	b.see("jobs?tag=vip", at)
	b.done("do/cancel", url.Values{"job": {id.String()}, "why": {"a mistake"}})
	b.see(at, "It was cancelled", "a mistake", "Redrive")
	job.Set("generation", "1")
	b.done("do/redrive", job)
	b.see(at, "ready", "generation 2")
	if got := b.post("do/redrive", job); got.StatusCode != http.StatusConflict { // a second click
		t.Errorf("redriven twice: %s", got.Status)
	}
	b.see("audit", "editJobs", "a mistake")
}

func TestPauseQueue(t *testing.T) {
	b := mount(t, Options{})
	b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	b.see("queue?name=pay", ">Pause<", "Nothing: each of the first 1 ready job")
	if to := b.done("do/pause", url.Values{"queue": {"pay"}, "paused": {"true"}}); to != "../queue?name=pay&done=paused" {
		t.Errorf("led to %q", to)
	}
	other := b.another()
	other.see("queues", "paused", ">Resume<")
	other.see("queue?name=pay", "paused", "Queue pay is paused")
	other.see("", "Queue pay is paused; 1 job wait")
	b.done("do/pause", url.Values{"queue": {"pay"}, "paused": {"false"}, "back": {"queues"}})
	other.see("queues", ">Pause<")
	b.done("do/hold", url.Values{"queue": {"pay"}, "for": {"10m"}, "why": {"the bank is closed"}})
	b.see("queue?name=pay", "the bank is closed")
	b.done("do/hold", url.Values{"queue": {"pay"}, "end": {"1"}})
	b.done("do/setting", url.Values{"queue": {"pay"}, "setting": {"limit"}, "value": {"40"}})
	b.see("queue?name=pay", "limit", "40", "operator", ">Reset<")
	if got := b.post("do/setting", url.Values{"queue": {"pay"}, "setting": {"limit"}, "value": {"41"}, "revision": {"1"}}); got.StatusCode != http.StatusConflict {
		t.Errorf("a change of settings that were not seen: %s", got.Status)
	}
	b.done("do/setting", url.Values{"queue": {"pay"}, "reset": {"limit"}})
	b.see("queue?name=pay", "All settings are the defaults")
}

func TestBulk(t *testing.T) {
	b := mount(t, Options{})
	var ids []sojourn.ID
	for range 60 {
		ids = append(ids, b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay"))))
	}
	keep := b.enqueue(sojourn.NewJob("ship", nil, sojourn.Queue("pay")))
	page := b.see("jobs?kind=charge", ids[59].String(), "Older")
	if strings.Contains(page, fmt.Sprintf(`id="j%d"`, ids[0])) {
		t.Error("the first page has more than 50 rows")
	}
	older := regexp.MustCompile(`href="\./(jobs\?[^"]*after=[^"]*)"`).FindStringSubmatch(page)
	if older == nil {
		t.Fatal("no link to older jobs")
	}
	b.see(html.UnescapeString(older[1]), fmt.Sprintf(`id="j%d"`, ids[0]), "Newest")
	b.see(fmt.Sprintf("bulk?action=cancel&kind=charge&id=%d&id=%d", ids[0], ids[1]), "Cancel 2 jobs?")
	b.see("bulk?action=cancel&scope=all&kind=charge", "Cancel 60 jobs?")
	if to := b.done("do/bulk", url.Values{"action": {"cancel"}, "kind": {"charge"}, "total": {"60"}, "why": {"a test"}, "operation": {"op-all"}}); to != "../operation?id=op-all&done=started" {
		t.Errorf("led to %q", to)
	}
	b.until("op-all", operation.Completed)
	b.see("operation?id=op-all", "cancel", "60 of 60", "a test")
	if j, err := b.client.Get(t.Context(), keep); err != nil || j.State != sojourn.Ready {
		t.Errorf("the other job: %v, %v", j.State, err)
	}
	b.see("bulk?action=cancel&scope=all&kind=charge", "No job that matches can be cancelled")
	b.see("bulk?action=redrive&scope=all&kind=charge", "Redrive 60 jobs?")
	if got := b.post("do/bulk", url.Values{"action": {"redrive"}, "kind": {"charge"}, "total": {"2000"}}); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("many jobs without typing the number: %s", got.Status)
	}
	if to := b.done("do/bulk", url.Values{"action": {"redrive"}, "total": {"1"}, "kind": {"charge"}, "id": {ids[0].String()}}); to != "../jobs?done=bulk-redrive&kind=charge&n=1" {
		t.Errorf("led to %q", to)
	}
	b.see("jobs?done=bulk-redrive&kind=charge&n=1", "1 job redriven.")
	if j, err := b.client.Get(t.Context(), ids[0]); err != nil || j.State != sojourn.Ready {
		t.Errorf("redriven: %v, %v", j.State, err)
	}
	if got := b.get("bulk?action=cancel"); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("nothing selected: %s", got.Status)
	}
}

// TestRowsStay: the live update shows the same rows in the same order, and only counts new jobs.
func TestRowsStay(t *testing.T) {
	b := mount(t, Options{})
	first := b.enqueue(sojourn.NewJob("charge", nil))
	page := b.see("jobs")
	from := html.UnescapeString(regexp.MustCompile(`hx-get="\./([^"]+)"`).FindStringSubmatch(page)[1])
	second := b.enqueue(sojourn.NewJob("charge", nil))
	if err := b.client.Cancel(t.Context(), first, "a test"); err != nil {
		t.Fatal(err)
	}
	got := b.get(from, "HX-Request: true")
	for _, text := range []string{fmt.Sprintf(`id="j%d"`, first), "cancelled", "Show 1 new job"} {
		if !strings.Contains(got.body, text) {
			t.Errorf("the update lacks %q:\n%s", text, got.body)
		}
	}
	if strings.Contains(got.body, fmt.Sprintf(`id="j%d"`, second)) || strings.Contains(got.body, "<html") {
		t.Errorf("the update has more than the rows:\n%s", got.body)
	}
}

func TestInboxMatch(t *testing.T) {
	b := mount(t, Options{})
	id := b.enqueue(sojourn.NewJob("charge", nil, sojourn.Key("inv-43"), sojourn.Queue("pay")))
	b.finish(b.claim("w", "pay", "charge"), sojourn.OutcomeOf(sojourn.Await(time.Hour)))
	r := sojourn.Response{Kind: "charge", Key: "INV-43", Body: []byte(`{"paid":true}`), Source: "bank"}
	stored, err := b.client.Respond(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	b.see("waiting?outcome=early", "INV-43", "bank")
	at := fmt.Sprintf("response?seq=%d", stored.Seq)
	b.see(at, "whose key is nearly", "inv-43", "Match")
	if to := b.done("do/inbox", url.Values{"seq": {fmt.Sprint(stored.Seq)}, "action": {"match"}, "job": {id.String()}}); to != fmt.Sprintf("../jobs/%d?done=matched", id) {
		t.Errorf("led to %q", to)
	}
	b.see(fmt.Sprintf("jobs/%d", id), "ready", "paid")
	b.see(at, "Sent again as")
}

func TestSchedulesAndWorkflows(t *testing.T) {
	b := mount(t, Options{})
	if _, err := schedule.Of(b.client).Set(t.Context(), schedule.Schedule{Name: "nightly/report", Cron: "30 2 * * *", Zone: "Europe/Berlin", Job: sojourn.NewJob("report", nil)}); err != nil {
		t.Fatal(err)
	}
	b.see("schedules", "nightly/report", "every day at 02:30, Europe/Berlin", "in ")
	b.done("do/schedule", url.Values{"name": {"nightly/report"}, "action": {"pause"}})
	b.see("schedules", "paused", "Resume")
	made := b.done("do/schedule", url.Values{"name": {"nightly/report"}, "action": {"run"}})
	b.see(strings.TrimPrefix(made, "../"), "report", "One job was made.")
	w := workflow.New("order-7").Add("pay", sojourn.NewJob("pay", nil)).Add("ship", sojourn.NewJob("ship", nil), workflow.After("pay")).Add("mail", sojourn.NewJob("mail", nil), workflow.After("ship", "pay"))
	if _, err := workflow.Of(b.client).Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.see("workflows", "order-7", "running")
	page := b.see("workflow?name=order-7", "3 members", "ship", "<svg")
	if edges := strings.Count(page, `class="edge"`); edges != 3 {
		t.Errorf("the graph has %d edges, want 3", edges)
	}
	b.done("do/workflow", url.Values{"name": {"order-7"}, "action": {"cancel"}, "why": {"a test"}})
	b.see("workflow?name=order-7", "cancelled")
}

// TestCalendar: windows of queues and the next runs of schedules, also those that fall outside of
// the windows (spec:H11).
func TestCalendar(t *testing.T) {
	b := mount(t, Options{})
	soon := time.Now().UTC().Add(3 * time.Hour)
	w := sojourn.Window{Start: soon.Format("15:04"), End: soon.Add(time.Hour).Format("15:04")}
	if err := b.client.Queues().Set(t.Context(), "night", sojourn.QueueSettings{Windows: sojourn.Windows{w}}); err != nil {
		t.Fatal(err)
	}
	for name, every := range map[string]time.Duration{"report": 30 * time.Minute, "tick": time.Second} {
		if _, err := schedule.Of(b.client).Set(t.Context(), schedule.Schedule{Name: name, Every: every, Job: sojourn.NewJob("report", nil, sojourn.Queue("night"))}); err != nil {
			t.Fatal(err)
		}
	}
	page := b.see("calendar", "night", "closed", "opens", w.String(), "report", "every 30m", "its windows open", "Next runs")
	if marks := strings.Count(page, "<rect"); marks != 1+1+48 {
		t.Errorf("the drawing has %d parts", marks)
	}
	if err := schedule.Of(b.client).Pause(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	if week := b.see("calendar?days=7", "paused", "The next 7 days"); strings.Count(week, "<rect") > 8+1 {
		t.Errorf("a paused schedule has marks:\n%s", week)
	}
}

func TestWorkersPage(t *testing.T) {
	b := mount(t, Options{})
	b.enqueue(sojourn.NewJob("charge", nil))
	running := b.claim("worker-1", "default", "charge")
	b.see("workers", "worker-1", "alive", "Drain")
	b.done("do/drain", url.Values{"worker": {"worker-1"}})
	if text := b.see("workers", "draining"); strings.Contains(text, "Forget") {
		t.Error("a worker with a lease can be removed")
	}
	if got := b.post("do/forget", url.Values{"worker": {"worker-1"}}); got.StatusCode != http.StatusConflict || !strings.Contains(got.body, "has not expired") {
		t.Errorf("%s: %s", got.Status, got.body)
	}
	b.finish(running, sojourn.Outcome{Type: sojourn.OutcomeCompleted})
	b.see("workers", "stopped", "Forget")
	b.done("do/forget", url.Values{"worker": {"worker-1"}})
	b.see("workers", "No worker has asked for jobs")
}

// TestReadOnly: the page shows no actions, and refuses those that somebody sends all the same.
func TestReadOnly(t *testing.T) {
	b := mount(t, Options{ReadOnly: true})
	id := b.enqueue(sojourn.NewJob("charge", nil))
	g := b.fails(1, "mail", "send", "bounced", "mailbox %d is full")
	if _, err := operation.Of(b.client).Start(t.Context(), operation.Spec{ID: "op-1", Filter: sojourn.Filter{Failure: g.ID}, Edit: sojourn.Edit{Action: sojourn.EditRedrive}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fmt.Sprintf("jobs/%d", id), "jobs", "queues", "queue?name=default", "failures", "failure?id=" + g.ID, "operations", "operation?id=op-1"} {
		if page := b.see(path); strings.Contains(page, `method="post"`) || strings.Contains(page, `action="./bulk"><input`) {
			t.Errorf("%s has a form", path)
		}
	}
	if got := b.post("do/cancel", url.Values{"job": {id.String()}, "csrf": {b.site.csrf("")}}); got.StatusCode != http.StatusForbidden {
		t.Errorf("cancelled: %s", got.Status)
	}
}

func TestFindingsOfQueues(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		queue sojourn.QueueStatus
		want  string
	}{
		{sojourn.QueueStatus{Name: "q"}, ""},
		{sojourn.QueueStatus{Name: "q", OldestReady: now.Add(-time.Hour)}, "The oldest ready job of queue q waits for 1 h."},
		{sojourn.QueueStatus{Name: "q", OldestReady: now.Add(-time.Hour), Settings: sojourn.QueueSettings{Paused: true}}, "Queue q is paused; 0 jobs wait."},
		{sojourn.QueueStatus{Name: "q", Settings: sojourn.QueueSettings{Limit: 3}, InFlight: 3, Counts: map[sojourn.State]int64{sojourn.Ready: 4}}, "The limit of queue q is full (3 of 3); 4 jobs wait."},
		{sojourn.QueueStatus{Name: "q", Unhandled: map[string]int64{"k": 2}}, "No worker asks for kind k in queue q; 2 jobs wait."},
		{sojourn.QueueStatus{Name: "q", Breaker: "open"}, "The circuit breaker of queue q is open; 0 jobs wait."},
		{sojourn.QueueStatus{Name: "q", Stalled: 1}, "1 job of queue q run under a lease that is over: their workers have stopped reporting."},
	} {
		var texts []string
		for _, f := range findings(&c.queue, now) {
			texts = append(texts, f.Text)
		}
		if got := strings.Join(texts, "|"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.queue, got, c.want)
		}
	}
}
