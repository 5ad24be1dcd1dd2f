package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// The rows of the transition table that Decide and Match implement. The others belong to the store:
// they need a second job, a clock or the inbox.
var rowsInScope = []string{
	"S1", "S2", "S3", "S4", "S5", "S6", "S8",
	"C1", "C2", "C3", "C4", "C5",
	"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F13", "F14", "F16", "F17",
	"D1", "D2", "D3",
	"P1", "P2", "P3", "P4",
	"M1", "M2", "M3", "M4", "M5",
	"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W11",
	"O1", "O3", "O10",
}

// decideCase is one row of the table, or one of its branches: to lists what changes, and everything
// else must stay as it was.
type decideCase struct {
	tr   string // the row, such as "F2"
	when string // the branch
	from []Row  // each must give the same answer
	e    Event
	to   []rowMod
	want Transition // all but Rule and To
}

// rowMod changes a row. Cases use rowMods for their rows and for the expected changes.
type rowMod func(*Row)

func rowOf(mods ...rowMod) Row {
	r := Row{ID: 7, State: sojourn.Ready, Weight: 3, Policy: plainPolicy()}
	for _, m := range mods {
		m(&r)
	}
	return r
}

// plainPolicy has the default budgets and a backoff without chance: 10 s, 20 s, 40 s.
func plainPolicy() sojourn.Policy {
	p := sojourn.Policy{Backoff: sojourn.Backoff{First: 10 * time.Second, Factor: 2, Jitter: -1}}
	j := sojourn.Job{Policy: p}
	j.Resolve(sojourn.Policy{})
	return j.Policy
}

func is(s sojourn.State) rowMod { return func(r *Row) { r.State = s } }
func runs(p sojourn.Purpose) rowMod {
	return func(r *Row) { r.State, r.Purpose, r.Claimed = sojourn.Running, p, true }
}
func attempt(n int32) rowMod          { return func(r *Row) { r.Attempt, r.AttemptOpen = n, true } }
func closed(r *Row)                   { r.AttemptOpen = false }
func holds(n int32) rowMod            { return func(r *Row) { r.Held = n } }
func weighs(n int32) rowMod           { return func(r *Row) { r.Weight = n } }
func failed(n int32) rowMod           { return func(r *Row) { r.Failures = n } }
func crashed(n int32) rowMod          { return func(r *Row) { r.Crashes = n } }
func keeps(n int32) rowMod            { return func(r *Row) { r.Kept = n } }
func claimed(r *Row)                  { r.Claimed = true }
func resumed(r *Row)                  { r.Resumed = true }
func handler(has bool) rowMod         { return func(r *Row) { r.RetryHandler = has } }
func pollsLost(r *Row)                { r.NoPoll = true }
func pollsAgain(r *Row)               { r.NoPoll = false }
func waitsFor(w sojourn.Wait) rowMod  { return func(r *Row) { r.Wait = w } }
func hand(n int32, given bool) rowMod { return func(r *Row) { r.InHand, r.Given = n, given } }
func max2(attempts, crashes int32) rowMod {
	return func(r *Row) { r.Policy.MaxAttempts, r.Policy.MaxCrashes = attempts, crashes }
}

// leaves is what every end of a step or a rest has in common: no lease, no weight, no privilege.
func leaves(to sojourn.State) rowMod {
	return func(r *Row) { r.State, r.Purpose, r.Held, r.Resumed = to, sojourn.NoPurpose, 0, false }
}

// ends makes a job final: nothing of it is open any more.
func ends(to sojourn.State) rowMod {
	return func(r *Row) {
		leaves(to)(r)
		r.AttemptOpen, r.NoPoll, r.Wait, r.Kept, r.InHand, r.Given, r.WaitsFor = false, false, sojourn.Wait{}, 0, 0, false, 0
	}
}

// starts and resumes run the handler, without and with a taken response; decides and polls are the
// other two purposes.
func starts(mods ...rowMod) Row {
	return rowOf(append([]rowMod{runs(sojourn.PurposeStart), attempt(1), holds(3)}, mods...)...)
}

func resumes(mods ...rowMod) Row {
	return rowOf(append([]rowMod{runs(sojourn.PurposeResume), attempt(1), holds(3), hand(1, true), waitsFor(sojourn.Wait{Within: time.Hour})}, mods...)...)
}

func decides(mods ...rowMod) Row {
	return rowOf(append([]rowMod{runs(sojourn.PurposeDecide), attempt(1), closed, failed(1), handler(true), hand(1, true)}, mods...)...)
}

func polls(mods ...rowMod) Row {
	return rowOf(append([]rowMod{runs(sojourn.PurposePoll), attempt(1), holds(3), waitsFor(sojourn.Wait{Within: time.Hour})}, mods...)...)
}

// pollsOften polls after 10 s, 20 s, 40 s and so on.
var pollsOften = sojourn.Backoff{First: 10 * time.Second, Factor: 2, Jitter: -1}

func polledBefore(n int32) rowMod {
	return waitsFor(sojourn.Wait{Within: time.Hour, Poll: pollsOften, Polls: n})
}

func lostPoll(next time.Duration) Transition {
	t := lost(KeepRunAt, 0)
	t.Poll = next
	return t
}

func awaits(mods ...rowMod) Row {
	return rowOf(append([]rowMod{is(sojourn.Awaiting), claimed, attempt(1), holds(3), waitsFor(sojourn.Wait{Within: time.Hour})}, mods...)...)
}

func resumedRow(mods ...rowMod) Row {
	return rowOf(append([]rowMod{is(sojourn.Ready), resumed, claimed, attempt(1), holds(3), hand(1, false)}, mods...)...)
}

func errored(mods ...rowMod) Row {
	return rowOf(append([]rowMod{is(sojourn.Errored), claimed, attempt(1), closed, failed(1), handler(true), hand(1, true)}, mods...)...)
}

func retries(s sojourn.State, mods ...rowMod) Row {
	return rowOf(append([]rowMod{is(s), claimed, attempt(1), closed, failed(1)}, mods...)...)
}

func finish(o sojourn.Outcome) Event { return Event{Type: EventFinished, Outcome: &o} }

func rowAfter(r Row, mods []rowMod) Row {
	r.Wait.Keys = slices.Clone(r.Wait.Keys)
	for _, m := range mods {
		m(&r)
	}
	return r
}

// differences lists the fields of two structs that differ, so that a failure message shows the
// cause.
func differences(got, want any) []string {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	var out []string
	for i := range g.NumField() {
		name, a, b := g.Type().Field(i).Name, g.Field(i).Interface(), w.Field(i).Interface()
		if r, ok := a.(Row); ok {
			for _, d := range differences(r, b) {
				out = append(out, "To."+d)
			}
		} else if !reflect.DeepEqual(a, b) {
			out = append(out, fmt.Sprintf("%s = %v, want %v", name, a, b))
		}
	}
	return out
}

func allDecideCases() []decideCase {
	return slices.Concat(claimCases, finishCases, stepCases, sweepCases, operatorCases, parentCases, childCases)
}

// Every branch is walked with nothing kept, and with two kept responses, which only a final state
// turns into late ones.
func TestDecideWalksTheTable(t *testing.T) {
	for _, c := range allDecideCases() {
		t.Run("tr:"+c.tr+"/"+c.when, func(t *testing.T) {
			for _, from := range c.from {
				for _, kept := range []int32{0, 2} {
					from.Kept = kept
					checkDecide(t, c, from)
				}
			}
		})
	}
}

func checkDecide(t *testing.T, c decideCase, from Row) {
	t.Helper()
	want := c.want
	want.Rule, want.To = c.tr, rowAfter(from, c.to)
	want.KeptLate = want.To.State.Final() && from.Kept > 0
	before := rowAfter(from, nil)
	var said sojourn.Outcome
	if c.e.Outcome != nil {
		said = *c.e.Outcome
	}
	got, err := Decide(from, c.e)
	if err != nil {
		t.Fatalf("from %s %s: %v", from.State, from.Purpose, err)
	}
	for _, d := range differences(got, want) {
		t.Errorf("from %s %s, kept %d: %s", from.State, from.Purpose, from.Kept, d)
	}
	if !reflect.DeepEqual(from, before) {
		t.Errorf("Decide changed the row it was given: %+v, was %+v", from, before)
	}
	if c.e.Outcome != nil && !reflect.DeepEqual(*c.e.Outcome, said) {
		t.Errorf("Decide changed the outcome it was given: %+v, was %+v", *c.e.Outcome, said)
	}
}

// Every row in scope is covered, and every rule that the code names is in the table.
func TestDecideAndMatchWalkEveryRow(t *testing.T) {
	walked := map[string]bool{}
	for _, c := range allDecideCases() {
		walked[c.tr] = true
	}
	for _, c := range matchCases {
		walked[c.tr] = true
	}
	for _, row := range rowsInScope {
		if !walked[row] {
			t.Errorf("no case walks tr:%s", row)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	rule := regexp.MustCompile(`"([SCFDPMWO][0-9]{1,2})"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rule.FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
			if !slices.Contains(rowsInScope, m[1]) {
				t.Errorf("%s names the rule %s, which is not among the rows in scope", file, m[1])
			}
		}
	}
	for _, row := range rowsInScope {
		if !named[row] {
			t.Errorf("no code names the rule %s", row)
		}
	}
}
