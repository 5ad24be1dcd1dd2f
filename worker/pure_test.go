package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// serve plays a store that gives one job a claim from the first queue that has one.
func serve(o *order, have map[string]int) string {
	var got strings.Builder
	for {
		queues, share := o.next(1)
		if share != nil {
			return "shares asked for with one job"
		}
		from := ""
		for _, q := range queues {
			if have[q] > 0 {
				from = q
				break
			}
		}
		if from == "" {
			return got.String()
		}
		have[from]--
		o.took([]string{from})
		got.WriteString(from)
	}
}

func TestOrders(t *testing.T) {
	cba := []string{"C", "B", "A"}
	for _, c := range []struct {
		name    string
		options Options
		have    map[string]int
		want    string
	}{
		{"spec:O8 in order", Options{Queues: cba}, map[string]int{"A": 5, "B": 2, "C": 3}, "CCCBBAAAAA"},
		{"spec:O9 round robin", Options{Queues: cba, Order: RoundRobin}, map[string]int{"A": 5, "B": 2, "C": 3}, "CBACBACAAA"},
		{"shares", Options{Queues: []string{"A", "B"}, Shares: map[string]int{"A": 3, "B": 1}}, map[string]int{"A": 6, "B": 2}, "ABAAABAA"},
		{"shares, one queue alone", Options{Queues: []string{"A", "B"}, Shares: map[string]int{"A": 3, "B": 1}}, map[string]int{"B": 3}, "BBB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := serve(newOrder(c.options, "seed"), c.have); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// An empty queue saves up no claims for the time when it has jobs again, and the position is
// remembered between claims: spec:O9.
func TestOrderSavesNothingUp(t *testing.T) {
	o := newOrder(Options{Queues: []string{"A", "B"}, Order: RoundRobin}, "seed")
	serve(o, map[string]int{"A": 100})
	if got := serve(o, map[string]int{"A": 4, "B": 4}); got != "BABABABA" {
		t.Errorf("got %s, want BABABABA", got)
	}
	o.took([]string{"A", "A", "B"}) // a claim of several jobs
	if queues, share := o.next(5); queues[0] != "B" || share["A"] != 1 || share["B"] != 1 {
		t.Errorf("got %v, %v: want B first, and shares for several jobs", queues, share)
	}
}

func TestNearestLimit(t *testing.T) {
	c := func(run, timeout, deadline time.Duration) *driver.Claimed {
		return &driver.Claimed{Job: sojourn.Job{Policy: sojourn.Policy{RunTimeout: run}}, Timeout: timeout, Deadline: deadline}
	}
	for _, test := range []struct {
		c    *driver.Claimed
		want string
	}{
		{c(0, 0, 0), ""}, {c(1, 2, 3), "run_timeout"}, {c(0, 2, 3), "timeout"}, {c(2, 3, 1), "deadline"}, {c(0, -1, 5), "timeout"},
	} {
		got := ""
		if l := nearest(test.c); l != nil {
			got = l.Reason
		}
		if got != test.want {
			t.Errorf("%v: got %q, want %q", test.c, got, test.want)
		}
	}
}

// What a handler's return means, by the cause with which its context had ended before: inv:J2,
// rules:A4.
func TestOutcomes(t *testing.T) {
	limit := func(reason string) error { return &LimitError{Reason: reason, Limit: time.Second} }
	other := fmt.Errorf("request: %w", context.Canceled)
	for _, c := range []struct {
		name       string
		err, cause error
		want       sojourn.OutcomeType
		reason     string
		final      bool
	}{
		{"done", nil, nil, sojourn.OutcomeCompleted, "", false},
		{"done after the shutdown began", nil, ErrShutdown, sojourn.OutcomeCompleted, "", false},
		{"done too late", nil, limit("run_timeout"), sojourn.OutcomeCompleted, "", false},
		{"await after the shutdown began", sojourn.Await(0), ErrShutdown, sojourn.OutcomeAwait, "", false},
		{"abort after the shutdown began", sojourn.Abort(errBoom), ErrShutdown, sojourn.OutcomeAbort, "boom", false},
		{"error", sojourn.WithReason("declined", errBoom), nil, sojourn.OutcomeError, "declined", false},
		{"own cancelled context", other, nil, sojourn.OutcomeError, "request: context canceled", false},
		{"shutdown", other, ErrShutdown, sojourn.OutcomeReleased, "", false},
		{"shutdown, worded otherwise", errBoom, ErrShutdown, sojourn.OutcomeReleased, "", false},
		{"window closed", other, ErrWindowClosed, sojourn.OutcomeReleased, "", false},
		{"done after the window closed", nil, ErrWindowClosed, sojourn.OutcomeCompleted, "", false},
		{"not extended", other, ErrNotExtended, sojourn.OutcomeReleased, "", false},
		{"strict lease over", other, ErrLeaseOver, sojourn.OutcomeError, "lease_lost", false},
		{"run timeout", other, limit("run_timeout"), sojourn.OutcomeError, "run_timeout", false},
		{"timeout", other, limit("timeout"), sojourn.OutcomeError, "timeout", false},
		{"deadline", other, limit("deadline"), sojourn.OutcomeError, "deadline", true},
		{"undecodable", fmt.Errorf("seen: %w", &undecodable{errBoom}), nil, sojourn.OutcomeUndecodable, "undecodable", false},
		{"panic", &panicError{"panic: x"}, ErrShutdown, sojourn.OutcomeError, "panic", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &step{job: &sojourn.Job{}}
			o := s.outcome(c.err, c.cause)
			if o.Type != c.want || o.Verdict.Final != c.final || o.Reason != c.reason {
				t.Errorf("got %s, %q, final %v", o.Type, o.Reason, o.Verdict.Final)
			}
		})
	}
}

func TestCauses(t *testing.T) {
	for _, err := range []error{ErrCancelled, ErrNotExtended, ErrLeaseOver} {
		if !errors.Is(err, sojourn.ErrLeaseLost) {
			t.Errorf("%v is not ErrLeaseLost", err)
		}
	}
	err := fmt.Errorf("wrapped: %w", &LimitError{Reason: sojourn.ReasonTimeout, Limit: time.Minute})
	if l, ok := errors.AsType[*LimitError](err); !ok || l.Reason != "timeout" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not DeadlineExceeded, or no LimitError", err)
	}
}

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("***") }

func TestJobLogText(t *testing.T) {
	h := &jobLog{lines: &lines{attempt: 3, wake: make(chan struct{}, 1)}}
	l := slog.New(h).With("n", 1).WithGroup("req").With("id", "a b")
	l.Warn("slow call", "took", time.Second, slog.Group("in", "q", `say "hi"`), "key", secret("x"), "empty", "", slog.Attr{})
	l.WithGroup("").Debug("no attributes")
	want := `slow call n=1 req.id="a b" req.took=1s req.in.q="say \"hi\"" req.key=*** req.empty=""`
	got := h.take()
	if len(got) != 2 || got[0].Text != want || got[0].Level != "WARN" || got[0].Attempt != 3 || got[1].Level != "DEBUG" {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
	l.Info(strings.Repeat("x", 10_000))
	if got := h.take(); len(got[0].Text) > sojourn.MaxProgress || !strings.Contains(got[0].Text, "cut, 10") {
		t.Errorf("a long line is not cut with a mark: %d bytes", len(got[0].Text))
	}
}

// The log of a step is bounded: its first line and the newest 99 stay, and the line behind a gap
// says how many are missing.
func TestJobLogIsBounded(t *testing.T) {
	h := &jobLog{lines: &lines{attempt: 1, wake: make(chan struct{}, 1)}}
	l := slog.New(h)
	for i := range 250 {
		l.Info(fmt.Sprint(i))
	}
	got := h.take()
	if len(got) != 100 || got[0].Text != "0" || got[1].Text != "151" || got[1].Dropped != 150 || got[99].Text != "249" {
		t.Fatalf("got %d lines: %+v, %+v … %+v", len(got), got[0], got[1], got[len(got)-1])
	}
	l.Info("250")
	h.putBack(got) // they could not be saved
	got = h.take()
	if len(got) != 100 || got[0].Text != "0" || got[1].Text != "152" || got[1].Dropped != 151 || got[99].Text != "250" {
		t.Errorf("after putBack: %d lines: %+v, %+v … %+v", len(got), got[0], got[1], got[len(got)-1])
	}
	for i := range 101 { // later lines: the first one of the step is stored already
		l.Info(fmt.Sprint(300 + i))
	}
	if got = h.take(); len(got) != 100 || got[0].Text != "301" || got[0].Dropped != 1 {
		t.Errorf("later: %d lines: %+v", len(got), got[0])
	}
}

func TestBackoffIsCapped(t *testing.T) {
	b := backoff{first: 100 * time.Millisecond, limit: time.Second}
	var got []time.Duration
	for range 6 {
		got = append(got, b.next())
	}
	if fmt.Sprint(got) != "[100ms 200ms 400ms 800ms 1s 1s]" {
		t.Error(got)
	}
	if b.reset(); b.next() != 100*time.Millisecond {
		t.Error("reset does not start anew")
	}
}
