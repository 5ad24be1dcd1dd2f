package rules

import (
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Steps that ran the handler. Resumed ones have a taken response, fresh ones have none; most rows
// treat both in the same way.
var ranHandler = []Row{starts(), starts(hand(1, true)), resumes(), resumes(hand(2, true)), starts(crashed(2)), resumes(handler(true))}

var boom = sojourn.Outcome{Type: sojourn.OutcomeError, Reason: "net.OpError", Text: "connection refused"}

func boomWith(v sojourn.Verdict) Event {
	o := boom
	o.Verdict = v
	return finish(o)
}

func boomThen(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "error", Reason: boom.Reason, Error: boom.Text}
}

// advances is the next stage: everything is as in a new job, but for what the whole generation has.
func advances(r *Row) {
	r.Stage, r.Waits, r.Wait, r.RetryHandler = r.Stage+1, r.Waits+1, sojourn.Wait{}, false
	r.Attempt, r.AttemptOpen, r.Failures, r.Crashes, r.NoPoll, r.InHand, r.Given = 0, false, 0, 0, false, 0, false
}

func stage(n int32) rowMod { return func(r *Row) { r.Stage = n } }

// The finish of a step with purpose start or resume: tr:F1-F11, tr:F13, tr:F14, tr:F16. tr:F12 and
// tr:F15 belong to the store.
var finishCases = []decideCase{
	{tr: "F1", when: "completed", from: ranHandler, e: finish(sojourn.Outcome{Type: sojourn.OutcomeCompleted, Result: []byte("x")}),
		to: []rowMod{ends(sojourn.Completed)}, want: Transition{Outcome: "completed"}},

	{tr: "F2", when: "an error: the stored backoff; the answer in hand stays",
		from: ranHandler, e: finish(boom),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: boomThen(RunAtDelay, 10*time.Second)},
	{tr: "F2", when: "the backoff grows with the failures",
		from: []Row{starts(attempt(3), failed(2)), resumes(attempt(3), failed(2))}, e: finish(boom),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(3)}, want: boomThen(RunAtDelay, 40*time.Second)},
	{tr: "F2", when: "the last failure inside the budget",
		from: []Row{starts(failed(3)), starts(failed(3), max2(5, 1)), starts(failed(3), max2(5, sojourn.Unlimited))}, e: finish(boom),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(4)}, want: boomThen(RunAtDelay, 80*time.Second)},
	{tr: "F2", when: "unlimited attempts, the backoff at its cap",
		from: []Row{starts(max2(sojourn.Unlimited, 3), failed(1000))}, e: finish(boom),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1001)}, want: boomThen(RunAtDelay, time.Hour)},
	{tr: "F2", when: "the largest budget",
		from: []Row{starts(max2(math.MaxInt32, 3), failed(math.MaxInt32-2))}, e: finish(boom),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(math.MaxInt32 - 1)}, want: boomThen(RunAtDelay, time.Hour)},
	{tr: "F2", when: "the verdict's delay", from: ranHandler, e: boomWith(sojourn.Verdict{Delay: 3 * time.Minute}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: boomThen(RunAtDelay, 3*time.Minute)},
	{tr: "F2", when: "the verdict Now", from: ranHandler, e: boomWith(sojourn.Verdict{Delay: sojourn.Now}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: boomThen(RunAtDelay, 0)},
	{tr: "F2", when: "a moment that has passed is now too, never the backoff", from: ranHandler, e: boomWith(sojourn.Verdict{Delay: -3 * time.Second}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: boomThen(RunAtDelay, 0)},
	{tr: "F2", when: "again with nothing in hand is an ordinary error", from: []Row{starts()}, e: boomWith(sojourn.Verdict{Again: true}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)}, want: boomThen(RunAtDelay, 10*time.Second)},

	{tr: "F3", when: "the last attempt",
		from: []Row{starts(failed(4)), resumes(failed(4)), starts(failed(4), handler(true))}, e: finish(boom),
		to: []rowMod{ends(sojourn.Failed), failed(5)}, want: boomThen(KeepRunAt, 0)},
	{tr: "F3", when: "max_attempts 1: no retry", from: []Row{starts(max2(1, 3)), resumes(max2(1, 3))}, e: finish(boom),
		to: []rowMod{ends(sojourn.Failed), failed(1)}, want: boomThen(KeepRunAt, 0)},
	{tr: "F3", when: "the budget was lowered below what is used up", from: []Row{starts(max2(2, 3), failed(3))}, e: finish(boom),
		to: []rowMod{ends(sojourn.Failed), failed(4)}, want: boomThen(KeepRunAt, 0)},
	{tr: "F3", when: "again on the last attempt", from: []Row{resumes(failed(4))}, e: boomWith(sojourn.Verdict{Again: true}),
		to: []rowMod{ends(sojourn.Failed), failed(5)}, want: boomThen(KeepRunAt, 0)},
	{tr: "F3", when: "the verdict final, also with unlimited attempts",
		from: append([]Row{starts(max2(sojourn.Unlimited, sojourn.Unlimited))}, ranHandler...), e: boomWith(sojourn.Verdict{Final: true, Delay: time.Minute}),
		to: []rowMod{ends(sojourn.Failed), failed(1)}, want: boomThen(KeepRunAt, 0)},

	{tr: "F3", when: "spec:R5 a worker that gives no reason: the class of its text", from: []Row{starts(max2(1, 3)), resumes(max2(1, 3))},
		e: finish(sojourn.Outcome{Type: sojourn.OutcomeError, Text: "order 42 not found"}), to: []rowMod{ends(sojourn.Failed), failed(1)},
		want: Transition{Outcome: "error", Reason: "order # not found", Error: "order 42 not found"}},

	{tr: "F4", when: "again puts the answer down", from: []Row{resumes(), resumes(hand(2, true)), starts(hand(1, true))},
		e: boomWith(sojourn.Verdict{Again: true}), to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1), hand(0, false)},
		want: boomThen(RunAtDelay, 10*time.Second)},
	{tr: "F4", when: "again with a delay", from: []Row{resumes()}, e: boomWith(sojourn.Verdict{Again: true, Delay: sojourn.Now}),
		to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1), hand(0, false)}, want: boomThen(RunAtDelay, 0)},

	{tr: "F5", when: "await: the weight stays, the answer is disposed of, the wait is new",
		from: append([]Row{starts(pollsLost, waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"old"}}))}, ranHandler...),
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}, Within: time.Minute}}),
		to: []rowMod{leaves(sojourn.Awaiting), holds(3), hand(0, false), pollsAgain,
			waitsFor(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}, Within: time.Minute})},
		want: Transition{Outcome: "await"}},
	{tr: "F5", when: "await its own key, of weight 0",
		from: []Row{starts(weighs(0), holds(0)), resumes(weighs(0), holds(0))}, e: finish(sojourn.Outcome{Type: sojourn.OutcomeAwait}),
		to: []rowMod{leaves(sojourn.Awaiting), hand(0, false), waitsFor(sojourn.Wait{})}, want: Transition{Outcome: "await"}},

	{tr: "F6", when: "a key of another job is an error of the attempt; the old wait and the answer stay",
		from: ranHandler, e: conflicting(), to: []rowMod{leaves(sojourn.Scheduled), closed, failed(1)},
		want: keyConflict(RunAtDelay, 10*time.Second)},
	{tr: "F6", when: "on the last attempt", from: []Row{starts(failed(4)), resumes(max2(1, 3))}, e: conflicting(),
		to:   []rowMod{func(r *Row) { n := r.Failures; ends(sojourn.Failed)(r); r.Failures = n + 1 }},
		want: keyConflict(KeepRunAt, 0)},

	{tr: "F7", when: "snooze: nothing is counted, the attempt and the answer stay", from: ranHandler,
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeSnooze, Delay: time.Minute}),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Delay: time.Minute, Outcome: "snooze"}},
	{tr: "F7", when: "snooze for no time", from: ranHandler, e: finish(sojourn.Outcome{Type: sojourn.OutcomeSnooze}),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Outcome: "snooze"}},

	{tr: "F14", when: "hold of its own queue: nothing is counted, the attempt, the answer and the place stay", from: ranHandler,
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeHold, Delay: time.Minute}),
		to: []rowMod{leaves(sojourn.Ready)}, want: Transition{Outcome: "hold"}},
	{tr: "F14", when: "hold of another queue: like a snooze", from: ranHandler, e: finish(sojourn.Outcome{Type: sojourn.OutcomeHold, Queue: "other", Delay: time.Minute}),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: Transition{RunAt: RunAtDelay, Delay: time.Minute, Outcome: "hold"}},

	{tr: "F8", when: "abort, whatever attempts remain", from: append([]Row{starts(max2(sojourn.Unlimited, 3))}, ranHandler...),
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeAbort, Reason: "declined", Text: "card declined"}),
		to: []rowMod{ends(sojourn.Failed)}, want: Transition{Outcome: "abort", Reason: "declined", Error: "card declined"}},

	{tr: "F8", when: "spec:R5 without any reason or text", from: ranHandler, e: finish(sojourn.Outcome{Type: sojourn.OutcomeAbort}),
		to: []rowMod{ends(sojourn.Failed)}, want: Transition{Outcome: "abort", Reason: "error"}},

	{tr: "F9", when: "cancel", from: ranHandler, e: finish(sojourn.Outcome{Type: sojourn.OutcomeCancelled, Reason: "obsolete", Text: "order gone"}),
		to: []rowMod{ends(sojourn.Cancelled)}, want: Transition{Outcome: "cancel", Reason: "obsolete", Error: "order gone"}},

	{tr: "F16", when: "advance: the next stage begins with nothing counted, and the capabilities of this one are over",
		from: append([]Row{starts(attempt(5), failed(4), stage(2), pollsLost), resumes(waited, handler(true))}, ranHandler...),
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeAdvance, Queue: "ship"}),
		to:   []rowMod{leaves(sojourn.Ready), advances}, want: Transition{RunAt: RunAtNow, Outcome: "advance"}},
	{tr: "F16", when: "advance with a delay and another weight", from: []Row{starts(), resumes()},
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeAdvance, Delay: time.Minute, Weight: new(int32(9))}),
		to: []rowMod{leaves(sojourn.Scheduled), advances, weighs(9)}, want: Transition{RunAt: RunAtDelay, Delay: time.Minute, Outcome: "advance"}},
	{tr: "F16", when: "advance to a time", from: []Row{starts(), resumes()},
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeAdvance, RunAt: time.Unix(1, 0)}),
		to: []rowMod{leaves(sojourn.Scheduled), advances}, want: Transition{RunAt: RunAtDelay, Outcome: "advance"}},

	{tr: "F10", when: "release of a resumed step: resumed again, with its weight and its answer",
		from: []Row{resumes(), resumes(hand(2, true), failed(2), crashed(1)), resumes(weighs(0), holds(0))},
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}),
		to:   []rowMod{func(r *Row) { held := r.Held; leaves(sojourn.Ready)(r); r.Resumed, r.Held, r.Given = true, held, false }},
		want: Transition{Outcome: "released"}},

	{tr: "F11", when: "release of a start: ready with its old run_at, nothing counted",
		from: []Row{starts(), starts(attempt(3), failed(1), crashed(1)), starts(weighs(0), holds(0))},
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}), to: []rowMod{leaves(sojourn.Ready)}, want: Transition{Outcome: "released"}},
	{tr: "F11", when: "the answer in hand stays",
		from: []Row{starts(hand(2, true))}, e: finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}),
		to: []rowMod{leaves(sojourn.Ready), hand(2, false)}, want: Transition{Outcome: "released"}},

	{tr: "F13", when: "args that do not decode: failed, not counted",
		from: []Row{starts(), starts(failed(3)), starts(max2(sojourn.Unlimited, 3))},
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeUndecodable, Reason: "whatever", Text: "invalid character"}), to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "undecodable", Reason: "undecodable", Error: "invalid character"}},
	{tr: "F13", when: "no handler was given the answer: it becomes late",
		from: []Row{starts(hand(1, true)), resumes(), resumes(hand(2, true))},
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeUndecodable, Text: "invalid character"}), to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "undecodable", Reason: "undecodable", Error: "invalid character", HandLate: true}},
}

func conflicting() Event {
	e := finish(sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Keys: []string{"of another job"}}})
	e.KeyConflict = true
	return e
}

// keyConflict keeps the outcome "await", so that the repeated Finish is recognised (tr:F12).
func keyConflict(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "await", Reason: "key_conflict", Error: "sojourn: a key to await belongs to another live job"}
}

var decided = sojourn.Outcome{Type: sojourn.OutcomeDecided, Reason: "lease_lost", Text: "gave up"}

func decidedWith(v sojourn.Verdict) Event {
	o := decided
	o.Verdict = v
	return finish(o)
}

func decidedThen(rule RunAtRule, delay time.Duration) Transition {
	return Transition{RunAt: rule, Delay: delay, Outcome: "decided", Reason: decided.Reason, Error: decided.Text}
}

// The finish of a step with purpose decide or poll: tr:D1-D3, tr:P1-P4.
var stepCases = []decideCase{
	{tr: "D1", when: "retry after the stored backoff; nothing is counted again",
		from: []Row{decides(), decides(hand(0, false)), decides(failed(0), crashed(1)), decides(handler(false))}, e: finish(decided),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: decidedThen(RunAtDelay, 10*time.Second)},
	{tr: "D1", when: "failures and crashes add up in the backoff", from: []Row{decides(failed(2), crashed(1))}, e: finish(decided),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: decidedThen(RunAtDelay, 40*time.Second)},
	{tr: "D1", when: "the verdict's delay", from: []Row{decides()}, e: decidedWith(sojourn.Verdict{Delay: 3 * time.Minute}),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: decidedThen(RunAtDelay, 3*time.Minute)},
	{tr: "D1", when: "the verdict Now", from: []Row{decides()}, e: decidedWith(sojourn.Verdict{Delay: sojourn.Now}),
		to: []rowMod{leaves(sojourn.Scheduled)}, want: decidedThen(RunAtDelay, 0)},
	{tr: "D1", when: "again puts the answer down", from: []Row{decides()}, e: decidedWith(sojourn.Verdict{Again: true}),
		to: []rowMod{leaves(sojourn.Scheduled), hand(0, false)}, want: decidedThen(RunAtDelay, 10*time.Second)},
	{tr: "D2", when: "final", from: []Row{decides(), decides(hand(0, false)), decides(failed(2), crashed(1), max2(sojourn.Unlimited, sojourn.Unlimited))},
		e: decidedWith(sojourn.Verdict{Final: true}), to: []rowMod{ends(sojourn.Failed)}, want: decidedThen(KeepRunAt, 0)},
	{tr: "D2", when: "spec:R5 without any reason", from: []Row{decides()},
		e: finish(sojourn.Outcome{Type: sojourn.OutcomeDecided, Verdict: sojourn.Verdict{Final: true}}), to: []rowMod{ends(sojourn.Failed)},
		want: Transition{Outcome: "decided", Reason: "error"}},
	{tr: "D3", when: "release: errored again", from: []Row{decides(), decides(hand(0, false)), decides(failed(2), crashed(1))},
		e: finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}), to: []rowMod{leaves(sojourn.Errored)}, want: Transition{Outcome: "released"}},

	{tr: "P1", when: "no answer: awaits on", from: []Row{polls(), polls(crashed(2), failed(1)), polls(weighs(0), holds(0))},
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeNoAnswer}),
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }}, want: Transition{Outcome: "no_answer"}},
	{tr: "P1", when: "rules:B11 no answer: the next poll comes later", from: []Row{polls(polledBefore(2))}, e: finish(sojourn.Outcome{Type: sojourn.OutcomeNoAnswer}),
		to: []rowMod{leaves(sojourn.Awaiting), holds(3), polledBefore(3)}, want: Transition{Outcome: "no_answer", Poll: 80 * time.Second}},
	{tr: "P3", when: "release: it is due again at once, and counts as none", from: []Row{polls(polledBefore(2))}, e: finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}),
		to: []rowMod{leaves(sojourn.Awaiting), holds(3)}, want: Transition{Outcome: "released"}},
	{tr: "F5", when: "its first poll; what the worker says of polls before counts nothing", from: []Row{starts()},
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Poll: pollsOften, Polls: 7}}),
		to: []rowMod{leaves(sojourn.Awaiting), holds(3), waitsFor(sojourn.Wait{Poll: pollsOften})}, want: Transition{Outcome: "await", Poll: 10 * time.Second}},
	{tr: "P2", when: "the answer: resumed with it", from: []Row{polls(), polls(crashed(2), failed(1)), polls(weighs(0), holds(0))},
		e:    finish(sojourn.Outcome{Type: sojourn.OutcomeAnswer, Result: []byte("{}")}),
		to:   []rowMod{func(r *Row) { r.State, r.Purpose, r.Resumed, r.InHand = sojourn.Ready, sojourn.NoPurpose, true, 1 }, waited},
		want: Transition{Outcome: "answer"}},
	{tr: "P3", when: "release", from: []Row{polls(), polls(crashed(2), failed(1)), polls(weighs(0), holds(0))},
		e:  finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}),
		to: []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }}, want: Transition{Outcome: "released"}},
	{tr: "P4", when: "a kept response came first: awaits, and Match follows", from: []Row{polls(), polls(weighs(0), holds(0))},
		e:    Event{Type: EventFinished, Outcome: &sojourn.Outcome{Type: sojourn.OutcomeAnswer, Result: []byte("{}")}, Answered: true},
		to:   []rowMod{func(r *Row) { r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose }},
		want: Transition{Outcome: "answer"}},
}
