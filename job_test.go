package sojourn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// spec:J6: the nine states, and which of them are final.
func TestStateNames(t *testing.T) {
	names := map[State]string{Blocked: "blocked", Scheduled: "scheduled", Ready: "ready", Running: "running", Awaiting: "awaiting",
		Errored: "errored", Completed: "completed", Failed: "failed", Cancelled: "cancelled"}
	for s, name := range names {
		got, err := ParseState(name)
		if err != nil || got != s || s.String() != name {
			t.Errorf("%d is %q, %q is %d, %v", s, s, name, got, err)
		}
		if final := s == Completed || s == Failed || s == Cancelled; s.Final() != final || s.Live() == final {
			t.Errorf("%s: final %v, live %v", s, s.Final(), s.Live())
		}
	}
	if State(0).Final() || State(0).Live() || State(0).String() != "none" || State(99).String() != "State(99)" {
		t.Errorf("%s, %s", State(0), State(99))
	}
	for _, name := range []string{"", "none", "Ready", "ready ", "done", strings.Repeat("x", 1000)} {
		_, err := ParseState(name)
		refusal(t, err, CodeInvalid, "state")
	}
}

func TestPurposeNames(t *testing.T) {
	for p, name := range map[Purpose]string{NoPurpose: "", PurposeStart: "start", PurposeResume: "resume", PurposeDecide: "decide", PurposePoll: "poll",
		99: "Purpose(99)"} {
		if p.String() != name {
			t.Errorf("%d is %q, want %q", p, p.String(), name)
		}
	}
	var p Purpose
	refusal(t, p.UnmarshalText([]byte("stop")), CodeInvalid, "purpose")
}

// What a store answers travels over HTTP: every state and purpose comes back as it was, also the
// ones that are not set.
func TestStatesTravelAsJSON(t *testing.T) {
	for s := range Cancelled + 1 {
		for p := range PurposePoll + 1 {
			in := HistoryEntry{Seq: 1, State: s, Purpose: p}
			text, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var out HistoryEntry
			if err := json.Unmarshal(text, &out); err != nil || !reflect.DeepEqual(in, out) {
				t.Errorf("%s: %v, %+v, want %+v", text, err, out, in)
			}
		}
	}
	in := map[State]int64{Ready: 3, Failed: 1}
	text, err := json.Marshal(in)
	var out map[State]int64
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s: %v, %v", text, err, out)
	}
	made := *NewJob("k", []byte(`{}`))
	if text, err = json.Marshal(Outcome{Type: OutcomeCompleted, Next: []Job{made}}); err != nil {
		t.Fatal(err)
	}
	var o Outcome
	if err := json.Unmarshal(text, &o); err != nil || len(o.Next) != 1 || o.Next[0].Kind != "k" || o.Next[0].Priority != 100 {
		t.Errorf("a job to enqueue does not come back from JSON: %v, %+v", err, o)
	}
}

func TestJobOutsideAHandler(t *testing.T) {
	j := NewJob("k", nil)
	refusal(t, j.SaveCheckpoint(context.Background(), nil), CodeInvalid, "job")
	refusal(t, j.SetProgress(context.Background(), "x"), CodeInvalid, "job")
	refusal(t, j.SetKey(context.Background(), "x"), CodeInvalid, "job")
	j.Log().Error("goes nowhere")
}

func TestJobSetResult(t *testing.T) {
	for _, c := range []struct {
		v         any
		want, typ string
	}{
		{[]byte("\x00\xff"), "\x00\xff", "application/octet-stream"},
		{map[string]int{"a": 1}, `{"a":1}`, "application/json"},
		{"text", `"text"`, "application/json"},
		{nil, "null", "application/json"},
	} {
		j := NewJob("k", nil)
		if err := j.SetResult(c.v); err != nil || string(j.Result) != c.want || j.ResultType != c.typ {
			t.Errorf("%v: %q, %s, %v", c.v, j.Result, j.ResultType, err)
		}
	}
	j := NewJob("k", nil)
	refusal(t, j.SetResult(func() {}), CodeInvalid, "result")
	if j.Result != nil {
		t.Errorf("a refused result is kept: %q", j.Result)
	}
}

// spec:S6, rules:A8 the key for the outside is the same over all attempts; the fence rises with
// every claim.
func TestJobIdempotencyKeyAndFence(t *testing.T) {
	j := &Job{ID: 42, Instance: "main", Generation: 2, Attempt: 3, Epoch: 9, Worker: "w"}
	before := j.IdempotencyKey()
	if before != "main-42-2" || j.Fence() != 9 || j.Lease() != (Lease{42, 9, "w"}) {
		t.Errorf("%s, %d, %+v", before, j.Fence(), j.Lease())
	}
	if j.Attempt, j.Epoch, j.Worker = 4, 10, "x"; j.IdempotencyKey() != before {
		t.Error("the idempotency key changes with the attempt")
	}
	if j.Generation++; j.IdempotencyKey() == before {
		t.Error("the idempotency key outlives a redrive")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		is   error
		text string
	}{
		{Invalid("key", "has %d bytes", 300), CodeInvalid, nil, "sojourn: key: has 300 bytes (invalid)"},
		{Conflict("job %d is running", 7), CodeConflict, ErrConflict, "sojourn: job 7 is running (conflict)"},
		{NotFound("no job %d", 7), CodeNotFound, ErrNotFound, "sojourn: no job 7 (not_found)"},
		{AtIndex(3, fmt.Errorf("wrapped: %w", Invalid("key", "is bad"))), CodeInvalid, nil, "sojourn: job 3 of the batch: key: is bad (invalid)"},
		{AtIndex(0, Conflict("no")), CodeConflict, ErrConflict, "sojourn: job 0 of the batch: no (conflict)"},
		{errors.New("other"), "", nil, "other"},
	} {
		if ErrorCode(c.err) != c.code || c.err.Error() != c.text || c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%q: code %q; want %q, %q, %v", c.err, ErrorCode(c.err), c.text, c.code, c.is)
		}
	}
	first := Invalid("key", "is bad")
	if AtIndex(5, first); first.Index != -1 {
		t.Error("AtIndex changes the error it is given")
	}
	if plain := errors.New("x"); AtIndex(1, plain) != plain {
		t.Error("an error without a code does not come back as it is")
	}
	if ErrorCode(nil) != "" {
		t.Error("nil has a code")
	}
	refusal(t, TooLarge("args", 9, 8), CodeTooLarge, "args")
	if text := TooLarge("args", 900, 800).Error(); !strings.Contains(text, "900") || !strings.Contains(text, "800") {
		t.Errorf("%q names neither size nor limit", text)
	}
}
