package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// spec:R17: each failed attempt is logged once, by its weight.
func TestFailedAttemptsAreLogged(t *testing.T) {
	for _, c := range []struct {
		name    string
		out     sojourn.Outcome
		state   sojourn.State
		want    string
		nothing bool
	}{
		{"a retry", sojourn.OutcomeOf(errors.New("gateway down")), sojourn.Scheduled, "level=WARN msg=\"sojourn: an attempt failed\" kind=charge queue=q job=7 attempt=3 reason=\"gateway down\" error=\"gateway down\" state=scheduled", false},
		{"the last attempt", sojourn.OutcomeOf(errors.New("gateway down")), sojourn.Failed, "level=ERROR msg=\"sojourn: a job failed\"", false},
		{"an abort", sojourn.OutcomeOf(sojourn.Abort(errors.New("no card"))), sojourn.Failed, "level=ERROR msg=\"sojourn: a job failed\"", false},
		{"a panic", sojourn.Outcome{Type: sojourn.OutcomeError, Reason: sojourn.ReasonPanic, Text: "panic: x"}, sojourn.Scheduled, "level=ERROR msg=\"sojourn: an attempt failed\"", false},
		{"a final decision", sojourn.Outcome{Type: sojourn.OutcomeDecided, Verdict: sojourn.Verdict{Final: true}}, sojourn.Failed, "level=ERROR msg=\"sojourn: a job failed\"", false},
		{"a decision to retry", sojourn.Outcome{Type: sojourn.OutcomeDecided}, sojourn.Scheduled, "", true},
		{"a completion", sojourn.OutcomeOf(nil), sojourn.Completed, "", true},
		{"a snooze", sojourn.OutcomeOf(sojourn.Snooze(1)), sojourn.Scheduled, "", true},
		{"a cancel", sojourn.OutcomeOf(sojourn.Cancel(nil)), sojourn.Cancelled, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			s := &step{as: original{kind: "charge", queue: "q"}, lease: sojourn.Lease{ID: 7}, log: lines{attempt: 3}, out: c.out}
			for _, f := range s.addFailure(nil, c.state) {
				f.log(slog.New(slog.NewTextHandler(&b, nil)))
			}
			if got := b.String(); !strings.Contains(got, c.want) || (got == "") != c.nothing {
				t.Errorf("logged %q, want %q", got, c.want)
			}
		})
	}
}

// A worker logs a failed attempt to its own logger, once, also if the report is repeated.
func TestWorkerLogsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		f := newFake()
		f.add(kindA.New(args{}, sojourn.MaxAttempts(1)))
		n := 0
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) {
			if n++; n < 3 {
				return nil, &sojourn.Error{Code: sojourn.CodeUnknown, Message: "the line broke"}
			}
			return nil, nil
		}
		w := New(sojourn.NewClient(f), Options{Logger: slog.New(slog.NewTextHandler(&b, nil))})
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { return errors.New("gateway down") })
		stop := start(t, w)
		time.Sleep(time.Minute)
		mustStop(t, stop)
		if n := strings.Count(b.String(), `msg="sojourn: a job failed"`); n != 1 {
			t.Errorf("logged %d times: %s", n, b.String())
		}
	})
}
