package ui

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestSettings: the page of a queue shows what is in force, what a program has declared and who has
// set it. A form changes one setting, and none of a revision that the person has not seen.
func TestSettings(t *testing.T) {
	b := mount(t, Options{})
	b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	revision := regexp.MustCompile(`name="revision" value="(\d+)"`)
	seen := func() string { return revision.FindStringSubmatch(b.see("queue?name=pay"))[1] }
	set := func(name, value, revision string) shown {
		return b.post("do/setting", url.Values{"queue": {"pay"}, "setting": {name}, "value": {value}, "revision": {revision}})
	}
	first := seen()
	if _, err := b.client.DeclareQueue(t.Context(), "pay", sojourn.QueueSettings{Limit: 30, MaxDepth: 500}); err != nil {
		t.Fatal(err)
	}
	if got := set("limit", "40", first); got.StatusCode != http.StatusConflict {
		t.Errorf("a change before the declaration was seen: %s", got.Status)
	}
	stale := seen()
	if got := set("limit", "40", stale); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a change: %s\n%s", got.Status, got.body)
	}
	page := b.see("queue?name=pay")
	row := func(name, inForce, declared, by string) {
		t.Helper()
		want := regexp.MustCompile(`<td class="mono">` + name + `</td><td class="mono" data-h="in force">` + inForce + `</td><td class="mono muted" data-h="declared">` + declared + `</td><td class="act"><span class="tag[^"]*">` + by + `<`)
		if !want.MatchString(page) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	row("limit", "40", "30", "operator")
	row("max_depth", "500", "500", "program")
	if got := b.post("do/setting", url.Values{"queue": {"pay"}, "reset": {"limit"}, "revision": {stale}}); got.StatusCode != http.StatusConflict {
		t.Errorf("a reset of settings that were not seen: %s", got.Status)
	}
	if got := set("group_limit", "5", seen()); got.StatusCode != http.StatusSeeOther {
		t.Errorf("another setting: %s", got.Status)
	}
	b.done("do/setting", url.Values{"queue": {"pay"}, "reset": {"limit"}, "revision": {seen()}})
	page = b.see("queue?name=pay")
	row("limit", "30", "30", "program")
	row("group_limit", "5", "default", "operator")
}
