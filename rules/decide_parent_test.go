package rules

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func blocked(open int32) Row {
	return rowOf(is(sojourn.Blocked), func(r *Row) { r.WaitsFor = open })
}

func waits(open int32) rowMod { return func(r *Row) { r.WaitsFor = open } }

func parent(s sojourn.State, f sojourn.OnFailure) Event {
	return Event{Type: EventParent, Parent: s, OnFailure: f}
}

var byDependency = Transition{Reason: "dependency", Error: "sojourn: a job that it depends on is failed"}

func endsWith(outcome, text string) Transition {
	t := byDependency
	t.Outcome, t.Error = outcome, text
	return t
}

// What the end of a job does to one that depends on it: tr:S3-S5.
var parentCases = []decideCase{
	{tr: "S3", when: "the last one completes", from: []Row{blocked(1)}, e: parent(sojourn.Completed, sojourn.FailOnFailure),
		to: []rowMod{is(sojourn.Ready), waits(0)}, want: Transition{Outcome: "unblocked"}},
	{tr: "S3", when: "another one still stands", from: []Row{blocked(3)}, e: parent(sojourn.Completed, ""), to: []rowMod{waits(2)}},
	{tr: "S3", when: "a failure is ignored", from: []Row{blocked(1)}, e: parent(sojourn.Failed, sojourn.IgnoreFailure),
		to: []rowMod{is(sojourn.Ready), waits(0)}, want: Transition{Outcome: "unblocked"}},
	{tr: "S3", when: "a cancel is ignored", from: []Row{blocked(2)}, e: parent(sojourn.Cancelled, sojourn.IgnoreFailure), to: []rowMod{waits(1)}},
	{tr: "S3", when: "the dependency is removed, whatever its on_failure", from: []Row{blocked(1)}, e: parent(0, sojourn.CancelOnFailure),
		to: []rowMod{is(sojourn.Ready), waits(0)}, want: Transition{Outcome: "unblocked"}},
	{tr: "S4", when: "wait is the default", from: []Row{blocked(1), blocked(2)}, e: parent(sojourn.Failed, "")},
	{tr: "S4", when: "wait, after a cancel", from: []Row{blocked(1), blocked(2)}, e: parent(sojourn.Cancelled, sojourn.WaitOnFailure)},
	{tr: "S5", when: "cancel, although others still stand", from: []Row{blocked(1), blocked(2)}, e: parent(sojourn.Failed, sojourn.CancelOnFailure),
		to: []rowMod{ends(sojourn.Cancelled)}, want: endsWith("cancelled", "sojourn: a job that it depends on is failed")},
	{tr: "S5", when: "fail", from: []Row{blocked(1), blocked(2)}, e: parent(sojourn.Cancelled, sojourn.FailOnFailure),
		to: []rowMod{ends(sojourn.Failed)}, want: endsWith("failed", "sojourn: a job that it depends on is cancelled")},
}

// Every order in which up to four dependencies end releases or ends the job exactly once, and
// leaves nothing counted: the walk over all outcomes of all of them. rules:G4
func TestEveryOrderOfParentsReleasesOnce(t *testing.T) {
	on := []sojourn.OnFailure{sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure}
	states := []sojourn.State{0, sojourn.Completed, sojourn.Failed, sojourn.Cancelled}
	var walk func(r Row, left, standing, depth int)
	walk = func(r Row, left, standing, depth int) {
		if r.State != sojourn.Blocked {
			if _, err := Decide(r, parent(sojourn.Completed, "")); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
				t.Fatalf("a job that is %s took one more end of a parent: %v", r.State, err)
			}
			if r.WaitsFor != 0 || r.State == sojourn.Ready && left+standing > 0 {
				t.Fatalf("%s with %d counted, and %d to come", r.State, r.WaitsFor, left+standing)
			}
			return
		}
		if int(r.WaitsFor) != left+standing {
			t.Fatalf("counts %d open dependencies, has %d", r.WaitsFor, left+standing)
		}
		if left == 0 || depth == 0 {
			return
		}
		for _, f := range on {
			for _, s := range states {
				tr, err := Decide(r, parent(s, f))
				if err != nil {
					t.Fatal(err)
				}
				stays := 0
				if tr.Rule == "S4" {
					stays = 1 // a redrive of that parent will end again
				}
				walk(tr.To, left-1, standing+stays, depth-1)
			}
		}
	}
	for n := 1; n <= 4; n++ {
		walk(blocked(int32(n)), n, 0, n)
	}
}
