package rules

import (
	"testing"
	"time"

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

// awaitsChildren is a job whose attempt waits for children.
func awaitsChildren(open int32, mods ...rowMod) Row {
	return rowOf(append([]rowMod{is(sojourn.Blocked), claimed, attempt(1), waits(open)}, mods...)...)
}

func childrenDone(done bool) rowMod { return func(r *Row) { r.ChildrenDone = done } }

func finishWith(open int32, o sojourn.Outcome) Event {
	e := finish(o)
	e.Open = open
	return e
}

// A stage with dependencies, and the wait for children: tr:F16, tr:F17, tr:S8, tr:W11.
var childCases = []decideCase{
	{tr: "F16", when: "with open dependencies", from: []Row{starts(), starts(hand(1, true), failed(2), childrenDone(true)), resumes()},
		e: finishWith(2, sojourn.Outcome{Type: sojourn.OutcomeAdvance, Delay: time.Minute}),
		to: []rowMod{leaves(sojourn.Blocked), waits(2), attempt(0), closed, failed(0), hand(0, false), waitsFor(sojourn.Wait{}), childrenDone(false),
			func(r *Row) { r.Stage, r.Waits = 1, 1 }}, want: Transition{Outcome: "advance", RunAt: RunAtDelay, Delay: time.Minute}},
	{tr: "F17", when: "children are open: no weight, the attempt and what is in hand stay", from: []Row{starts(), starts(hand(1, true)), resumes(), starts(childrenDone(true))},
		e:  finishWith(3, sojourn.Outcome{Type: sojourn.OutcomeAwaitJobs, Wait: sojourn.Wait{Within: time.Hour}}),
		to: []rowMod{leaves(sojourn.Blocked), waits(3), childrenDone(false)}, want: Transition{Outcome: "await_jobs", Within: time.Hour}},
	{tr: "F17", when: "no child is open: it goes on at once", from: []Row{starts(), starts(hand(1, true)), resumes(), starts(childrenDone(true))},
		e:  finishWith(0, sojourn.Outcome{Type: sojourn.OutcomeAwaitJobs, Wait: sojourn.Wait{Within: time.Hour}}),
		to: []rowMod{leaves(sojourn.Ready), childrenDone(true)}, want: Transition{Outcome: "await_jobs"}},
	{tr: "S8", when: "the last child ends", from: []Row{awaitsChildren(1), awaitsChildren(1, hand(1, true))}, e: parent(sojourn.Failed, sojourn.IgnoreFailure),
		to: []rowMod{is(sojourn.Ready), waits(0), childrenDone(true)}, want: Transition{Outcome: "unblocked"}},
	{tr: "S8", when: "another child is open", from: []Row{awaitsChildren(3)}, e: parent(sojourn.Completed, sojourn.IgnoreFailure), to: []rowMod{waits(2)}},
	{tr: "W11", when: "the wait for children is over", from: []Row{awaitsChildren(2), awaitsChildren(1, hand(1, true))}, e: timeoutEvent,
		to: []rowMod{is(sojourn.Scheduled), waits(0), closed, failed(1)}, want: timedOut(RunAtDelay, 10*time.Second)},
	{tr: "W11", when: "its retry handler decides", from: []Row{awaitsChildren(2, handler(true))}, e: timeoutEvent,
		to: []rowMod{is(sojourn.Errored), waits(0), closed, failed(1)}, want: timedOut(KeepRunAt, 0)},
	{tr: "W11", when: "the budget is used up", from: []Row{awaitsChildren(2, failed(4))}, e: timeoutEvent,
		to: []rowMod{ends(sojourn.Failed), failed(5)}, want: timedOut(KeepRunAt, 0)},
	{tr: "F2", when: "an error keeps that the children are done", from: []Row{starts(childrenDone(true))}, e: finish(sojourn.Outcome{Type: sojourn.OutcomeError, Reason: "r"}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: Transition{Outcome: "error", Reason: "r", RunAt: RunAtDelay, Delay: 10 * time.Second}},
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
