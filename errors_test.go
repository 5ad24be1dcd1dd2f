package sojourn

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// refusal checks the code, the field and that the message can be read by a person.
func refusal(t *testing.T, err error, code, field string) {
	t.Helper()
	e, isOurs := errors.AsType[*Error](err)
	if !isOurs || e.Code != code || e.Field != field {
		t.Errorf("%v; want the code %s and the field %s", err, code, field)
		return
	}
	if len(e.Message) < 5 || len(e.Message) > 500 {
		t.Errorf("a message of %d bytes: %q", len(e.Message), e.Message)
	}
}

const big = 1 << 20

// spec:A3 names and keys, spec:J3 args, spec:J7 timeouts, spec:J11 priority, spec:J12 weight,
// spec:J19 budgets, spec:P2 delay, spec:P4 and spec:J21 tags; inv:N1 ranges, inv:N3 sizes.
func TestJobValidateRefuses(t *testing.T) {
	bytesOf := func(n int) string { return strings.Repeat("x", n) }
	tags := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("t", i))
		}
		return out
	}
	for _, c := range []struct {
		name        string
		option      Option
		code, field string
	}{
		{"spec:A3 no kind", func(j *Job) { j.Kind = "" }, CodeInvalid, "kind"},
		{"spec:A3 kind of 129 bytes", func(j *Job) { j.Kind = bytesOf(129) }, CodeInvalid, "kind"},
		{"spec:A3 kind with a space", func(j *Job) { j.Kind = "charge card" }, CodeInvalid, "kind"},
		{"spec:A3 kind with a newline", func(j *Job) { j.Kind = "charge\n" }, CodeInvalid, "kind"},
		{"spec:A3 kind with a letter outside ASCII", func(j *Job) { j.Kind = "zahlung_für" }, CodeInvalid, "kind"},
		{"spec:A3 no queue", Queue(""), CodeInvalid, "queue"},
		{"spec:A3 queue with a star", Queue("*"), CodeInvalid, "queue"},
		{"spec:A3 key of 256 bytes", Key(bytesOf(256)), CodeInvalid, "key"},
		{"spec:A3 key of spaces", Key("  "), CodeInvalid, "key"},
		{"spec:A3 key with NUL", Key("a\x00b"), CodeInvalid, "key"},
		{"spec:A3 key with DEL", Key("a\x7f"), CodeInvalid, "key"},
		{"spec:A3 key with a C1 control", Key("a\u0085b"), CodeInvalid, "key"},
		{"spec:A3 key that is not UTF-8", Key("a\xff"), CodeInvalid, "key"},
		{"spec:A3 key with half a surrogate pair", Key("a\xed\xa0\x80"), CodeInvalid, "key"},
		{"spec:A3 group with a tab", Group("a\tb"), CodeInvalid, "group"},
		{"spec:A3 group of 256 bytes", Group(bytesOf(256)), CodeInvalid, "group"},
		{"spec:J3 args above the limit", func(j *Job) { j.Args = make([]byte, big+1) }, CodeTooLarge, "args"},
		{"inv:N3 content type", func(j *Job) { j.ContentType = bytesOf(256) }, CodeTooLarge, "content_type"},
		{"spec:J7 timeout -1", Timeout(-1), CodeInvalid, "timeout"},
		{"spec:J7 timeout above ten years", Timeout(MaxHorizon + 1), CodeInvalid, "timeout"},
		{"spec:J7 run timeout", RunTimeout(-time.Second), CodeInvalid, "run_timeout"},
		{"spec:J7 deadline", Deadline(-time.Second), CodeInvalid, "deadline"},
		{"spec:J7 deadline at the end of int64", Deadline(math.MaxInt64), CodeInvalid, "deadline"},
		{"spec:J7 decide_within", WithPolicy(Policy{DecideWithin: -1}), CodeInvalid, "decide_within"},
		{"keep_key", KeepKey(-2), CodeInvalid, "keep_key"},
		{"spec:J12 weight -1", Weight(-1), CodeInvalid, "weight"},
		{"spec:J12 weight above a million", Weight(MaxWeight + 1), CodeInvalid, "weight"},
		{"spec:J12 weight at the end of int32", Weight(math.MaxInt32), CodeInvalid, "weight"},
		{"spec:J19 max_attempts -2", MaxAttempts(-2), CodeInvalid, "max_attempts"},
		{"spec:J19 max_crashes at the end of int32", MaxCrashes(math.MinInt32), CodeInvalid, "max_crashes"},
		{"spec:P2 delay -1", Delay(-1), CodeInvalid, "delay"},
		{"spec:P2 delay above ten years", Delay(MaxHorizon + 1), CodeInvalid, "delay"},
		{"spec:J21 65 tags", Tags(tags(65)...), CodeInvalid, "tags"},
		{"spec:P4 an empty tag", Tags("a", ""), CodeInvalid, "tags"},
		{"spec:P4 a tag with a comma", Tags("a,b"), CodeInvalid, "tags"},
		{"meta above 16 KiB", Meta("trace", bytesOf(MaxMeta)), CodeTooLarge, "meta"},
		{"meta without a name", Meta("", "x"), CodeInvalid, "meta"},
		{"meta that is not UTF-8", Meta("a", "\xff"), CodeInvalid, "meta"},
		{"meta with a name that is not UTF-8", Meta("\xff", "a"), CodeInvalid, "meta"},
		{"inv:N1 backoff.first", RetryBackoff(Backoff{First: -2}), CodeInvalid, "backoff.first"},
		{"inv:N1 backoff.first above ten years", RetryBackoff(Backoff{First: MaxHorizon + 1}), CodeInvalid, "backoff.first"},
		{"inv:N1 backoff.limit", RetryBackoff(Backoff{Limit: -1}), CodeInvalid, "backoff.limit"},
		{"inv:N1 backoff.factor below 1", RetryBackoff(Backoff{Factor: 0.5}), CodeInvalid, "backoff.factor"},
		{"inv:N1 backoff.factor NaN", RetryBackoff(Backoff{Factor: math.NaN()}), CodeInvalid, "backoff.factor"},
		{"inv:N1 backoff.factor infinite", RetryBackoff(Backoff{Factor: math.Inf(1)}), CodeInvalid, "backoff.factor"},
		{"inv:N1 backoff.jitter above 1", RetryBackoff(Backoff{Jitter: 1.5}), CodeInvalid, "backoff.jitter"},
		{"inv:N1 backoff.jitter NaN", RetryBackoff(Backoff{Jitter: math.NaN()}), CodeInvalid, "backoff.jitter"},
		{"unknown on_lost", WithPolicy(Policy{OnLost: 9}), CodeInvalid, "on_lost"},
		{"unknown on_panic", WithPolicy(Policy{OnPanic: 3}), CodeInvalid, "on_panic"},
		{"unknown on_conflict", OnKeyConflict(3), CodeInvalid, "on_conflict"},
		{"inv:N2 id -1", func(j *Job) { j.ID = -1 }, CodeInvalid, "id"},
		{"inv:N2 id 2^53", func(j *Job) { j.ID = 1 << 53 }, CodeInvalid, "id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal(t, NewJob("k", nil, c.option).Validate(big), c.code, c.field)
		})
	}
	refusal(t, (&Job{Kind: "k", Queue: "q"}).Validate(big), CodeInvalid, "job")
	refusal(t, (*Job)(nil).Validate(big), CodeInvalid, "job")
}

func TestJobValidateTakesTheLimits(t *testing.T) {
	for name, option := range map[string]Option{
		"plain":              func(*Job) {},
		"spec:A3 kind":       func(j *Job) { j.Kind = strings.Repeat("a", 128) },
		"spec:A3 every sort": func(j *Job) { j.Kind, j.Queue = "aZ09_.:/-", "Q/1" },
		"spec:A3 key":        Key(strings.Repeat("k", 255)),
		"spec:A3 key in any language, with spaces": Key("Auftrag Nr. 42 – Füße ✓ 注文"),
		"spec:J3 args":       func(j *Job) { j.Args = make([]byte, big) },
		"spec:J3 any bytes":  func(j *Job) { j.Args = []byte("\x00\xff") },
		"spec:J7 timeouts":   WithPolicy(Policy{Timeout: MaxHorizon, RunTimeout: 1, Deadline: MaxHorizon, DecideWithin: 1, KeepKey: MaxHorizon}),
		"spec:J11 lowest":    Priority(math.MaxInt32),
		"spec:J11 highest":   Priority(math.MinInt32),
		"spec:J12 weight 0":  Weight(0),
		"spec:J12 weight":    Weight(MaxWeight),
		"spec:J19 unlimited": WithPolicy(Policy{MaxAttempts: Unlimited, MaxCrashes: Unlimited}),
		"spec:J19 most":      WithPolicy(Policy{MaxAttempts: math.MaxInt32, MaxCrashes: math.MaxInt32}),
		"spec:P2 delay":      Delay(MaxHorizon),
		"spec:P4 tags":       Tags(strings.Split(strings.Repeat("t ", 63)+"t", " ")...),
		"meta":               Meta("m", strings.Repeat("x", MaxMeta-1)),
		"inv:N1 backoff":     RetryBackoff(Backoff{First: -1, Factor: 1000, Limit: MaxHorizon, Jitter: -1}),
		"inv:N2 id":          func(j *Job) { j.ID = 1<<53 - 1 },
	} {
		if err := NewJob("k", nil, option).Validate(big); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// spec:A12: what neither option nor kind says comes from the queue, then from the built-in
// defaults; spec:P4 double tags go.
func TestResolve(t *testing.T) {
	five, nine := int32(5), int32(9)
	q := Policy{Priority: &five, Weight: &nine, MaxAttempts: 7, Timeout: time.Hour, OnLost: Fail}
	j := NewJob("k", nil, Tags("b", "a", "b"), MaxAttempts(2))
	j.Resolve(q)
	if j.Priority != 5 || j.Weight != 9 || j.Policy.MaxAttempts != 2 || j.Policy.Timeout != time.Hour || j.Policy.OnLost != Fail {
		t.Errorf("priority %d, weight %d, policy %+v", j.Priority, j.Weight, j.Policy)
	}
	if p := j.Policy; p.MaxCrashes != DefaultMaxCrashes || p.DecideWithin != DefaultDecideWithin || p.Backoff != (Backoff{}).withDefaults() {
		t.Errorf("built-in defaults: %+v", p)
	}
	if len(j.Tags) != 2 || j.Tags[0] != "b" || j.Tags[1] != "a" {
		t.Errorf("tags %v", j.Tags)
	}
	j = NewJob("k", nil, Priority(100), Weight(0))
	j.Resolve(q)
	if j.Priority != 100 || j.Weight != 0 || j.Tags != nil {
		t.Errorf("what was given explicitly was overwritten: priority %d, weight %d, tags %v", j.Priority, j.Weight, j.Tags)
	}
	j = &Job{Kind: "k", Queue: "q", Priority: 1, Weight: 2}
	j.Explicit(true, false)
	j.Resolve(q)
	if err := j.Validate(big); err != nil || j.Priority != 1 || j.Weight != 9 {
		t.Errorf("from a wire format: %v, priority %d, weight %d", err, j.Priority, j.Weight)
	}
	j = NewJob("k", nil)
	j.Explicit(false, true)
	j.Resolve(q)
	if j.Priority != 5 || j.Weight != 1 {
		t.Errorf("explicit weight: priority %d, weight %d", j.Priority, j.Weight)
	}
	j = NewJob("k", nil)
	j.Resolve(Policy{})
	if j.Priority != 100 || j.Weight != 1 || !reflect.DeepEqual(j.Policy, (Policy{}).withDefaults()) {
		t.Errorf("without a queue's word: %+v", j)
	}
}

// spec:J10 run_at: the past means now, more than ten years ahead is refused.
func TestValidRunAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, at := range []time.Time{{}, now, now.Add(-time.Hour), now.Add(MaxHorizon), time.Unix(0, 0), time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if err := ValidRunAt(at, now); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
	for _, at := range []time.Time{now.Add(MaxHorizon + 1), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(292277, 1, 1, 0, 0, 0, 0, time.UTC)} {
		refusal(t, ValidRunAt(at, now), CodeInvalid, "run_at")
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"short", 5, "short"},
		{strings.Repeat("a", 60), 40, strings.Repeat("a", 40-len("… [cut, 60 bytes]")) + "… [cut, 60 bytes]"},
		{strings.Repeat("ü", 30), 40, strings.Repeat("ü", 10) + "… [cut, 60 bytes]"},
		{strings.Repeat("a", 60), 8, "aaaaaaaa"}, // no room for a mark
		{"aaüü", 3, "aa"},                        // nor for half a character
		{strings.Repeat("a", 60), 0, ""},
		{strings.Repeat("a", 60), -1, ""},
	} {
		if got := Cut(c.text, c.limit); got != c.want {
			t.Errorf("Cut(%.20q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
	if got := Cut(strings.Repeat("\x80", 1000), 500); len(got) < 490 { // bytes that are no text at all
		t.Errorf("of 500 bytes %d are left", len(got))
	}
}

func FuzzCut(f *testing.F) {
	f.Add("", 0)
	f.Add("plain text that is longer than its limit, by far", 30)
	f.Add("Füße ✓ 注文 Füße ✓ 注文 Füße ✓ 注文", 33)
	f.Add(strings.Repeat("\x80", 100), 50)
	f.Add("\xf0\x9f\x98\xf0\x9f\x98\x80\x80\x80\x80", 5)
	f.Add(strings.Repeat("x", 70000), MaxError)
	f.Add("abc", -7)
	f.Add("", -7)
	f.Add("😀", 2)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		got := Cut(text, limit)
		if len(text) <= limit && got != text {
			t.Fatalf("%q was changed to %q although it fits into %d bytes", text, got, limit)
		}
		if len(got) > max(limit, 0) {
			t.Fatalf("%d bytes left of a limit of %d", len(got), limit)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q breaks a character of %q", got, text)
		}
		if len(text) > limit && len(got) < limit-utf8.UTFMax {
			t.Fatalf("only %d bytes left of a limit of %d", len(got), limit)
		}
		if limit >= 40 && len(text) > limit && !strings.HasSuffix(got, fmt.Sprintf("… [cut, %d bytes]", len(text))) {
			t.Fatalf("%q has no mark", got)
		}
	})
}

// spec:A3 1-128 bytes of A-Za-z0-9_.:/-
func FuzzValidName(f *testing.F) {
	for _, s := range []string{"", "a", "charge_card", "a b", "a/b.c:d-e_f", "\x00", "ü", strings.Repeat("a", 128), strings.Repeat("a", 129), "\xff", "A9", "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := len(name) >= 1 && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-") == ""
		err := ValidName("kind", name)
		if (err == nil) != want {
			t.Fatalf("ValidName(%q) = %v, want valid = %v", name, err, want)
		}
		if err != nil {
			refusal(t, err, CodeInvalid, "kind")
		}
		if want && ValidKey("key", name) != nil { // every name may be a key
			t.Fatalf("%q is a name, but not a key", name)
		}
	})
}
