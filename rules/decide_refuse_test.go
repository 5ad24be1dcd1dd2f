package rules

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// situations are all that a job can be in, as far as the rules tell them apart.
var situations = []struct {
	name  string
	row   Row
	takes string // the events that can happen to it; every other one is refused
}{
	{"none", Row{ID: 7}, ""},
	{"blocked", blocked(2), "parent deadline cancel fail"},
	{"blocked by nothing", blocked(0), "deadline cancel fail"},
	{"awaiting children", awaitsChildren(2), "parent timed-out deadline cancel fail"},
	{"scheduled", rowOf(is(sojourn.Scheduled)), "due deadline cancel fail"},
	{"scheduled for the retry", retries(sojourn.Scheduled, hand(1, true)), "due deadline cancel fail"},
	{"ready", rowOf(), "claim claim+handler put-off window-closed deadline cancel fail"},
	{"ready for the retry", retries(sojourn.Ready), "claim claim+handler put-off window-closed deadline cancel fail"},
	{"resumed", resumedRow(), "claim claim+handler resume-overdue deadline cancel fail"},
	{"running start", starts(),
		"completed error await snooze hold advance await_jobs abort finish-cancel undecodable released lease-ended timed-out deadline cancel fail release"},
	{"running resume", resumes(),
		"completed error await snooze hold advance await_jobs abort finish-cancel undecodable released lease-ended timed-out deadline cancel fail release"},
	{"running decide", decides(), "decided released lease-ended deadline cancel fail release"},
	{"running poll", polls(), "no_answer answer released lease-ended timed-out deadline cancel fail release"},
	{"awaiting", awaits(), "claim claim+handler timed-out error-response deadline cancel fail"},
	{"awaiting, polls lost", awaits(pollsLost), "timed-out error-response deadline cancel fail"},
	{"errored", errored(), "claim+handler decide-overdue deadline cancel fail"},
	{"completed", rowOf(is(sojourn.Completed), claimed, attempt(1), closed), ""},
	{"failed", rowOf(is(sojourn.Failed), claimed, attempt(5), closed, failed(5)), "redrive"},
	{"cancelled", rowOf(is(sojourn.Cancelled)), "redrive"},
}

func allEvents() map[string]Event {
	events := map[string]Event{
		"nothing":        {},
		"unknown":        {Type: 200},
		"due":            {Type: EventDue},
		"claim":          {Type: EventClaimed},
		"claim+handler":  {Type: EventClaimed, RetryHandler: true},
		"no outcome":     {Type: EventFinished},
		"finish-unknown": finish(sojourn.Outcome{Type: "vanished"}),
		"finish-empty":   finish(sojourn.Outcome{}),
		"lease-ended":    {Type: EventLeaseEnded},
		"timed-out":      {Type: EventTimedOut, Reason: sojourn.ReasonTimeout},
		"error-response": {Type: EventErrorResponse, Reason: "declined"},
		"put-off":        {Type: EventPutOff, Delay: 1},
		"deadline":       {Type: EventDeadline},
		"decide-overdue": {Type: EventDecideOverdue},
		"resume-overdue": {Type: EventResumeOverdue},
		"cancel":         {Type: EventCancel},
		"fail":           {Type: EventFail},
		"redrive":        {Type: EventRedrive},
		"release":        {Type: EventRelease},
		"window-closed":  {Type: EventWindowClosed},
		"parent":         {Type: EventParent, Parent: sojourn.Completed},
	}
	for _, o := range []sojourn.OutcomeType{sojourn.OutcomeCompleted, sojourn.OutcomeError, sojourn.OutcomeAwait, sojourn.OutcomeSnooze, sojourn.OutcomeHold, sojourn.OutcomeAdvance, sojourn.OutcomeAwaitJobs, sojourn.OutcomeAbort, sojourn.OutcomeCancelled,
		sojourn.OutcomeUndecodable, sojourn.OutcomeReleased, sojourn.OutcomeDecided, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer} {
		name := string(o)
		if o == sojourn.OutcomeCancelled {
			name = "finish-cancel"
		}
		events[name] = finish(sojourn.Outcome{Type: o})
	}
	return events
}

// inv:S1: only the transitions of the table occur.
func TestDecideRefusesEverythingElse(t *testing.T) {
	refused, taken := 0, 0
	for _, s := range situations {
		for name, e := range allEvents() {
			for _, kept := range []int32{0, 1} {
				row := s.row
				row.Kept = kept
				before := rowAfter(row, nil)
				got, err := Decide(row, e)
				if !reflect.DeepEqual(row, before) {
					t.Errorf("%s, %s: the row was changed", s.name, name)
				}
				if strings.Contains(" "+s.takes+" ", " "+name+" ") {
					taken++
					if err != nil || got.Rule == "" {
						t.Errorf("%s, %s: %+v, %v; the table allows it", s.name, name, got, err)
					}
					continue
				}
				refused++
				if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !reflect.DeepEqual(got, Transition{}) {
					t.Errorf("%s, %s: %+v, %v; want a refusal with the code invalid and no transition", s.name, name, got, err)
				}
			}
		}
	}
	if refused < 500 || taken < 120 {
		t.Errorf("%d combinations refused and %d taken: the test has lost its breadth", refused, taken)
	}
}

// Final rows have no open attempt, wait or lease: all events that end a job lead to the same row,
// except for its counters.
func TestDecideLeavesNothingOpenInFinalRows(t *testing.T) {
	n := 0
	for _, s := range situations {
		for name, e := range allEvents() {
			row := s.row
			row.Kept = 2
			got, err := Decide(row, e)
			if err != nil || !got.To.State.Final() {
				continue
			}
			n++
			to := got.To
			if to.Held != 0 || to.Purpose != sojourn.NoPurpose || to.Resumed || to.AttemptOpen || to.Kept != 0 || to.InHand != 0 || to.Given || to.NoPoll ||
				!reflect.DeepEqual(to.Wait, sojourn.Wait{}) {
				t.Errorf("%s, %s: a final row with something open: %+v", s.name, name, to)
			}
			if !got.KeptLate {
				t.Errorf("%s, %s: two kept responses and none of them late", s.name, name)
			}
			if want := row.InHand > 0 && (!row.Given || name == "undecodable"); got.HandLate != want {
				t.Errorf("%s, %s: HandLate = %v, want %v", s.name, name, got.HandLate, want)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d ways to end a job were walked", n)
	}
}
