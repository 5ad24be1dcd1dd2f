package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// The checker of accessibility, from npm. It is a tool of this test and part of nothing that is
// built.
const (
	axePackage = "axe-core@4.14.1"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" // SHA-256 of package/axe.min.js
)

// axe returns the script of axe-core: out of the cache of the user, else from npm. Without both the
// test is skipped; where CI is true, it fails.
func axe(t *testing.T) string {
	t.Helper()
	script, err := axeScript()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v", axePackage, err)
		}
		t.Skipf("there is no %s, and npm has not got it: %v", axePackage, err)
	}
	return script
}

func axeScript() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "sojourn-test", axePackage+".js")
	b, err := os.ReadFile(path)
	if err == nil && sum(b) == axeSum {
		return string(b), nil
	}
	folder, err := os.MkdirTemp("", "sojourn-axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pack := exec.CommandContext(ctx, "npm", "pack", "--silent", axePackage)
	pack.Dir = folder
	out, err := pack.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack: %w", err)
	}
	b, err = exec.Command("tar", "-xzOf", filepath.Join(folder, strings.TrimSpace(string(out))), "package/axe.min.js").Output()
	if err != nil {
		return "", fmt.Errorf("tar: %w", err)
	}
	if got := sum(b); got != axeSum {
		return "", fmt.Errorf("the SHA-256 is %s, want %s", got, axeSum)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return string(b), os.WriteFile(path, b, 0o600)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// violation is what axe-core finds wrong on a page.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string `json:"failureSummary"`
	}
}

// violations runs rules of axe-core on the page that is open, all if there are none. The script of
// axe-core is there already.
func (b *browser) violations(where string, rules ...string) []violation {
	b.Helper()
	options := object{"resultTypes": []string{"violations"}, "preload": false}
	if len(rules) > 0 {
		options["runOnly"] = rules
	}
	settings, err := json.Marshal(options)
	if err != nil {
		b.Fatal(err)
	}
	var text string
	b.run(where, chromedp.Evaluate(fmt.Sprintf(`axe.run(document, %s).then((r) => JSON.stringify(r.violations))`, settings), &text,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	var all []violation
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		b.Fatal(err)
	}
	return all
}

// accessible opens a page in each theme and reports what axe-core finds serious or critical. The
// developer tools run the script, so the content security policy of the page stays as it is.
func (b *browser) accessible(name, path, script string) {
	b.Helper()
	b.open(path)
	b.run(name, chromedp.Evaluate(`document.querySelectorAll("details").forEach((d) => d.open = true); `+script+"; 0", nil))
	for i, theme := range themes() {
		b.show(theme)
		var rules []string
		if i > 0 && theme.width > 600 { // the theme changes only colours
			rules = []string{"color-contrast", "link-in-text-block"}
		}
		for _, v := range b.violations(name, rules...) {
			if v.Impact != "serious" && v.Impact != "critical" {
				continue
			}
			for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
				b.Errorf("%s, %s: %s: %s (%s)\n%s\n%s", name, theme.name, v.Impact, v.Help, v.ID, n.HTML, n.FailureSummary)
			}
		}
	}
}

// theme is how a page is shown.
type theme struct {
	name  string
	width int64
	media []*emulation.MediaFeature
}

// themes are all of the style sheet, and the layout of phones.
func themes() (out []theme) {
	for _, scheme := range []string{"light", "dark"} {
		for _, contrast := range []string{"no-preference", "more"} {
			media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-contrast", Value: contrast}, {Name: "prefers-reduced-motion", Value: "reduce"}}
			out = append(out, theme{scheme + "-contrast-" + contrast, 1280, media})
		}
	}
	return append(out, theme{"phone", 360, out[0].media})
}

func (b *browser) show(t theme) {
	b.Helper()
	b.run(t.name, emulation.SetDeviceMetricsOverride(t.width, 800, 1, t.width < 600), emulation.SetEmulatedMedia().WithFeatures(t.media))
}

// TestBrowserAccessible: axe-core finds nothing serious or critical on any page in any theme
// (spec:H11). A page with a picture without
// a text is the control arm.
func TestBrowserAccessible(t *testing.T) {
	s, chromium := start(t)
	script := axe(t)
	all := s.paths(s.fill())
	long := strings.Repeat("at charge (bank.go:42)\n", 60)
	s.job(object{"kind": "long", "queue": "long", "args": object{"text": long}, "policy": object{"max_attempts": 1}})
	s.step("long", "long", object{"type": "error", "reason": "panic", "error": long})
	s.job(object{"kind": "soon", "queue": "soon"})
	s.step("soon", "soon", object{"type": "completed", "result": object{"text": long}})
	for _, state := range []string{"failed", "completed", "ready", "running", "scheduled", "blocked"} {
		found := s.call("GET", "/v1/jobs?limit=1&state="+state, nil)["jobs"].([]any)
		all["job "+state] = fmt.Sprint("jobs/", int64(found[0].(object)["id"].(float64)))
	}
	b := s.browse(chromium)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.accessible(name, all[name], script)
	}
	b.run("spoil", chromedp.Evaluate(`document.body.innerHTML = '<main><img src="x"></main>'; 0`, nil))
	found := b.violations("control", "image-alt")
	if !slices.ContainsFunc(found, func(v violation) bool { return v.ID == "image-alt" && v.Impact == "critical" }) {
		t.Errorf("a picture without a text is not found: %v", found)
	}
	if out, err := exec.Command(s.sojourn, "token", "create", "--name", "ana", "--verb", "read", "--for", "1h", "--store", s.store).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.url = s.serve() // with a token in the store, it asks people to sign in
	b.accessible("sign in", "signin", script)
	b.sees("Access token")
}
