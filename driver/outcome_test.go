package driver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

func TestValidOutcome(t *testing.T) {
	next := func(options ...sojourn.Option) []sojourn.Job {
		return []sojourn.Job{*sojourn.NewJob("k", nil, append([]sojourn.Option{func(j *sojourn.Job) { j.ID = 9 }}, options...)...)}
	}
	key := func(keys ...string) sojourn.Wait { return sojourn.Wait{Keys: keys} }
	const big = 1000
	for _, c := range []struct {
		name        string
		o           sojourn.Outcome
		code, field string
	}{
		{"inv:N3 result", sojourn.Outcome{Result: make([]byte, big+1)}, sojourn.CodeTooLarge, "result"},
		{"inv:N3 checkpoint", sojourn.Outcome{Verdict: sojourn.Verdict{Checkpoint: make([]byte, big+1)}}, sojourn.CodeTooLarge, "checkpoint"},
		{"inv:N1 snooze", sojourn.Outcome{Delay: -1}, sojourn.CodeInvalid, "delay"},
		{"inv:N1 snooze above ten years", sojourn.Outcome{Delay: sojourn.MaxHorizon + 1}, sojourn.CodeInvalid, "delay"},
		{"hold of a queue with a bad name", sojourn.Outcome{Type: sojourn.OutcomeHold, Queue: "a b"}, sojourn.CodeInvalid, "queue"},
		{"inv:N1 within", sojourn.Outcome{Wait: sojourn.Wait{Within: -1}}, sojourn.CodeInvalid, "within"},
		{"inv:N1 verdict", sojourn.Outcome{Verdict: sojourn.Verdict{Delay: sojourn.MaxHorizon + 1}}, sojourn.CodeInvalid, "verdict.delay"},
		{"an unknown mode", sojourn.Outcome{Wait: sojourn.Wait{Mode: 2}}, sojourn.CodeInvalid, "wait.mode"},
		{"an empty key", sojourn.Outcome{Wait: key("a", "")}, sojourn.CodeInvalid, "wait.keys"},
		{"a key with a control character", sojourn.Outcome{Wait: key("a\n")}, sojourn.CodeInvalid, "wait.keys"},
		{"65 keys", sojourn.Outcome{Wait: key(strings.Split(strings.Repeat("k ", 64)+"k", " ")...)}, sojourn.CodeInvalid, "wait.keys"},
		{"next with a negative id", sojourn.Outcome{Next: []sojourn.Job{*sojourn.NewJob("k", nil, sojourn.WithID(-1))}}, sojourn.CodeInvalid, "next"},
		{"a bad next", sojourn.Outcome{Next: next(sojourn.Weight(-1))}, sojourn.CodeInvalid, "weight"},
		{"next with too large args", sojourn.Outcome{Next: next(func(j *sojourn.Job) { j.Args = make([]byte, big+1) })}, sojourn.CodeTooLarge, "args"},
		{"an unknown type", sojourn.Outcome{Type: "done"}, sojourn.CodeInvalid, "type"},
		{"a bad content type", sojourn.Outcome{Type: sojourn.OutcomeCompleted, ResultType: "no type"}, sojourn.CodeInvalid, "result_type"},
		{"1,001 next", sojourn.Outcome{Next: make([]sojourn.Job, sojourn.MaxBatch+1)}, sojourn.CodeInvalid, "next"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := ValidOutcome(&c.o, big)
			if e, ours := errors.AsType[*sojourn.Error](err); !ours || e.Code != c.code || e.Field != c.field {
				t.Errorf("%v, want the field %s with %s", err, c.field, c.code)
			}
		})
	}
	good := sojourn.Outcome{Type: sojourn.OutcomeCompleted, Result: make([]byte, big), Next: next(), Delay: sojourn.MaxHorizon, Verdict: sojourn.Verdict{Delay: sojourn.Now},
		Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}, Within: sojourn.MaxHorizon}}
	if err := ValidOutcome(&good, big); err != nil {
		t.Error(err)
	}
	bad := sojourn.Outcome{Next: append(next(), next(sojourn.Priority(1), sojourn.Weight(-1))...)}
	if e, isOurs := errors.AsType[*sojourn.Error](ValidOutcome(&bad, big)); !isOurs || e.Index != 1 {
		t.Errorf("%v does not name the second job", e)
	}
}

// TestOutcomesOfHandlersAreValid: stores accept every outcome that a handler can return.
func TestOutcomesOfHandlersAreValid(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), sojourn.Await(0), sojourn.Await(-1), sojourn.AwaitAny(time.Hour, "a", "b"), sojourn.AwaitAll(0, "a"),
		sojourn.WithBeat(time.Minute, sojourn.Await(0)), sojourn.Snooze(time.Hour), sojourn.Snooze(-time.Hour), sojourn.Hold("q", time.Hour), sojourn.Abort(nil),
		sojourn.Cancel(nil), sojourn.Again(nil), sojourn.WithReason("r", errors.New("x")), sojourn.ErrLeaseLost} {
		o := sojourn.OutcomeOf(err)
		if refused := ValidOutcome(&o, 1000); refused != nil {
			t.Errorf("%v: %v", err, refused)
		}
	}
}
