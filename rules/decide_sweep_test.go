package rules

import (
	"time"

	"github.com/sojourn-queue/sojourn"
)

const lostText = "sojourn: the lease ended without a report"

func lost(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "lost", Reason: "lease_lost", Error: lostText}
}

func timedOut(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "timed_out", Reason: "beat", Error: "nothing came"}
}

var lostEvent = Event{Type: EventLeaseEnded}
var timeoutEvent = Event{Type: EventTimedOut, Reason: "beat", Error: "nothing came"}

func failsOnLoss(r *Row) { r.Policy.OnLost = sojourn.Fail }

// What the sweep ends: tr:W1-W8.
var sweepCases = []decideCase{
	{tr: "W1", when: "the first loss: ready with its old run_at, the answer stays",
		from: []Row{starts(), starts(hand(1, true)), resumes(), resumes(hand(2, true)), starts(failed(4)), resumes(pollsLost)}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Ready), closed, crashed(1), pollsAgain}, want: lost(KeepRunAt, 0)},
	{tr: "W1", when: "the second loss backs off, as after a first failure", from: []Row{starts(crashed(1)), resumes(crashed(1))}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, crashed(2)}, want: lost(RunAtDelay, 10*time.Second)},
	{tr: "W1", when: "unlimited crashes", from: []Row{starts(max2(5, sojourn.Unlimited), crashed(3))}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, crashed(4)}, want: lost(RunAtDelay, 40*time.Second)},
	{tr: "W1", when: "the third loss fails it",
		from: []Row{starts(crashed(2)), resumes(crashed(2)), starts(crashed(2), handler(true)), starts(crashed(2), max2(sojourn.Unlimited, 3))}, e: lostEvent,
		to: []rowMod{ends(sojourn.Failed), crashed(3)}, want: lost(KeepRunAt, 0)},
	{tr: "W1", when: "max_crashes 1", from: []Row{starts(max2(5, 1)), resumes(max2(5, 1))}, e: lostEvent,
		to: []rowMod{ends(sojourn.Failed), crashed(1)}, want: lost(KeepRunAt, 0)},
	{tr: "W1", when: "on_lost fail: at most once, also with unlimited crashes and a retry handler",
		from: []Row{starts(failsOnLoss), resumes(failsOnLoss), starts(failsOnLoss, handler(true)), starts(failsOnLoss, max2(5, sojourn.Unlimited))},
		e:    lostEvent, to: []rowMod{ends(sojourn.Failed), crashed(1)}, want: lost(KeepRunAt, 0)},
	{tr: "W1", when: "its retry handler decides, the first time too", from: []Row{starts(handler(true)), resumes(handler(true))}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Errored), closed, crashed(1)}, want: lost(KeepRunAt, 0)},
	{tr: "W1", when: "its retry handler decides, inside the budget",
		from: []Row{starts(handler(true), crashed(1)), starts(handler(true), crashed(1), failed(4))}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Errored), closed, crashed(2)}, want: lost(KeepRunAt, 0)},

	{tr: "W2", when: "a lost decision: errored again, counted", from: []Row{decides(), decides(hand(0, false)), decides(failsOnLoss)}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Errored), crashed(1)}, want: lost(KeepRunAt, 0)},
	{tr: "W2", when: "unlimited crashes", from: []Row{decides(crashed(99), max2(5, sojourn.Unlimited))}, e: lostEvent,
		to: []rowMod{leaves(sojourn.Errored), crashed(100)}, want: lost(KeepRunAt, 0)},
	{tr: "W2", when: "the third loss fails it", from: []Row{decides(crashed(2)), decides(crashed(2), hand(0, false))}, e: lostEvent,
		to: []rowMod{ends(sojourn.Failed), crashed(3)}, want: lost(KeepRunAt, 0)},

	{tr: "W3", when: "a lost poll: awaits on, counted, the attempt and its weight stay",
		from: []Row{polls(), polls(weighs(0), holds(0)), polls(failsOnLoss), polls(handler(true))}, e: lostEvent,
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }, crashed(1)}, want: lost(KeepRunAt, 0)},
	{tr: "W3", when: "at max_crashes this wait is polled no more", from: []Row{polls(crashed(2)), polls(crashed(2), failed(4))}, e: lostEvent,
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }, crashed(3), pollsLost}, want: lost(KeepRunAt, 0)},
	{tr: "W3", when: "a later wait whose first poll is lost: the count stays in its bound", from: []Row{polls(crashed(3)), polls(crashed(3), failed(4))},
		e: lostEvent, to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }, pollsLost}, want: lost(KeepRunAt, 0)},
	{tr: "W3", when: "rules:B11 the next poll comes later", from: []Row{polls(polledBefore(1))}, e: lostEvent,
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }, crashed(1), polledBefore(2)}, want: lostPoll(40 * time.Second)},
	{tr: "W3", when: "unlimited crashes", from: []Row{polls(crashed(99), max2(5, sojourn.Unlimited))}, e: lostEvent,
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }, crashed(100)}, want: lost(KeepRunAt, 0)},

	{tr: "W4", when: "the wait ends without an answer: the stored backoff; the wait stays for a late one",
		from: []Row{awaits(), awaits(pollsLost, crashed(2)), awaits(waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}))}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1), pollsAgain}, want: timedOut(RunAtDelay, 10*time.Second)},
	{tr: "W4", when: "the backoff grows", from: []Row{awaits(failed(1), crashed(2))}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(2)}, want: timedOut(RunAtDelay, 20*time.Second)},
	{tr: "W4", when: "its retry handler decides", from: []Row{awaits(handler(true)), awaits(handler(true), crashed(2))}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Errored), closed, failed(1)}, want: timedOut(KeepRunAt, 0)},
	{tr: "W4", when: "the last attempt", from: []Row{awaits(failed(4)), awaits(failed(4), handler(true)), awaits(failed(4), max2(5, sojourn.Unlimited))},
		e: timeoutEvent, to: []rowMod{ends(sojourn.Failed), failed(5)}, want: timedOut(KeepRunAt, 0)},
	{tr: "W4", when: "max_attempts 1", from: []Row{awaits(max2(1, 3))}, e: timeoutEvent,
		to: []rowMod{ends(sojourn.Failed), failed(1)}, want: timedOut(KeepRunAt, 0)},
	{tr: "W4", when: "unlimited attempts", from: []Row{awaits(max2(sojourn.Unlimited, 3), failed(9))}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(10)}, want: timedOut(RunAtDelay, time.Hour)},
	{tr: "W4", when: "on_lost fail is about leases", from: []Row{awaits(failsOnLoss)}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: timedOut(RunAtDelay, 10*time.Second)},

	{tr: "W5", when: "while it runs: a failure, not a crash; the answer stays",
		from: []Row{starts(), starts(hand(1, true)), resumes(), resumes(hand(2, true)), polls(), polls(pollsLost)}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1), pollsAgain}, want: timedOut(RunAtDelay, 10*time.Second)},
	{tr: "W5", when: "its retry handler decides", from: []Row{starts(handler(true)), resumes(handler(true)), polls(handler(true))}, e: timeoutEvent,
		to: []rowMod{leaves(sojourn.Errored), closed, failed(1)}, want: timedOut(KeepRunAt, 0)},
	{tr: "W5", when: "the last attempt", from: []Row{starts(failed(4)), resumes(failed(4)), polls(failed(4), handler(true))}, e: timeoutEvent,
		to: []rowMod{ends(sojourn.Failed), failed(5)}, want: timedOut(KeepRunAt, 0)},

	{tr: "W6", when: "the deadline ends it from any live state, without retry handler or backoff", from: liveRows,
		e: Event{Type: EventDeadline, Error: "too late"}, to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "deadline", Reason: "deadline", Error: "too late"}},
	{tr: "W6", when: "an answer that no handler was given becomes late", from: unseenRows, e: Event{Type: EventDeadline}, to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "deadline", Reason: "deadline", HandLate: true}},

	{tr: "W7", when: "nobody came to decide: the stored backoff",
		from: []Row{errored(), errored(hand(0, false)), errored(failed(0), crashed(1))}, e: Event{Type: EventDecideOverdue},
		to: []rowMod{is(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Delay: 10 * time.Second, Outcome: "decided"}},
	{tr: "W7", when: "failures and crashes add up in the backoff", from: []Row{errored(failed(1), crashed(2))}, e: Event{Type: EventDecideOverdue},
		to: []rowMod{is(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Delay: 40 * time.Second, Outcome: "decided"}},

	{tr: "W8", when: "resumed too long: plain ready; run_at, attempt and answer are kept",
		from: []Row{resumedRow(), resumedRow(hand(2, false)), resumedRow(weighs(0), holds(0)), resumedRow(failed(1), crashed(1))},
		e:    Event{Type: EventResumeOverdue}, to: []rowMod{func(r *Row) { r.Resumed, r.Held = false, 0 }}},
}
