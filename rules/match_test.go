package rules

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// matchCase is one branch of tr:M1-M5, or one in which nothing happens (tr is empty).
type matchCase struct {
	tr   string
	when string
	from []Row
	kept []KeptResponse
	to   []rowMod // the case also sets keeps: the remaining kept responses
	want Transition
	take []int64
	used []int64
	late []int64
	gone []int64 // stale
}

func ok(seq int64, key string) KeptResponse { return KeptResponse{Seq: seq, Key: key} }
func bad(seq int64, key string) KeptResponse {
	return KeptResponse{Seq: seq, Key: key, Failed: true, Reason: "declined", Error: "no funds"}
}

func many(rs ...KeptResponse) []KeptResponse { return rs }

var (
	waitAny  = waitsFor(sojourn.Wait{Mode: sojourn.WaitAny, Keys: []string{"a", "b"}})
	waitAll  = waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}})
	waitOwn  = waitsFor(sojourn.Wait{})
	ownAll   = waitsFor(sojourn.Wait{Mode: sojourn.WaitAll})
	twice    = waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b", "a"}})
	wakes    = Transition{Outcome: "responded"}
	wakesNow = Transition{Outcome: "responded", RunAt: RunAtNow}
)

func toInbox(r *Row) { r.Policy.LateToInbox = new(true) }

// takes puts n responses into the job's hands, which ends its wait; no handler was given them.
func takes(n int32) rowMod { return func(r *Row) { r.InHand, r.Given, r.Waits = n, false, r.Waits+1 } }

// waited ends a wait by an answer.
func waited(r *Row) { r.Waits++ }

// waitsBefore is how many waits were answered before.
func waitsBefore(n int32) rowMod { return func(r *Row) { r.Waits = n } }

// linked is a response that came by the capability of a wait.
func linked(seq int64, wait int32) KeptResponse {
	return KeptResponse{Seq: seq, ByToken: true, Wait: wait}
}

func respondedBad(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "responded", Reason: "declined", Error: "no funds"}
}

// The job's own key is "own" in every case.
var matchCases = []matchCase{
	{tr: "M1", when: "its own key; the weight stays, the rest stays kept", from: []Row{awaits(waitOwn), awaits(ownAll), awaits(waitOwn, weighs(0), holds(0))},
		kept: many(ok(1, "own"), ok(2, "own")), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(1)}, want: wakes, take: []int64{1}},
	{tr: "M1", when: "one by id or token has no key and counts for any", from: []Row{awaits(waitOwn), awaits(waitAny)},
		kept: many(ok(5, "")), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(0)}, want: wakes, take: []int64{5}},
	{tr: "M1", when: "Any: the first that came, whatever the order of the keys", from: []Row{awaits(waitAny)},
		kept: many(ok(3, "other"), ok(4, "b"), ok(5, "a")), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(2)}, want: wakes, take: []int64{4}},
	{tr: "M1", when: "Any: a good one that came before an error", from: []Row{awaits(waitAny)},
		kept: many(ok(3, "a"), bad(4, "b")), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(1)}, want: wakes, take: []int64{3}},
	{tr: "M1", when: "All: one for each key, the first of each", from: []Row{awaits(waitAll)},
		kept: many(ok(3, "b"), ok(4, "b"), ok(5, "x"), ok(6, "a")), to: []rowMod{is(sojourn.Ready), resumed, takes(2), keeps(2)}, want: wakes, take: []int64{3, 6}},
	{tr: "M1", when: "All: a key named twice is one key", from: []Row{awaits(twice)},
		kept: many(ok(3, "b"), ok(4, "a")), to: []rowMod{is(sojourn.Ready), resumed, takes(2), keeps(0)}, want: wakes, take: []int64{3, 4}},
	{tr: "M1", when: "the retry handler and the budgets have no say", from: []Row{awaits(waitOwn, handler(true), failed(4), crashed(2), pollsLost)},
		kept: many(ok(1, "own")), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(0)}, want: wakes, take: []int64{1}},

	{tr: "M2", when: "an error response ends the attempt", from: []Row{awaits(waitOwn), awaits(waitOwn, weighs(0), holds(0))},
		kept: many(bad(1, "own"), ok(2, "own")), to: []rowMod{waited, leaves(sojourn.Scheduled), closed, failed(1), keeps(1)},
		want: respondedBad(RunAtDelay, 10*time.Second), used: []int64{1}},
	{tr: "M2", when: "spec:R5 an error response without a reason: the class of its text", from: []Row{awaits(waitOwn)},
		kept: many(KeptResponse{Seq: 1, Key: "own", Failed: true, Error: "account 4711 closed"}),
		to:   []rowMod{waited, leaves(sojourn.Scheduled), closed, failed(1), keeps(0)}, used: []int64{1},
		want: Transition{RunAt: RunAtDelay, Delay: 10 * time.Second, Outcome: "responded", Reason: "account # closed", Error: "account 4711 closed"}},
	{tr: "M2", when: "by id, against Any", from: []Row{awaits(waitOwn), awaits(waitAny)},
		kept: many(bad(1, "")), to: []rowMod{waited, leaves(sojourn.Scheduled), closed, failed(1), keeps(0)},
		want: respondedBad(RunAtDelay, 10*time.Second), used: []int64{1}},
	{tr: "M2", when: "All: an error under one of the keys, before the wait is complete", from: []Row{awaits(waitAll)},
		kept: many(ok(1, "a"), bad(2, "b"), ok(3, "b")), to: []rowMod{waited, leaves(sojourn.Scheduled), closed, failed(1), keeps(2)},
		want: respondedBad(RunAtDelay, 10*time.Second), used: []int64{2}},
	{tr: "M2", when: "its retry handler decides", from: []Row{awaits(waitOwn, handler(true))},
		kept: many(bad(1, "own"), ok(2, "own")), to: []rowMod{waited, leaves(sojourn.Errored), closed, failed(1), keeps(1)},
		want: respondedBad(KeepRunAt, 0), used: []int64{1}},
	{tr: "M2", when: "the last attempt: the rest becomes late", from: []Row{awaits(waitOwn, failed(4)), awaits(waitOwn, failed(4), handler(true))},
		kept: many(bad(1, "own"), ok(2, "own")), to: []rowMod{waited, ends(sojourn.Failed), failed(5)},
		want: Transition{Outcome: "responded", Reason: "declined", Error: "no funds", KeptLate: true}, used: []int64{1}},
	{tr: "M2", when: "the last attempt, and nothing is left over", from: []Row{awaits(waitOwn, max2(1, 3))},
		kept: many(bad(1, "own")), to: []rowMod{waited, ends(sojourn.Failed), failed(1)},
		want: Transition{Outcome: "responded", Reason: "declined", Error: "no funds"}, used: []int64{1}},

	{tr: "M3", when: "a retry that waits takes it, and is ready at once without weight",
		from: []Row{retries(sojourn.Scheduled), retries(sojourn.Ready), retries(sojourn.Scheduled, attempt(1)), retries(sojourn.Ready, attempt(1)), retries(sojourn.Scheduled, failed(4), crashed(2))},
		kept: many(ok(1, "own"), ok(2, "own")), to: []rowMod{is(sojourn.Ready), takes(1), keeps(1)}, want: wakesNow, take: []int64{1}},
	{tr: "M3", when: "it must satisfy the last wait", from: []Row{retries(sojourn.Scheduled, waitAll), retries(sojourn.Ready, waitAll)},
		kept: many(ok(1, "own"), ok(2, "b"), ok(3, "a")), to: []rowMod{is(sojourn.Ready), takes(2), keeps(1)}, want: wakesNow, take: []int64{2, 3}},
	{tr: "M3", when: "Any, by token", from: []Row{retries(sojourn.Scheduled, waitAny)},
		kept: many(ok(9, "")), to: []rowMod{is(sojourn.Ready), takes(1), keeps(0)}, want: wakesNow, take: []int64{9}},

	{tr: "M4", when: "errors for an attempt that is over, under whatever key; the rest is looked at next",
		from: []Row{retries(sojourn.Scheduled), retries(sojourn.Ready), retries(sojourn.Ready, attempt(1)), retries(sojourn.Scheduled, toInbox), retries(sojourn.Scheduled, hand(1, true))},
		kept: many(bad(1, "own"), ok(2, "own"), bad(3, "x")), to: []rowMod{keeps(1)}, late: []int64{1, 3}},

	{tr: "M1", when: "by the capability of this wait", from: []Row{awaits(waitOwn, waitsBefore(2)), awaits(waitAny, waitsBefore(2))},
		kept: many(linked(4, 2), linked(5, 2)), to: []rowMod{is(sojourn.Ready), resumed, takes(1), keeps(1)}, want: wakes, take: []int64{4}},
	{tr: "M3", when: "by the capability of the last wait", from: []Row{retries(sojourn.Scheduled, waitsBefore(1)), retries(sojourn.Ready, waitsBefore(1))},
		kept: many(linked(4, 1)), to: []rowMod{is(sojourn.Ready), takes(1), keeps(0)}, want: wakesNow, take: []int64{4}},

	{tr: "M5", when: "answers by capabilities of waits that were answered; the rest is looked at next",
		from: []Row{awaits(waitOwn, waitsBefore(2)), resumedRow(waitsBefore(2)), starts(waitsBefore(2)), resumes(waitsBefore(2)), polls(waitOwn, waitsBefore(2)),
			errored(waitsBefore(2)), retries(sojourn.Scheduled, waitsBefore(2)), retries(sojourn.Ready, waitsBefore(2)), retries(sojourn.Scheduled, toInbox, waitsBefore(2))},
		kept: many(linked(1, 1), ok(2, "own"), linked(3, 2), linked(4, 0), bad(5, "own")), to: []rowMod{keeps(3)}, gone: []int64{1, 4}},

	{when: "nothing kept", from: slices.Concat(liveRows, unseenRows)},
	{when: "under another key", from: []Row{awaits(waitOwn), retries(sojourn.Scheduled), retries(sojourn.Ready)}, kept: many(ok(1, "x"), ok(2, "y"))},
	{when: "an error under a key that the wait does not name", from: []Row{awaits(waitOwn), awaits(waitAny), awaits(waitAll)}, kept: many(bad(1, "x"))},
	{when: "All with a part of the keys", from: []Row{awaits(waitAll), retries(sojourn.Scheduled, waitAll)}, kept: many(ok(1, "a"), ok(2, "a"))},
	{when: "All without a key", from: []Row{awaits(waitAll), retries(sojourn.Scheduled, waitAll)}, kept: many(ok(1, ""), ok(2, ""))},
	{when: "late_to_inbox", from: []Row{retries(sojourn.Scheduled, toInbox), retries(sojourn.Ready, toInbox)}, kept: many(ok(1, "own"))},
	{when: "a response is in hand already", from: []Row{retries(sojourn.Scheduled, hand(1, true)), retries(sojourn.Ready, hand(1, false))}, kept: many(ok(1, "own"))},
	{when: "never claimed in this generation", from: []Row{rowOf(), rowOf(is(sojourn.Scheduled))}, kept: many(ok(1, "own"), bad(2, "own"))},
	{when: "resumed, running, errored, blocked", kept: many(ok(1, "own"), bad(2, "own"), linked(3, 0)),
		from: []Row{resumedRow(), starts(), resumes(), decides(), polls(waitOwn), errored(), rowOf(is(sojourn.Blocked))}},
}

func TestMatchWalksTheTable(t *testing.T) {
	for _, c := range matchCases {
		name := "tr:" + c.tr + "/" + c.when
		if c.tr == "" {
			name = "nothing/" + c.when
		}
		t.Run(name, func(t *testing.T) {
			for _, from := range c.from {
				from.Kept = int32(len(c.kept))
				checkMatch(t, c, from)
			}
		})
	}
}

func checkMatch(t *testing.T, c matchCase, from Row) {
	t.Helper()
	kept := slices.Clone(c.kept)
	before := rowAfter(from, nil)
	got := Match(from, "own", kept)
	if !reflect.DeepEqual(kept, c.kept) || !reflect.DeepEqual(from, before) {
		t.Error("Match changed what it was given")
	}
	if got.Found() != (c.tr != "") {
		t.Fatalf("from %s: Found = %v: %+v", from.State, got.Found(), got)
	}
	if c.tr == "" {
		if !reflect.DeepEqual(got, Matched{}) {
			t.Errorf("from %s: %+v, want nothing", from.State, got)
		}
		return
	}
	want := c.want
	want.Rule, want.To = c.tr, rowAfter(from, c.to)
	for _, d := range differences(got.Transition, want) {
		t.Errorf("from %s, resumed %v: %s", from.State, from.Resumed, d)
	}
	for _, d := range differences(Matched{Take: got.Take, UsedUp: got.UsedUp, Late: got.Late, Stale: got.Stale}, Matched{Take: c.take, UsedUp: c.used, Late: c.late, Stale: c.gone}) {
		t.Errorf("from %s: %s", from.State, d)
	}
}

// A job without a key is answered by id or token only, in every mode of the wait.
func TestMatchWithoutAKey(t *testing.T) {
	for _, wait := range []rowMod{waitOwn, ownAll} {
		from := awaits(wait, keeps(1))
		if m := Match(from, "", many(ok(1, ""))); m.Transition.Rule != "M1" {
			t.Errorf("wait %+v: %+v, want M1", from.Wait, m)
		}
	}
}
