package sojourn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type declined struct{ code int }

func (d *declined) Error() string { return fmt.Sprintf("declined with code %d", d.code) }

type plainKind string

func (p plainKind) Error() string { return string(p) }

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want Outcome
	}{
		{"nil", nil, Outcome{Type: OutcomeCompleted}},
		{"plain", errors.New("no route"), Outcome{Type: OutcomeError, Reason: "no route", Text: "no route"}},
		{"of a type", &declined{7}, Outcome{Type: OutcomeError, Reason: "sojourn.declined", Text: "declined with code 7"}},
		{"wrapped", fmt.Errorf("order 42: %w", &declined{7}), Outcome{Type: OutcomeError, Reason: "sojourn.declined", Text: "order 42: declined with code 7"}},
		{"await", Await(time.Hour), Outcome{Type: OutcomeAwait, Wait: Wait{Within: time.Hour}}},
		{"await until the timeout", Await(0), Outcome{Type: OutcomeAwait}},
		{"await, wrapped", fmt.Errorf("sent: %w", Await(time.Hour)), Outcome{Type: OutcomeAwait, Wait: Wait{Within: time.Hour}}},
		{"await, joined with nil", errors.Join(nil, Await(time.Hour)), Outcome{Type: OutcomeAwait, Wait: Wait{Within: time.Hour}}},
		{"await any", AwaitAny(time.Hour, "a", "b"), Outcome{Type: OutcomeAwait, Wait: Wait{Keys: []string{"a", "b"}, Within: time.Hour}}},
		{"await all", AwaitAll(0, "a"), Outcome{Type: OutcomeAwait, Wait: Wait{Mode: WaitAll, Keys: []string{"a"}}}},
		{"await none of all", AwaitAll(0), Outcome{Type: OutcomeError, Reason: CodeInvalid,
			Text: "sojourn: keys: no keys: give AwaitAny and AwaitAll at least one key, or use Await for the job's own key (invalid)"}},
		{"with a beat", WithBeat(time.Minute, AwaitAny(0, "a")), Outcome{Type: OutcomeAwait, Wait: Wait{Keys: []string{"a"}, Beat: time.Minute}}},
		{"with a beat, of no key", WithBeat(time.Minute, AwaitAny(0)), Outcome{Type: OutcomeError, Reason: CodeInvalid,
			Text: "sojourn: keys: no keys: give AwaitAny and AwaitAll at least one key, or use Await for the job's own key (invalid)"}},
		{"with a beat of nothing", WithBeat(0, Await(0)), Outcome{Type: OutcomeError, Reason: CodeInvalid,
			Text: "sojourn: beat: 0s is out of range: more than 0, up to 10 years (invalid)"}},
		{"with a beat, but not waiting", WithBeat(time.Minute, nil), Outcome{Type: OutcomeError, Reason: CodeInvalid,
			Text: "sojourn: beat: this error is not a wait: pass WithBeat the result of Await, AwaitAny or AwaitAll (invalid)"}},
		{"snooze", Snooze(time.Minute), Outcome{Type: OutcomeSnooze, Delay: time.Minute}},
		{"hold", Hold("psp", time.Minute), Outcome{Type: OutcomeHold, Queue: "psp", Delay: time.Minute}},
		{"hold, wrapped, of its own queue", fmt.Errorf("429: %w", Hold("", time.Hour)), Outcome{Type: OutcomeHold, Delay: time.Hour}},
		{"hold for no time", Hold("psp", 0), Outcome{Type: OutcomeHold, Queue: "psp", Delay: time.Second}},
		{"hold for a week", Hold("psp", 168*time.Hour), Outcome{Type: OutcomeHold, Queue: "psp", Delay: MaxHold}},
		{"hold below zero", Hold("psp", -1), Outcome{Type: OutcomeError, Reason: CodeInvalid, Text: "sojourn: hold with a negative duration"}},
		{"abort", Abort(&declined{7}), Outcome{Type: OutcomeAbort, Reason: "sojourn.declined", Text: "declined with code 7"}},
		{"abort, wrapped", fmt.Errorf("order 42: %w", Abort(&declined{7})),
			Outcome{Type: OutcomeAbort, Reason: "sojourn.declined", Text: "order 42: declined with code 7"}},
		{"abort without an error", Abort(nil), Outcome{Type: OutcomeAbort, Reason: "sojourn: abort", Text: "sojourn: abort"}},
		{"abort without an error, wrapped", fmt.Errorf("card expired: %w", Abort(nil)),
			Outcome{Type: OutcomeAbort, Reason: "card expired: sojourn: abort", Text: "card expired: sojourn: abort"}},
		{"cancel", Cancel(errors.New("order gone")), Outcome{Type: OutcomeCancelled, Reason: "order gone", Text: "order gone"}},
		{"cancel without an error", Cancel(nil), Outcome{Type: OutcomeCancelled, Reason: "sojourn: cancel", Text: "sojourn: cancel"}},
		{"again", Again(io.ErrUnexpectedEOF),
			Outcome{Type: OutcomeError, Verdict: Verdict{Again: true}, Reason: "unexpected EOF", Text: "unexpected EOF"}},
		{"again without an error", Again(nil),
			Outcome{Type: OutcomeError, Verdict: Verdict{Again: true}, Reason: "sojourn: error", Text: "sojourn: error"}},
		{"with a reason", WithReason("card_declined", &declined{7}), Outcome{Type: OutcomeError, Reason: "card_declined", Text: "declined with code 7"}},
		{"with a reason, inside an abort", Abort(WithReason("card_declined", &declined{7})),
			Outcome{Type: OutcomeAbort, Reason: "card_declined", Text: "declined with code 7"}},
		{"with a reason, around an abort", WithReason("card_declined", Abort(&declined{7})),
			Outcome{Type: OutcomeAbort, Reason: "card_declined", Text: "declined with code 7"}},
		{"the outer reason wins", WithReason("outer", WithReason("inner", io.EOF)), Outcome{Type: OutcomeError, Reason: "outer", Text: "EOF"}},
		{"an empty reason gives way", WithReason("", WithReason("inner", io.EOF)), Outcome{Type: OutcomeError, Reason: "inner", Text: "EOF"}},
		{"an empty reason alone", WithReason("", &declined{7}), Outcome{Type: OutcomeError, Reason: "sojourn.declined", Text: "declined with code 7"}},
		{"no error stays none", WithReason("card_declined", nil), Outcome{Type: OutcomeCompleted}},
		{"joined", errors.Join(io.EOF, &declined{7}),
			Outcome{Type: OutcomeError, Reason: "EOF declined with code #", Text: "EOF\ndeclined with code 7"}},
		{"joined with an abort", errors.Join(io.EOF, Abort(&declined{7})),
			Outcome{Type: OutcomeAbort, Reason: "EOF declined with code #", Text: "EOF\ndeclined with code 7"}},
		{"a refusal of the library", Invalid("key", "is bad"), Outcome{Type: OutcomeError, Reason: CodeInvalid, Text: "sojourn: key: is bad (invalid)"}},
		{"a lost lease", ErrLeaseLost, Outcome{Type: OutcomeError, Reason: "sojourn: lease lost", Text: "sojourn: lease lost"}},
		{"await below zero", Await(-1),
			Outcome{Type: OutcomeError, Reason: CodeInvalid, Text: "sojourn: await with a negative duration"}},
		{"snooze below zero, wrapped", fmt.Errorf("later: %w", Snooze(-time.Hour)),
			Outcome{Type: OutcomeError, Reason: CodeInvalid, Text: "sojourn: snooze with a negative duration"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := OutcomeOf(c.err)
			for _, d := range unequal(got, c.want) {
				t.Error(d)
			}
		})
	}
}

// TestDetails (spec:J8): the detail of an error is JSON, and what cannot be stored is replaced.
func TestDetails(t *testing.T) {
	cause := errors.New("it went wrong")
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"none", "", cause},
		{"an object", `{"status":503}`, WithDetail(map[string]int{"status": 503}, cause)},
		{"the outermost one", "1", fmt.Errorf("outer: %w", WithDetail(1, WithDetail(2, cause)))},
		{"of an abort", "1", Abort(WithDetail(1, cause))},
		{"around an abort", "1", WithDetail(1, Abort(cause))},
		{"of a snooze", "", WithDetail(1, Snooze(time.Second))},
		{"too large", `{"$cut":65537}`, WithDetail(strings.Repeat("x", MaxError-1), cause)},
		{"no JSON", `{"$invalid":"json: unsupported type: chan int"}`, WithDetail(make(chan int), cause)},
	} {
		if got := string(OutcomeOf(c.err).Detail); got != c.want {
			t.Errorf("%s: %.80s, want %s", c.name, got, c.want)
		}
	}
	if WithDetail(1, nil) != nil {
		t.Error("a nil error has become another")
	}
	if a, b := ReasonOf(WithDetail(1, cause)), ReasonOf(cause); a != b {
		t.Errorf("the reason is %s with a detail, %s without", a, b)
	}
}

// spec:J8 an error text is cut with a mark, and never a reason to refuse an outcome; spec:R5 a
// reason has at most 128 bytes.
func TestOutcomeOfLongErrors(t *testing.T) {
	o := OutcomeOf(WithReason(strings.Repeat("ü", 100), errors.New(strings.Repeat("x", 200_000))))
	if len(o.Text) != MaxError || !strings.HasSuffix(o.Text, "… [cut, 200000 bytes]") {
		t.Errorf("%d bytes of text, ending in %q", len(o.Text), o.Text[len(o.Text)-30:])
	}
	if len(o.Reason) > MaxReason || !utf8.ValidString(o.Reason) || !strings.HasPrefix(o.Reason, "üüü") {
		t.Errorf("reason %q", o.Reason)
	}
}

// spec:R5 a reason is never empty, and equal for errors that differ only in numbers and quoted
// parts.
func TestReasonOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("order 4711 not found"), "order # not found"},
		{fmt.Errorf("order %q: timeout after %dms", "A-77", 1500), `order "…": timeout after #ms`},
		{fmt.Errorf("a %w", errors.New("b")), "a b"},
		{errors.New("line\none\ttwo"), "line one two"},
		{errors.New(""), "error"},
		{errors.New(" \n "), "error"},
		{errors.New("\x00"), "error"},
		{errors.New(`unfinished "quote 12`), `unfinished "…"`},
		{plainKind(""), "sojourn.plainKind"},
		{&fs.PathError{Op: "open", Path: "/tmp/x1", Err: fs.ErrNotExist}, "fs.PathError"},
		{fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}), "fs.PathError"},
		{context.DeadlineExceeded, "context.deadlineExceededError"},
		{fmt.Errorf("%w and %w", io.EOF, &declined{3}), "EOF and declined with code #"},
		{TooLarge("args", 9, 8), CodeTooLarge},
		{fmt.Errorf("x: %w", Conflict("no")), CodeConflict},
		{&Error{Index: -1, Message: "no code"}, "sojourn.Error"},
		{Abort(nil), "sojourn: abort"},
	} {
		if got := ReasonOf(c.err); got != c.want {
			t.Errorf("ReasonOf(%q) = %q, want %q", c.err, got, c.want)
		}
	}
	for _, text := range []string{strings.Repeat("word ", 100), strings.Repeat("7", 1000), strings.Repeat("✓", 100), "\xff\xfe", strings.Repeat(`"a" `, 50)} {
		got := ReasonOf(errors.New(text))
		if got == "" || len(got) > MaxReason || !utf8.ValidString(got) {
			t.Errorf("ReasonOf(%.20q…) = %q (%d bytes)", text, got, len(got))
		}
	}
}

func TestVerdictErrorsAreErrors(t *testing.T) {
	cause := &declined{7}
	for _, err := range []error{Abort(cause), Cancel(cause), Again(cause), WithReason("r", cause), fmt.Errorf("x: %w", Abort(cause))} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "declined with code 7") {
			t.Errorf("%v has lost its cause", err)
		}
	}
	for _, err := range []error{Await(0), Snooze(0), Hold("", 0), Abort(nil), Cancel(nil), Again(nil)} {
		if err.Error() == "" || errors.Unwrap(err) != nil {
			t.Errorf("%q unwraps to %v", err, errors.Unwrap(err))
		}
	}
	if WithReason("r", nil) != nil {
		t.Error("a reason makes an error out of none")
	}
}
