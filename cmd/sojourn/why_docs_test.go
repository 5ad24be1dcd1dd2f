package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// held is a queue whose gates hold a job back, as docs/reference/gates.md shows it.
type held struct {
	gate    string     // its heading
	setup   [][]string // command lines
	claims  int        // jobs that a worker takes then
	fail    bool       // and fails
	finally [][]string // command lines after that
	ask     []string
}

// Each section of the page has the command that sets its gate, and what why says then. Job 1 is the
// first that was enqueued.
var heldCases = []held{
	{gate: "Pause", setup: [][]string{{"queue", "set", "calls", "--paused"}}, ask: []string{"why", "1"}},
	{gate: "Window", setup: [][]string{{"queue", "set", "calls", "--window", "sun 03:00:00-03:00:01 Europe/Berlin"}}, ask: []string{"why", "1"}},
	{gate: "Hold", setup: [][]string{{"queue", "set", "calls"}, {"queue", "hold", "calls", "--for", "10m", "--reason", "the partner is down"}}, ask: []string{"why", "1"}},
	{gate: "Breaker", setup: [][]string{{"queue", "set", "calls", "--breaker", "2"}}, claims: 2, fail: true, ask: []string{"why", "3"}},
	{gate: "Limit", setup: [][]string{{"queue", "set", "calls", "--limit", "2"}}, claims: 5, ask: []string{"why", "3"}},
	{gate: "Group limit", setup: [][]string{{"queue", "set", "calls", "--group-limit", "1"}}, claims: 5, ask: []string{"why", "4"}},
	{gate: "Share", setup: [][]string{{"queue", "set", "calls", "--limit", "10", "--share", "east=10%"}}, claims: 2, ask: []string{"why", "4"}},
	{gate: "Rate", setup: [][]string{{"queue", "set", "calls", "--rate", "2/h", "--rate-burst", "2"}}, claims: 5, ask: []string{"why", "3"}},
	{gate: "Throttler", setup: [][]string{{"queue", "set", "calls", "--throttle", `in_flight.jobs() < 2 ? start() : not_now("two calls at a time")`}}, claims: 5,
		ask: []string{"why", "4"}},
	{gate: "How they combine", setup: [][]string{{"queue", "set", "calls", "--limit", "10", "--share", "east=10%", "--rate", "3/h", "--rate-burst", "3"}}, claims: 2,
		finally: [][]string{{"queue", "hold", "calls", "--for", "10m", "--reason", "429"}}, ask: []string{"why", "4"}},
	{gate: "A whole queue", setup: [][]string{{"queue", "set", "calls", "--group-limit", "1", "--pause-kind", "fax"}, {"enqueue", "fax", "--queue", "calls"}}, claims: 5,
		ask: []string{"why", "--queue", "calls"}},
}

// TestPageOfGates runs what docs/reference/gates.md shows: each command line stands in its section,
// and the output is what the program writes, but for times.
func TestPageOfGates(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, h := range heldCases {
		t.Run(h.gate, func(t *testing.T) {
			want := h.play(t)
			// The answers of a throttler have a limit in real time. On a busy machine a claim may
			// reach it, and starts fewer jobs then.
			for try := 0; h.gate == "Throttler" && try < 20 && !strings.Contains(timeless(sections[h.gate]), timeless(want)); try++ {
				want = h.play(t)
			}
			if !strings.Contains(timeless(sections[h.gate]), timeless(want)) {
				t.Errorf("the section %q does not show\n%s", h.gate, want)
			}
			for _, args := range append(append(h.setup, h.finally...), h.ask) {
				if line := shell(args); args[0] != "enqueue" && line != "sojourn queue set calls" && !strings.Contains(sections[h.gate], line) {
					t.Errorf("the section %q does not show\n%s", h.gate, line)
				}
			}
		})
	}
}

var (
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z \([^)]*\)`)
	spaces = regexp.MustCompile(` +`)
)

// timeless leaves the times out, and the width of the columns that they widen.
func timeless(text string) string {
	return spaces.ReplaceAllString(moment.ReplaceAllString(text, "T"), " ")
}

func shell(args []string) string {
	line := "sojourn"
	for _, a := range args {
		line += " " + terminal.Quote(a)
	}
	return line
}

func (h held) play(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.db")
	must := func(args []string) string {
		t.Helper()
		code, out, errs := commandLine(t, append([]string{"--store", file}, args...)...)
		if code != cli.ExitOK {
			t.Fatal(args, errs)
		}
		return out
	}
	must(h.setup[0])
	for _, group := range []string{"east", "east", "north", "east", "west"} {
		must([]string{"enqueue", "call", "--queue", "calls", "--group", group})
	}
	for _, args := range h.setup[1:] {
		must(args)
	}
	c, err := sqlite.Open(file, sqlite.Rules(rule.Throttlers()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	r := driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"calls"}, Kinds: []string{"call", "fax"}, Max: max(h.claims, 1), Capacity: 100}
	jobs, err := driver.Of(c).Claim(ctx, r)
	if err != nil || h.claims == 0 && len(jobs) > 0 {
		t.Fatal(jobs, err)
	}
	for _, j := range jobs {
		if !h.fail {
			break
		}
		if _, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: j.Lease, Type: sojourn.OutcomeAbort, Reason: "http_503"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range h.finally {
		must(args)
	}
	return must(h.ask)
}
