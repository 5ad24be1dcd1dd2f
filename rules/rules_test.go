package rules

import (
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// The traces behind the rules, as far as Decide and Match alone can show them: each is the shortest
// story that goes wrong with any other reading.

// rules:A1 The epoch does not change when a lease ends, so the running state is part of the fence.
func TestRuleA1ALeaseThatHasEndedWritesNothing(t *testing.T) {
	begin(t).claim().event(EventLeaseEnded).stands("ready").
		refuses(finish(sojourn.Outcome{Type: sojourn.OutcomeCompleted})).
		refuses(finish(sojourn.Outcome{Type: sojourn.OutcomeAwait}))
	// Finish(await) executed, its answer lost; a response comes; the repeated Finish must not park
	// the job again.
	begin(t).claim().say(sojourn.OutcomeAwait).answer(0).stands("ready resumed", held).
		refuses(finish(sojourn.Outcome{Type: sojourn.OutcomeAwait})).stands("ready resumed", held).
		claim().stands("running resume", held)
}

// rules:B1 It never matters whether a response or the end of a step commits first.
func TestRuleB1AResponseIsLookedAtAfterEveryEnd(t *testing.T) {
	ends := map[string]struct {
		e    Event
		rule string
	}{
		"an error":       {finish(boom), "F2"},
		"a lost lease":   {lostEvent, "W1"},
		"a timeout":      {timeoutEvent, "W5"},
		"a snooze":       {finish(sojourn.Outcome{Type: sojourn.OutcomeSnooze, Delay: time.Hour}), "F7"},
		"a release":      {finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}), "F11"},
		"a vain await":   {conflicting(), "F6"},
		"again, in vain": {boomWith(sojourn.Verdict{Again: true}), "F2"},
	}
	for name, end := range ends {
		t.Run("rules:B1/"+name, func(t *testing.T) {
			before := begin(t).claim().answer(0).stands("running start", kept).then(end.e).rules(end.rule, "M3").stands("ready", held)
			after := begin(t).claim().then(end.e).rules(end.rule).answer(0).rules("M3").stands("ready", held)
			if d := differences(before.row, after.row); len(d) > 0 {
				t.Errorf("the order of the two matters: %v", d)
			}
			before.claim().stands("running start", held)
			if !before.row.Given {
				t.Error("the handler is not given the response, and sends its request again")
			}
		})
	}
	t.Run("rules:B1/await", func(t *testing.T) {
		before := begin(t).claim().answer(0).say(sojourn.OutcomeAwait).rules("F5", "M1").stands("ready resumed", held)
		after := begin(t).claim().say(sojourn.OutcomeAwait).answer(0).rules("M1").stands("ready resumed", held)
		if d := differences(before.row, after.row); len(d) > 0 {
			t.Errorf("the order of the two matters: %v", d)
		}
	})
	t.Run("rules:B1/a response while errored", func(t *testing.T) {
		begin(t).claimDeciding().event(EventLeaseEnded).stands("errored").answer(0).stands("errored", kept).
			claimDeciding().stands("running decide", kept).say(sojourn.OutcomeDecided).rules("D1", "M3").stands("ready", held)
		begin(t).claimDeciding().event(EventLeaseEnded).answer(0).event(EventDecideOverdue).rules("W7", "M3").stands("ready", held)
	})
	t.Run("rules:B1/a response while a poll runs", func(t *testing.T) {
		polling := func() *trace {
			return begin(t).claim().say(sojourn.OutcomeAwait).claim().stands("running poll").answer(0).stands("running poll", kept)
		}
		polling().event(EventLeaseEnded).rules("W3", "M1").stands("ready resumed", held)
		polling().say(sojourn.OutcomeNoAnswer).rules("P1", "M1").stands("ready resumed", held)
		polling().say(sojourn.OutcomeReleased).rules("P3", "M1").stands("ready resumed", held)
		p := polling()
		p.then(Event{Type: EventFinished, Outcome: &sojourn.Outcome{Type: sojourn.OutcomeAnswer}, Answered: p.answered(&p.life)}).
			rules("P4", "M1").stands("ready resumed", held)
		if p.poll {
			t.Error("the answer of the poll counts although a kept response came first")
		}
	})
}

// rules:B2 A response stays taken until a handler that has got it disposes of it.
func TestRuleB2AResponseStaysUntilItIsDisposedOf(t *testing.T) {
	withAnswer := func() *trace {
		return begin(t).claim().answer(0).say(sojourn.OutcomeAwait).stands("ready resumed", held).claim().stands("running resume", held)
	}
	stays := map[string]Event{
		"the worker dies": lostEvent, "timeout": timeoutEvent, "error": finish(boom),
		"release": finish(sojourn.Outcome{Type: sojourn.OutcomeReleased}), "snooze": finish(sojourn.Outcome{Type: sojourn.OutcomeSnooze}),
	}
	for name, e := range stays {
		t.Run("rules:B2/stays/"+name, func(t *testing.T) {
			tr := withAnswer().then(e)
			if tr.row.State == sojourn.Scheduled {
				tr.event(EventDue)
			}
			tr.claim()
			if tr.at[0] != held || !tr.row.Given || tr.row.InHand != 1 {
				t.Errorf("the next step runs without the answer: %+v", tr.row)
			}
		})
	}
	for name, e := range map[string]Event{
		"completes": finish(sojourn.Outcome{Type: sojourn.OutcomeCompleted}), "aborts": finish(sojourn.Outcome{Type: sojourn.OutcomeAbort}),
		"cancels": finish(sojourn.Outcome{Type: sojourn.OutcomeCancelled}), "awaits again": finish(sojourn.Outcome{Type: sojourn.OutcomeAwait}), "again": boomWith(sojourn.Verdict{Again: true}),
	} {
		t.Run("rules:B2/disposed of/"+name, func(t *testing.T) {
			if tr := withAnswer().then(e); tr.at[0] != done || tr.row.InHand != 0 {
				t.Errorf("response at %d, in hand %d; want it done with", tr.at[0], tr.row.InHand)
			}
		})
	}
	t.Run("rules:B2/later ones queue behind", func(t *testing.T) {
		withAnswer().answer(1).then(finish(boom)).rules("F2").stands("scheduled", held, kept).answer(2).stands("scheduled", held, kept, kept).
			event(EventDue).claim().stands("running start", held, kept, kept).
			say(sojourn.OutcomeAwait).rules("F5", "M1").stands("ready resumed", done, held, kept)
	})
	t.Run("rules:B2/an error response is used up", func(t *testing.T) {
		tr := begin(t)
		tr.sent[0].Failed = true
		tr.claim().say(sojourn.OutcomeAwait).answer(0).rules("M2").stands("scheduled", done).event(EventDue).claim()
		if tr.row.InHand != 0 {
			t.Error("the error response is in hand of the next attempt")
		}
	})
}

// rules:B3 A late response makes a waiting retry plain ready: no weight, all gates, a new attempt.
func TestRuleB3ALateResponseHoldsNoWeight(t *testing.T) {
	begin(t).claim().weight(1).event(EventLeaseEnded).weight(0).answer(0).rules("M3").stands("ready", held).weight(0).
		claim().stands("running start", held).weight(1).counts(2, 0, 1)
	tr := begin(t).claim().then(finish(boom)).answer(0)
	if tr.last[0].RunAt != RunAtNow {
		t.Error("the retry waits on although its answer is there")
	}
}

// rules:B4 The commonest case: a crash between the request and its Await.
func TestRuleB4ALateResponseNeedsNoAwait(t *testing.T) {
	begin(t).claim().event(EventLeaseEnded).answer(0).rules("M3").stands("ready", held)
	begin(t, toInbox).claim().event(EventLeaseEnded).answer(0).stands("ready", kept).
		claim().stands("running start", kept).say(sojourn.OutcomeAwait).rules("F5", "M1").stands("ready resumed", held)
	begin(t).answer(0).stands("ready", kept) // never claimed: early, it waits for the Await
}

// rules:B5 What a job leaves over becomes late and can never be another job's answer.
func TestRuleB5WhatIsLeftOverIsLate(t *testing.T) {
	begin(t).claim().answer(0).answer(1).say(sojourn.OutcomeCompleted).stands("completed", late, late)
	begin(t).claim().say(sojourn.OutcomeAwait).answer(0).answer(1).stands("ready resumed", held, kept).event(EventCancel).stands("cancelled", late, late)
	begin(t).claim().say(sojourn.OutcomeAwait).answer(0).claim().answer(1).event(EventCancel).stands("cancelled", done, late)
	begin(t).claim().say(sojourn.OutcomeAwait).answer(0).event(EventDeadline).stands("failed", late)
	begin(t).claim().say(sojourn.OutcomeCompleted).answer(0).stands("completed", late)
}

// rules:B6 An error response for an attempt that is over ends none that has not begun.
func TestRuleB6AnErrorForAnAttemptThatIsOver(t *testing.T) {
	tr := begin(t)
	tr.sent[0].Failed = true
	tr.claim().then(finish(boom)).answer(0).rules("M4").stands("scheduled", late).counts(1, 1, 0)

	tr = begin(t)
	tr.sent[0].Failed = true
	tr.claim().answer(0).event(EventLeaseEnded).rules("W1", "M4").stands("ready", late).counts(1, 0, 1)

	tr = begin(t) // by key alone, one that comes while the next attempt runs cannot be told apart: it ends it at its Await
	tr.sent[0].Failed = true
	tr.claim().event(EventLeaseEnded).claim().answer(0).stands("running start", kept).
		say(sojourn.OutcomeAwait).rules("F5", "M2").stands("scheduled", done).counts(2, 1, 1)

	tr = begin(t) // the good one behind it is taken in the same transaction
	tr.sent[0].Failed = true
	tr.claim().answer(0).answer(1).then(finish(boom)).rules("F2", "M4", "M3").stands("ready", late, held)
}

// rules:B7 A capability names id, generation, attempt and wait: it outlives every step that does
// not answer the wait, and no attempt.
func TestRuleB7ACapabilityLastsAsLongAsItsWait(t *testing.T) {
	token := func(tr *trace) string {
		return access.NewCapability([]byte("secret"), tr.row.ID, 1, tr.row.Attempt, tr.row.Waits)
	}
	tr := begin(t).claim()
	first := token(tr)
	tr.say(sojourn.OutcomeReleased).claim().say(sojourn.OutcomeSnooze).event(EventDue).claim().say(sojourn.OutcomeAwait).claim().stands("running poll").
		event(EventLeaseEnded).claim().say(sojourn.OutcomeNoAnswer)
	if token(tr) != first {
		t.Errorf("the capability of the first wait became stale without an answer: %+v", tr.row)
	}
	tr.answer(0).claim()
	second := token(tr)
	if tr.say(sojourn.OutcomeAwait).answer(1).claim(); second == first || token(tr) == second {
		t.Error("a capability answers two waits of one attempt")
	}
	third := token(tr)
	if tr.then(finish(boom)); token(tr) != third {
		t.Error("the end of an attempt has answered a wait")
	}
	if tr.event(EventDue).claim(); token(tr) == third {
		t.Error("the capability of attempt 1 answers attempt 2")
	}
}

// rules:B7 The second answer by one capability is stale, at any time and for every end of the wait.
func TestRuleB7ADoubleClick(t *testing.T) {
	byLink := func() *trace {
		tr := begin(t)
		tr.sent = many(linked(0, 0), linked(0, 0), ok(0, "own"))
		return tr
	}
	byLink().claim().say(sojourn.OutcomeAwait).answer(0).answer(1).stands("ready resumed", held, stale).claim().say(sojourn.OutcomeAwait).stands("awaiting", done, stale)
	byLink().claim().answer(0).answer(1).answer(2).stands("running start", kept, kept, kept).
		say(sojourn.OutcomeAwait).rules("F5", "M1", "M5").stands("ready resumed", held, stale, kept)
	byLink().claim().answer(0).answer(1).then(finish(boom)).rules("F2", "M3", "M5").stands("ready", held, stale)
	byLink().claim().then(finish(boom)).answer(0).rules("M3").answer(1).stands("ready", held, stale)
	declined := byLink()
	declined.sent[0].Failed = true
	declined.claim().answer(0).answer(1).say(sojourn.OutcomeAwait).rules("F5", "M2", "M5").stands("scheduled", done, stale)
	byLink().claim().await(sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}).answer(0).claim().stands("running poll", kept).
		say(sojourn.OutcomeAnswer).rules("P2", "M5").stands("ready resumed", stale).answer(1).stands("ready resumed", stale, stale)
}

// rules:B10 All needs all, also for a waiting retry; a key has one owner.
func TestRuleB10AnyAndAll(t *testing.T) {
	all, oneOf := sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"k1", "k2"}}, sojourn.Wait{Mode: sojourn.WaitAny, Keys: []string{"k1", "k2"}}
	keyed := func() *trace {
		tr := begin(t)
		tr.sent = many(ok(0, "k1"), ok(0, "k2"), ok(0, "own"))
		return tr
	}
	keyed().claim().await(all).answer(0).stands("awaiting", kept).answer(1).rules("M1").stands("ready resumed", held, held)
	keyed().claim().await(all).answer(0).event(EventTimedOut).rules("W4").stands("scheduled", kept).
		answer(2).stands("scheduled", kept, unsent, kept).answer(1).rules("M3").stands("ready", held, held, kept)
	keyed().claim().await(oneOf).answer(1).rules("M1").stands("ready resumed", unsent, held).
		claim().answer(0).say(sojourn.OutcomeCompleted).stands("completed", late, done)
	keyed().claim().then(conflicting()).rules("F6").stands("scheduled").counts(1, 1, 0)
	// answers under keys that are no longer waited for stay kept, and end as late
	keyed().claim().await(oneOf).answer(0).claim().answer(1).await(sojourn.Wait{}).stands("awaiting", done, kept).
		answer(2).stands("ready resumed", done, kept, held).claim().say(sojourn.OutcomeCompleted).stands("completed", done, late, done)
}

// rules:C1 Nobody rests in errored for ever, and every loop through it is counted.
func TestRuleC1ErroredHasTwoWaysOut(t *testing.T) {
	lostOnce := func(mods ...rowMod) *trace {
		return begin(t, mods...).claimDeciding().event(EventLeaseEnded).stands("errored")
	}
	lostOnce().event(EventDecideOverdue).rules("W7").stands("scheduled")
	lostOnce().refuses(Event{Type: EventClaimed}).stands("errored") // a worker without the handler never gets it
	lostOnce().claimDeciding().event(EventLeaseEnded).rules("W2").stands("errored").counts(1, 0, 2).
		claimDeciding().event(EventLeaseEnded).rules("W2").stands("failed").counts(1, 0, 3)
	// only inside the budgets
	begin(t, max2(1, 3)).claimDeciding().event(EventTimedOut).stands("failed").counts(1, 1, 0)
	begin(t, max2(5, 1)).claimDeciding().event(EventLeaseEnded).stands("failed").counts(1, 0, 1)
	begin(t, max2(1, 3)).claimDeciding().say(sojourn.OutcomeAwait).event(EventTimedOut).stands("failed").counts(1, 1, 0)
}

// rules:C2 A resumed job whose kind has no worker gives its weight back, and does not fail for
// that.
func TestRuleC2ResumedWithoutAWorker(t *testing.T) {
	begin(t, max2(1, 1)).claim().say(sojourn.OutcomeAwait).answer(0).stands("ready resumed", held).weight(1).
		refuses(Event{Type: EventTimedOut, Reason: sojourn.ReasonTimeout}).
		event(EventResumeOverdue).rules("W8").stands("ready", held).weight(0).counts(1, 0, 0).
		claim().rules("C2").stands("running start", held).weight(1).counts(1, 0, 0).
		say(sojourn.OutcomeCompleted).stands("completed", done)
}

// rules:C3 A deadline is no error: no retry handler, no backoff, and a redrive begins anew.
func TestRuleC3TheDeadlineEndsTheJob(t *testing.T) {
	for _, row := range liveRows {
		tr := begin(t)
		tr.row = row
		tr.row.RetryHandler = true
		tr.event(EventDeadline).rules("W6").stands("failed")
		if got := tr.last[0]; got.RunAt != KeepRunAt || got.Reason != sojourn.ReasonDeadline || tr.row.Failures != row.Failures {
			t.Errorf("from %s: %+v", row.State, got)
		}
		tr.event(EventRedrive).stands("ready").counts(0, 0, 0).refuses(Event{Type: EventRedrive})
	}
}

// rules:C4 A timeout cannot be switched off.
func TestRuleC4EveryWaitHasAnEnd(t *testing.T) {
	j := sojourn.Job{}
	j.Resolve(sojourn.Policy{})
	if p := j.Policy; p.Timeout != 24*time.Hour || p.DecideWithin != 5*time.Minute {
		t.Errorf("timeout %v, decide_within %v", p.Timeout, p.DecideWithin)
	}
	for _, d := range []time.Duration{-1, sojourn.MaxHorizon + 1} {
		j := sojourn.Job{ID: 1, Kind: "k", Queue: "q", Policy: sojourn.Policy{Timeout: d}}
		if err := j.Validate(1 << 20); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("timeout %v: %v", d, err)
		}
	}
	begin(t).claim().say(sojourn.OutcomeAwait).event(EventTimedOut).rules("W4").stands("scheduled")
}

// rules:D1 The row records the weight that it holds; every end returns it once.
func TestRuleD1Weight(t *testing.T) {
	begin(t, weighs(7)).weight(0).claim().weight(7).say(sojourn.OutcomeAwait).weight(7).claim().stands("running poll").weight(7).
		say(sojourn.OutcomeNoAnswer).weight(7).answer(0).weight(7).claim().weight(7).say(sojourn.OutcomeSnooze).weight(0).
		event(EventDue).claim().weight(7).then(finish(boom)).weight(0).event(EventDue).claim().weight(7).say(sojourn.OutcomeCompleted).weight(0)
	begin(t, weighs(7)).claimDeciding().event(EventLeaseEnded).weight(0).claimDeciding().stands("running decide").weight(0).
		say(sojourn.OutcomeReleased).weight(0)
	begin(t, weighs(0)).claim().weight(0).say(sojourn.OutcomeAwait).weight(0).answer(0).stands("ready resumed", held).weight(0).claim().weight(0)
}

// rules:D2 Release undoes its claim; only the epoch, which the store keeps, stays raised.
func TestRuleD2ReleaseUndoesItsClaim(t *testing.T) {
	begin(t).claim().say(sojourn.OutcomeReleased).stands("ready").weight(0).counts(1, 0, 0).claim().rules("C2").counts(1, 0, 0)
	begin(t).claim().say(sojourn.OutcomeAwait).answer(0).claim().say(sojourn.OutcomeReleased).rules("F10").stands("ready resumed", held).weight(1).
		claim().rules("C3").counts(1, 0, 0)
	begin(t).claimDeciding().event(EventLeaseEnded).claimDeciding().say(sojourn.OutcomeReleased).rules("D3").stands("errored").counts(1, 0, 1)
	begin(t).claim().say(sojourn.OutcomeAwait).claim().say(sojourn.OutcomeReleased).rules("P3").stands("awaiting").weight(1).counts(1, 0, 0)
}

// rules:E1 An attempt is request, wait and response; only its end lets the next claim count.
func TestRuleE1WhatAnAttemptIs(t *testing.T) {
	begin(t).counts(0, 0, 0).claim().counts(1, 0, 0).say(sojourn.OutcomeAwait).answer(0).claim().counts(1, 0, 0).
		say(sojourn.OutcomeSnooze).event(EventDue).claim().counts(1, 0, 0).say(sojourn.OutcomeReleased).claim().counts(1, 0, 0).
		then(finish(boom)).counts(1, 1, 0).event(EventDue).claim().counts(2, 1, 0).
		event(EventLeaseEnded).counts(2, 1, 1).claim().counts(3, 1, 1).event(EventTimedOut).counts(3, 2, 1)
}

// rules:E2 Two budgets: losses use up no attempt, failures no crash; the first loss keeps run_at,
// later ones back off.
func TestRuleE2TwoBudgets(t *testing.T) {
	tr := begin(t, max2(2, 3)).claim().event(EventLeaseEnded).stands("ready").counts(1, 0, 1)
	if got := tr.last[0]; got.RunAt != KeepRunAt {
		t.Errorf("the first loss: %+v, want the old run_at", got)
	}
	tr.claim().event(EventLeaseEnded).stands("scheduled").counts(2, 0, 2)
	if got := tr.last[0]; got.RunAt != RunAtDelay || got.Delay != 10*time.Second {
		t.Errorf("the second loss: %+v, want backoff", got)
	}
	tr.event(EventDue).claim().then(finish(boom)).stands("scheduled").counts(3, 1, 2).
		event(EventDue).claim().event(EventLeaseEnded).stands("failed").counts(4, 1, 3)
	begin(t, max2(2, 3)).claim().then(finish(boom)).event(EventDue).claim().then(finish(boom)).stands("failed").counts(2, 2, 0)
	unlimited := begin(t, max2(sojourn.Unlimited, sojourn.Unlimited))
	for range 50 {
		unlimited.claim().then(finish(boom)).stands("scheduled").event(EventDue).claim().event(EventLeaseEnded)
		if unlimited.row.State == sojourn.Scheduled {
			unlimited.event(EventDue)
		}
	}
	unlimited.counts(100, 50, 50)
}
