package rules

import (
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Waiting, claims and what an operator does: tr:S1, tr:S2, tr:S6, tr:C1-C5, tr:O1, tr:O3, tr:O10.
var claimCases = []decideCase{
	{tr: "S1", when: "due, fresh or for the retry; a response in hand stays",
		from: []Row{rowOf(is(sojourn.Scheduled)), retries(sojourn.Scheduled), retries(sojourn.Scheduled, hand(1, true)), retries(sojourn.Scheduled, attempt(2), hand(2, false))},
		e:    Event{Type: EventDue}, to: []rowMod{is(sojourn.Ready)}},

	{tr: "S2", when: "found outside its windows: no attempt is counted, an open one and a response in hand stay",
		from: []Row{rowOf(), retries(sojourn.Ready), retries(sojourn.Ready, attempt(2), hand(1, true)), retries(sojourn.Ready, hand(1, false))},
		e:    Event{Type: EventWindowClosed}, to: []rowMod{is(sojourn.Scheduled)}, want: Transition{RunAt: RunAtOpening}},

	{tr: "C1", when: "the first attempt",
		from: []Row{rowOf()}, e: Event{Type: EventClaimed}, to: []rowMod{runs(sojourn.PurposeStart), attempt(1), holds(3)}},
	{tr: "C1", when: "weight 0 holds nothing",
		from: []Row{rowOf(weighs(0))}, e: Event{Type: EventClaimed}, to: []rowMod{runs(sojourn.PurposeStart), attempt(1), holds(0)}},
	{tr: "C1", when: "the worker's retry handler is stamped on the job",
		from: []Row{rowOf()}, e: Event{Type: EventClaimed, RetryHandler: true},
		to: []rowMod{runs(sojourn.PurposeStart), attempt(1), holds(3), handler(true)}},
	{tr: "C1", when: "a worker without the handler takes the stamp away",
		from: []Row{retries(sojourn.Ready, handler(true))}, e: Event{Type: EventClaimed},
		to: []rowMod{runs(sojourn.PurposeStart), attempt(2), holds(3), handler(false)}},
	{tr: "C1", when: "a retry that has taken a late response gives it to the handler",
		from: []Row{retries(sojourn.Ready, hand(1, false)), retries(sojourn.Ready, hand(1, true))}, e: Event{Type: EventClaimed},
		to: []rowMod{runs(sojourn.PurposeStart), attempt(2), holds(3), hand(1, true)}},
	{tr: "C1", when: "after losses the count goes on",
		from: []Row{retries(sojourn.Ready, attempt(4), closed, failed(1), crashed(2))}, e: Event{Type: EventClaimed},
		to: []rowMod{runs(sojourn.PurposeStart), attempt(5), holds(3)}},

	{tr: "S6", when: "put off by a gate: no attempt, no history", from: []Row{rowOf(), retries(sojourn.Ready), retries(sojourn.Ready, hand(1, false))},
		e: Event{Type: EventPutOff, Delay: time.Hour}, to: []rowMod{is(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Delay: time.Hour}},

	{tr: "C2", when: "snoozed or released: the attempt goes on",
		from: []Row{retries(sojourn.Ready, attempt(1)), retries(sojourn.Ready, attempt(1), waitsFor(sojourn.Wait{Keys: []string{"a", "b"}}))},
		e:    Event{Type: EventClaimed}, to: []rowMod{runs(sojourn.PurposeStart), holds(3)}},
	{tr: "C2", when: "after W8 the answer is given at last",
		from: []Row{retries(sojourn.Ready, attempt(1), hand(2, false))}, e: Event{Type: EventClaimed, RetryHandler: true},
		to: []rowMod{runs(sojourn.PurposeStart), holds(3), hand(2, true), handler(true)}},

	{tr: "C3", when: "resumed: the weight is held already, the answer is given",
		from: []Row{resumedRow(), resumedRow(hand(1, true)), resumedRow(failed(2), crashed(1))},
		e:    Event{Type: EventClaimed},
		to:   []rowMod{runs(sojourn.PurposeResume), hand(1, true), func(r *Row) { r.Resumed = false }}},
	{tr: "C3", when: "of weight 0",
		from: []Row{resumedRow(weighs(0), holds(0))}, e: Event{Type: EventClaimed, RetryHandler: true},
		to: []rowMod{runs(sojourn.PurposeResume), hand(1, true), handler(true), func(r *Row) { r.Resumed = false }}},

	{tr: "C4", when: "to decide only: no weight, no attempt, nothing given",
		from: []Row{errored(), errored(hand(0, false)), errored(hand(1, false)), errored(failed(0), crashed(1))},
		e:    Event{Type: EventClaimed, RetryHandler: true}, to: []rowMod{runs(sojourn.PurposeDecide)}},

	{tr: "C5", when: "to poll: the attempt and its weight go on",
		from: []Row{awaits(), awaits(weighs(0), holds(0)), awaits(waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}))},
		e:    Event{Type: EventClaimed}, to: []rowMod{runs(sojourn.PurposePoll)}},
}

var liveRows = []Row{
	rowOf(is(sojourn.Blocked)), rowOf(is(sojourn.Scheduled)), rowOf(), retries(sojourn.Scheduled), retries(sojourn.Ready), retries(sojourn.Scheduled, attempt(1)),
	retries(sojourn.Ready, hand(1, true)), starts(), resumes(), starts(hand(2, true)), decides(), decides(hand(0, false)), polls(),
	awaits(), awaits(pollsLost), errored(), errored(hand(0, false)),
}

// unseenRows have a taken response that no handler has got: it becomes late when the job ends.
var unseenRows = []Row{resumedRow(), retries(sojourn.Ready, hand(1, false)), retries(sojourn.Scheduled, attempt(1), hand(2, false))}

var operatorCases = []decideCase{
	{tr: "O1", when: "cancel ends any live job at once, also a running one",
		from: liveRows, e: Event{Type: EventCancel, Reason: "by ann", Error: "not wanted"}, to: []rowMod{ends(sojourn.Cancelled)},
		want: Transition{Outcome: "cancelled", Reason: "by ann", Error: "not wanted"}},
	{tr: "O1", when: "cancel turns an answer that no handler was given into a late one",
		from: unseenRows, e: Event{Type: EventCancel}, to: []rowMod{ends(sojourn.Cancelled)},
		want: Transition{Outcome: "cancelled", HandLate: true}},
	{tr: "O1", when: "fail",
		from: liveRows, e: Event{Type: EventFail, Reason: "by ann", Error: "hopeless"}, to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "failed", Reason: "by ann", Error: "hopeless"}},
	{tr: "O1", when: "fail turns an answer that no handler was given into a late one",
		from: unseenRows, e: Event{Type: EventFail}, to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "failed", HandLate: true}},

	{tr: "O10", when: "release of a start by an operator: as the worker's own, nothing counted",
		from: []Row{starts(), starts(failed(2), crashed(1))}, e: Event{Type: EventRelease, Reason: "by ann"}, to: []rowMod{leaves(sojourn.Ready)},
		want: Transition{Outcome: "revoked", Reason: "by ann"}},
	{tr: "O10", when: "release of a resume keeps the weight and the answer",
		from: []Row{resumes()}, e: Event{Type: EventRelease}, to: []rowMod{leaves(sojourn.Ready), holds(3), func(r *Row) { r.Resumed, r.Given = true, false }},
		want: Transition{Outcome: "revoked"}},
	{tr: "O10", when: "release of a decision", from: []Row{decides(), decides(hand(0, false))}, e: Event{Type: EventRelease}, to: []rowMod{leaves(sojourn.Errored)},
		want: Transition{Outcome: "revoked"}},
	{tr: "O10", when: "release of a poll: it is due again at once", from: []Row{polls()}, e: Event{Type: EventRelease}, to: []rowMod{leaves(sojourn.Awaiting), holds(3)},
		want: Transition{Outcome: "revoked"}},

	{tr: "O3", when: "redrive starts a generation from nothing",
		from: []Row{
			rowOf(is(sojourn.Failed), claimed, attempt(5), closed, failed(5), crashed(2), handler(true)),
			rowOf(is(sojourn.Cancelled)),
			rowOf(is(sojourn.Cancelled), claimed, attempt(1), closed, crashed(1)),
		},
		e: Event{Type: EventRedrive, Reason: "by ann"},
		to: []rowMod{func(r *Row) {
			*r = Row{ID: r.ID, State: sojourn.Ready, Weight: r.Weight, Policy: r.Policy}
		}},
		want: Transition{RunAt: RunAtNow, Outcome: "redriven", Reason: "by ann"}},
}
