package ui

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// fails makes jobs that have failed with one cause, and returns its group.
func (b *browser) fails(n int, queue, kind, reason, format string) failure.Group {
	b.Helper()
	for i := range n {
		b.enqueue(sojourn.NewJob(kind, nil, sojourn.Queue(queue)))
		b.finish(b.claim("w", queue, kind), sojourn.OutcomeOf(sojourn.Abort(sojourn.WithDetail("<detail>", sojourn.WithReason(reason, fmt.Errorf(format, 1000+i))))))
	}
	found, err := failure.Of(b.client).List(b.Context(), failure.Query{Queue: queue, Kind: kind, Reason: reason})
	if err != nil || len(found) != 1 {
		b.Fatalf("%d groups, %v", len(found), err)
	}
	return found[0]
}

// until sweeps until an operation is in a state.
func (b *browser) until(id string, state operation.State) operation.Status {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := b.store.Sweep(b.Context(), 1000); err != nil {
			b.Fatal(err)
		}
		o, err := operation.Of(b.client).Get(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		if o.State == state {
			return o
		}
		if time.Now().After(deadline) {
			b.Fatalf("%v, want %s", o, state)
		}
	}
}

// formOf has the fields of the form on a page that leads to an action, with others beside them or
// in their place.
func formOf(t *testing.T, page, action string, more url.Values) url.Values {
	t.Helper()
	found := regexp.MustCompile(`(?s)<form method="post" action="[./]*` + action + `">.*?</form>`).FindString(page)
	if found == "" {
		t.Fatalf("no form leads to %s:\n%s", action, page)
	}
	out := url.Values{}
	for _, tag := range regexp.MustCompile(`<input [^>]*>`).FindAllString(found, -1) {
		name, value := regexp.MustCompile(` name="([^"]*)"`).FindStringSubmatch(tag), regexp.MustCompile(` value="([^"]*)"`).FindStringSubmatch(tag)
		if name != nil && value != nil {
			out.Add(html.UnescapeString(name[1]), html.UnescapeString(value[1]))
		}
	}
	for name, values := range more {
		out[name] = values
	}
	return out
}

// TestFailures: failures are listed by their cause, which leads to the group, to a job, and to all
// of its jobs (spec:R15, spec:H12).
func TestFailures(t *testing.T) {
	b := mount(t, Options{})
	g := b.fails(3, "pay", "charge", "gateway_down", "order %d: connection refused")
	b.fails(2, "mail", "send", "bounced", "mailbox %d is full")
	at := "failure?id=" + g.ID
	b.see("failures", at, "gateway_down", "bounced", "connection refused", "mailbox", `data-h="open">3<`)
	if page := b.see("failures?queue=pay", "gateway_down"); strings.Contains(page, "bounced") {
		t.Error("the filter by queue shows the other queue")
	}
	page := b.see(at, "gateway_down", "connection refused", "order 1002", "u003cdetail", "3 jobs", fmt.Sprintf("jobs/%d", g.Job), "Redrive", "Mute")
	jobs := regexp.MustCompile(`href="\./(jobs\?[^"]*failure=[^"]*)"`).FindStringSubmatch(page)
	if jobs == nil {
		t.Fatalf("no link to the jobs of the group:\n%s", page)
	}
	if list := b.see(html.UnescapeString(jobs[1]), "failure group", g.ID, g.Job.String(), "gateway_down"); strings.Count(list, `<tr id="j`) != 3 {
		t.Errorf("the list has other jobs:\n%s", list)
	}
	b.see(fmt.Sprintf("jobs/%d", g.Job), "u003cdetail", "failures?kind=charge&amp;queue=pay&amp;reason=gateway_down")
	for _, path := range []string{"failure?id=00000000000000ff", "failure"} {
		if got := b.get(path); got.StatusCode != http.StatusNotFound && got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	for i := range failuresOnPage {
		b.fails(1, "pay", "charge", fmt.Sprintf("reason_%d", i), "%d")
	}
	older := regexp.MustCompile(`href="\./(failures\?[^"]*after=[^"]*)"`).FindStringSubmatch(b.see("failures?queue=pay&kind=charge"))
	if older == nil {
		t.Fatal("no link to the other groups")
	}
	b.see(html.UnescapeString(older[1]), "gateway_down")
}

func TestMuteFailure(t *testing.T) {
	b := mount(t, Options{})
	g := b.fails(1, "pay", "charge", "gateway_down", "order %d: connection refused")
	at := "failure?id=" + g.ID
	form := formOf(t, b.see(at), "do/mute", url.Values{"for": {"2h"}, "why": {"ticket 7"}})
	if to := b.done("do/mute", form); to != "../"+at+"&done=muted" {
		t.Errorf("led to %q", to)
	}
	b.see(at+"&done=muted", "The group is muted.", "ticket 7", "web", "in 1 h")
	if page := b.see("failures"); strings.Contains(page, g.ID) {
		t.Error("the muted group is listed")
	}
	b.see("failures?muted=1", g.ID, "muted")
	form.Set("off", "1")
	b.done("do/mute", form)
	b.see("failures", g.ID)
	form.Del("off")
	for _, wrong := range []string{"soon", "-1h", "0s"} {
		form.Set("for", wrong)
		if got := b.post("do/mute", form); got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("for %s: %s", wrong, got.Status)
		}
	}
	b.see("audit", "muteFailure", "ticket 7")
}

// TestRedriveGroup: an operator redrives the jobs of a group. The page counts them first. A double
// click starts one operation. It waits for its canaries, and goes on when they have completed
// (spec:R16, spec:H12).
func TestRedriveGroup(t *testing.T) {
	b := mount(t, Options{})
	g := b.fails(30, "pay", "charge", "gateway_down", "order %d: connection refused")
	b.see("failure?id="+g.ID, `name="canary" value="10"`)
	confirm := b.see("bulk?action=redrive&scope=all&failure="+g.ID+"&canary=10&rate=5000&limit=&why=fixed", "Redrive 30 jobs?", "connection refused", `value="fixed"`)
	form := formOf(t, confirm, "do/bulk", nil)
	if form.Get("canary") != "10" || form.Get("operation") == "" || form.Get("failure") != g.ID {
		t.Fatalf("the form has %v", form)
	}
	at := "operation?id=" + form.Get("operation")
	for range 2 { // a double click
		if to := b.done("do/bulk", form); to != "../"+at+"&done=started" {
			t.Errorf("led to %q", to)
		}
	}
	if page := b.see("operations", form.Get("operation"), "redrive", "running"); strings.Count(page, `<tr id="o-`) != 1 {
		t.Errorf("there is not one operation:\n%s", page)
	}
	o := b.until(form.Get("operation"), operation.Canary)
	b.see(at+"&done=started", "The operation is started.", "canary", "10 of 30", fmt.Sprintf("jobs/%d", o.Canaries[9]), "fixed", "Pause")
	for range 10 {
		b.finish(b.claim("w", "pay", "charge"), sojourn.OutcomeOf(nil))
	}
	b.until(o.ID, operation.Completed)
	page := b.see(at, "completed", "30 of 30", "failure?id="+g.ID)
	if strings.Contains(page, `value="pause"`) || strings.Contains(page, `value="resume"`) {
		t.Error("an operation that has ended can be paused or resumed")
	}
	b.see("failure?id="+g.ID, at, "0 jobs")
	b.see("bulk?action=redrive&scope=all&failure="+g.ID, "No job that matches can be redriven")
	if got := b.get("operation?id=none"); got.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown operation: %s", got.Status)
	}
	for _, wrong := range []url.Values{{"canary": {"101"}}, {"canary": {"x"}}, {"rate": {"fast"}}, {"limit": {"-1"}}, {"limit": {"x"}}, {"operation": {"two words"}}} {
		form := formOf(t, confirm, "do/bulk", wrong)
		if got := b.post("do/bulk", form); got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%v: %s", wrong, got.Status)
		}
	}
}

// TestCanaryFails: a canary that fails stops the operation, and the page says why.
func TestCanaryFails(t *testing.T) {
	b := mount(t, Options{})
	g := b.fails(5, "pay", "charge", "gateway_down", "order %d: connection refused")
	form := formOf(t, b.see("bulk?action=redrive&scope=all&failure="+g.ID+"&canary=2"), "do/bulk", nil)
	b.done("do/bulk", form)
	id := form.Get("operation")
	at := "operation?id=" + id
	b.until(id, operation.Canary)
	b.finish(b.claim("w", "pay", "charge"), sojourn.OutcomeOf(sojourn.Abort(sojourn.WithReason("gateway_down", fmt.Errorf("still down")))))
	b.until(id, operation.Stopped)
	b.see("", "Operation "+id+" has stopped: canary job", html.EscapeString(at))
	page := b.see(at, "stopped", "still down", "2 of 5", "Resume without canaries")
	b.done("do/operation", formOf(t, page, "do/operation", url.Values{"action": {"resume"}}))
	b.until(id, operation.Completed)
	b.see(at, "completed", "5 of 5")
	if page := b.see(""); strings.Contains(page, id) {
		t.Error("the overview names an operation that has ended")
	}
}

// TestLivePart: the updates of open pages have only the part that changes.
func TestLivePart(t *testing.T) {
	b := mount(t, Options{})
	g := b.fails(2, "pay", "charge", "gateway_down", "order %d: connection refused")
	spec := operation.Spec{ID: "op-1", Filter: sojourn.Filter{Failure: g.ID}, Edit: sojourn.Edit{Action: sojourn.EditRedrive}}
	if _, err := operation.Of(b.client).Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"failures": g.ID, "failures?queue=pay": g.ID, "failure?id=" + g.ID: "order 1001", "operations": "op-1", "operation?id=op-1": "0 of 2", "calendar": "Windows of queues"} {
		b.see(path, `hx-get="./`+html.EscapeString(path)+`"`)
		got := b.get(path, "HX-Request: true")
		if got.StatusCode != http.StatusOK || strings.Contains(got.body, "<html") || strings.Contains(got.body, "<summary") || !strings.Contains(got.body, want) {
			t.Errorf("%s: %s\n%s", path, got.Status, got.body)
		}
	}
}

func TestPauseOperation(t *testing.T) {
	b := mount(t, Options{})
	for range 3 {
		b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	}
	form := formOf(t, b.see("bulk?action=cancel&scope=all&queue=pay&rate=1/h"), "do/bulk", nil)
	if form.Has("canary") {
		t.Error("a cancel has canaries")
	}
	b.done("do/bulk", form)
	at := "operation?id=" + form.Get("operation")
	control := func(action string) shown {
		return b.post("do/operation", url.Values{"id": {form.Get("operation")}, "action": {action}})
	}
	b.see(at, "running", "0 of 3", "1 job an hour", "Pause")
	for _, c := range []struct{ action, sees string }{{"pause", "paused"}, {"resume", "running"}, {"cancel", "cancelled"}} {
		if got := control(c.action); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "../"+at+"&done=changed" {
			t.Fatalf("%s: %s to %q\n%s", c.action, got.Status, got.Header.Get("Location"), got.body)
		}
		b.see(at, c.sees)
	}
	if got := control("resume"); got.StatusCode != http.StatusConflict {
		t.Errorf("resumed after the end: %s", got.Status)
	}
	if got := control("../../jobs"); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an unknown action: %s", got.Status)
	}
	b.see("audit", "startOperation", "pauseOperation", "cancelOperation")
}

// TestRolesOfFailures: a viewer sees the groups and changes nothing. A token for one queue sees the
// groups of that queue, and its own operations.
func TestRolesOfFailures(t *testing.T) {
	b := mount(t, Options{SignIn: true})
	mine, other := b.fails(2, "pay", "charge", "gateway_down", "mine %d"), b.fails(2, "other", "charge", "other_down", "theirs %d")
	people, bearers := map[string]*browser{}, map[string]string{}
	for name, g := range map[string]access.Grant{"viewer": grant("", access.VerbRead), "operator": grant("", access.VerbRead, access.VerbOperate), "tenant": grant("pay", access.VerbRead, access.VerbOperate)} {
		_, bearers[name] = b.token(name, g)
	}
	for name, bearer := range bearers {
		people[name] = b.another()
		people[name].signIn(bearer)
	}
	for _, path := range []string{"failures", "failure?id=" + mine.ID} {
		if page := people["viewer"].see(path, "gateway_down"); strings.Contains(page, "do/mute") || strings.Contains(page, `action="./bulk"`) {
			t.Errorf("%s: a viewer has actions", path)
		}
	}
	people["viewer"].see("operations", "they need the verb operate")
	tenant := people["tenant"]
	if page := tenant.see("failures", "gateway_down"); strings.Contains(page, "other_down") || strings.Contains(page, "theirs") || strings.Contains(page, other.ID) {
		t.Errorf("the tenant sees the other queue:\n%s", page)
	}
	for _, path := range []string{"failure?id=" + other.ID, "bulk?action=redrive&scope=all&failure=" + other.ID, "jobs?failure=" + other.ID} {
		if got := tenant.get(path); got.StatusCode != http.StatusNotFound || strings.Contains(got.body, "theirs") {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	redrive := func(id, failure string) url.Values {
		return url.Values{"action": {"redrive"}, "scope": {"all"}, "failure": {failure}, "total": {"2"}, "operation": {id}, "canary": {"1"}}
	}
	people["operator"].done("do/bulk", redrive("op-theirs", other.ID))
	for what, a := range map[string]struct {
		path string
		form url.Values
		may  string
	}{
		"mute":        {"do/mute", url.Values{"id": {mine.ID}, "why": {"x"}}, "operator tenant"},
		"mute theirs": {"do/mute", url.Values{"id": {other.ID}, "why": {"x"}}, "operator"},
		"pause":       {"do/operation", url.Values{"id": {"op-theirs"}, "action": {"pause"}}, "operator"},
	} {
		for name, p := range people {
			if got := p.post(a.path, a.form); (got.StatusCode == http.StatusSeeOther) != strings.Contains(a.may, name) {
				t.Errorf("%s may %s: %s", name, what, got.Status)
			}
		}
	}
	if got := people["viewer"].get("operation?id=op-theirs"); got.StatusCode != http.StatusForbidden || strings.Contains(got.body, "redrive") {
		t.Errorf("a viewer sees an operation: %s", got.Status)
	}
	if got := people["viewer"].post("do/bulk", redrive("op-viewer", mine.ID)); got.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer redrives: %s", got.Status)
	}
	tenant.see("jobs?queue=pay&kind=charge&failure="+mine.ID, "Redrive…")
	tenant.see("bulk?action=redrive&scope=all&failure="+mine.ID, "Redrive 2 jobs?")
	tenant.done("do/bulk", redrive("op-mine", mine.ID))
	if page := tenant.see("operations", "op-mine"); strings.Contains(page, "op-theirs") {
		t.Error("the tenant sees the operation of another token")
	}
	if got := tenant.get("operation?id=op-theirs"); got.StatusCode != http.StatusNotFound {
		t.Errorf("the operation of another token: %s", got.Status)
	}
	people["operator"].see("operations", "op-mine", "op-theirs")
}

// hostileFailures makes a failure group, a mute and an operation whose every text that an outsider
// can write is evil, and returns the pages that show them.
func hostileFailures(b *browser) []string {
	b.Helper()
	const text = "<script>alert(1)</script><img src=x onerror=alert(2)>"
	groups := map[string]failure.Group{"muted": b.fails(1, "muted", "charge", evil, text+" %d"), "open": b.fails(3, "open", "charge", evil, text+evil+" %d")}
	if !strings.Contains(groups["open"].Pattern, "<script>alert") {
		b.Errorf("the pattern %q has no markup, so this test looks at nothing", groups["open"].Pattern)
	}
	if _, err := failure.Of(b.client).Mute(b.Context(), groups["muted"].ID, failure.Mute{By: evil, Reason: evil}); err != nil {
		b.Fatal(err)
	}
	spec := operation.Spec{ID: "op-evil", Canary: 1, Filter: sojourn.Filter{Failure: groups["open"].ID}, Edit: sojourn.Edit{Action: sojourn.EditRedrive, By: evil, Reason: evil}}
	if _, err := operation.Of(b.client).Start(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
	b.until("op-evil", operation.Canary)
	b.finish(b.claim("w", "open", "charge"), sojourn.OutcomeOf(sojourn.Abort(sojourn.WithReason(evil, fmt.Errorf("%s", text+evil)))))
	if o := b.until("op-evil", operation.Stopped); !strings.Contains(o.Problem, text) {
		b.Errorf("the problem %q has no markup", o.Problem)
	}
	b.see("queues") // for its token
	if got := b.post("do/bulk", url.Values{"action": {"redrive"}, "queue": {"open"}, "total": {"1"}, "operation": {evil}}); got.StatusCode != http.StatusUnprocessableEntity || strings.Contains(got.body, "<script>alert") {
		b.Errorf("an operation with a hostile id: %s\n%s", got.Status, got.body)
	}
	at := url.QueryEscape(evil)
	return []string{"failures?muted=1", "failure?id=" + groups["muted"].ID, "failure?id=" + groups["open"].ID, "jobs?failure=" + groups["open"].ID, "bulk?action=redrive&scope=all&failure=" + groups["open"].ID + "&why=" + at,
		"operations", "operation?id=op-evil", "failures?queue=" + at, "failures?reason=" + at, "failures?after=" + at, "failure?id=" + at, "operation?id=" + at, "operations?after=" + at, "jobs?failure=" + at,
		"bulk?action=redrive&scope=all&failure=" + at, "bulk?action=redrive&scope=all&rate=" + at, "bulk?action=redrive&scope=all&canary=" + at, "bulk?action=redrive&scope=all&limit=" + at}
}
