package sojourn

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

type charge struct {
	Order string
	Cents int
}

var chargeCard = Kind[charge]{
	Name: "charge_card", Queue: "payments", Key: func(c charge) string { return "order-" + c.Order },
	Group: func(c charge) string { return "cents-" + fmt.Sprint(c.Cents) }, Tags: []string{"money"},
	Policy: Policy{MaxAttempts: 4, MaxCrashes: 2, RunTimeout: time.Minute, Timeout: time.Hour, Deadline: 48 * time.Hour, DecideWithin: time.Second,
		KeepKey: time.Hour, Backoff: Backoff{First: time.Second}, OnLost: Fail, OnPanic: Fail, LateToInbox: new(true), NoExtend: new(true),
		StopAtWindowEnd: new(true), Windows: []Windows{{{Start: "00:00", End: "24:00"}}}, Priority: new(int32(7)), Weight: new(int32(2))},
}

func TestKindNewUsesTheKindsDefaults(t *testing.T) {
	j := chargeCard.New(charge{"42", 1999})
	if j.Kind != "charge_card" || j.Queue != "payments" || j.Key != "order-42" || j.Group != "cents-1999" || j.Priority != 7 || j.Weight != 2 {
		t.Errorf("%+v", j)
	}
	if string(j.Args) != `{"Order":"42","Cents":1999}` || j.ContentType != "application/json" {
		t.Errorf("args %s, %s", j.Args, j.ContentType)
	}
	want := Policy{MaxAttempts: 4, MaxCrashes: 2, RunTimeout: time.Minute, Timeout: time.Hour, Deadline: 48 * time.Hour, DecideWithin: time.Second,
		KeepKey: time.Hour, Backoff: Backoff{First: time.Second}, OnLost: Fail, OnPanic: Fail, LateToInbox: new(true), NoExtend: new(true),
		Windows: []Windows{{{Start: "00:00", End: "24:00"}}}, StopAtWindowEnd: new(true)}
	for _, d := range unequal(j.Policy, want) {
		t.Error(d)
	}
	if !reflect.DeepEqual(j.Tags, []string{"money"}) || j.Meta != nil {
		t.Errorf("tags %v, meta %v", j.Tags, j.Meta)
	}
	if priority, weight := j.Given(); !priority || !weight {
		t.Error("the defaults of the queue replace priority and weight of the kind")
	}
	if err := j.Validate(big); err != nil {
		t.Error(err)
	}
	if got, err := chargeCard.Decode(j); err != nil || got != (charge{"42", 1999}) {
		t.Errorf("%+v, %v", got, err)
	}
	if j.State != 0 || j.ID != 0 || j.Generation != 0 {
		t.Errorf("New sets what belongs to the store: %+v", j)
	}
}

// Every field of a policy, also one that is added later, is inherited.
func TestPolicyInheritsEveryField(t *testing.T) {
	own := chargeCard.Policy
	if !allSet(own) {
		t.Errorf("the policy of the test leaves something out: %+v", own)
	}
	got := (Policy{}).or(own)
	got.Priority, got.Weight = own.Priority, own.Weight // belong to the job, see WithPolicy
	if !allSet(got) {
		t.Errorf("or leaves something out: %+v", got)
	}
}

// Only WithPolicy, a kind and a queue take priority and weight from a policy; elsewhere they would
// do nothing.
func TestPolicyWithPriorityIsRefused(t *testing.T) {
	p := Policy{Priority: new(int32(1))}
	for name, err := range map[string]error{
		"job":  (&Job{Kind: "k", Queue: "q", Policy: p, set: setMade}).Validate(big),
		"edit": Edit{Action: EditChange, Policy: &p}.Validate(big),
	} {
		if ErrorCode(err) != CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func allSet(p Policy) bool {
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			return false
		}
	}
	return true
}

// spec:A12 option > kind's policy.
func TestKindOptionsWin(t *testing.T) {
	k := chargeCard
	k.Policy.MaxAttempts, k.Policy.Timeout = 9, 2*time.Hour
	at := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	j := k.New(charge{"42", 1}, Queue("slow"), Key("mine"), Group("eu"), Priority(-3), Weight(0), RunAt(at), Tags("x", "y"), Meta("a", "b"),
		MaxAttempts(2), MaxCrashes(Unlimited), RunTimeout(1), Deadline(3), KeepKey(4), RetryBackoff(Backoff{Limit: time.Minute}), OnKeyConflict(Replace),
		WithPolicy(Policy{DecideWithin: 5}))
	if j.Queue != "slow" || j.Key != "mine" || j.Group != "eu" || j.Priority != -3 || j.Weight != 0 || !j.RunAt.Equal(at) || j.OnConflict != Replace {
		t.Errorf("%+v", j)
	}
	if !reflect.DeepEqual(j.Tags, []string{"money", "x", "y"}) || !reflect.DeepEqual(j.Meta, map[string]string{"a": "b"}) {
		t.Errorf("tags %v, meta %v", j.Tags, j.Meta)
	}
	want := Policy{MaxAttempts: 2, MaxCrashes: Unlimited, RunTimeout: 1, Timeout: 2 * time.Hour, Deadline: 3, DecideWithin: 5, KeepKey: 4,
		Backoff: Backoff{Limit: time.Minute}, OnLost: Fail, OnPanic: Fail, LateToInbox: new(true), NoExtend: new(true),
		Windows: []Windows{{{Start: "00:00", End: "24:00"}}}, StopAtWindowEnd: new(true)}
	for _, d := range unequal(j.Policy, want) {
		t.Error(d)
	}
	if j := k.New(charge{"1", 1}, Delay(time.Minute), RunAt(at)); j.Delay != 0 || !j.RunAt.Equal(at) {
		t.Errorf("delay %v and run_at %v", j.Delay, j.RunAt)
	}
	if j := k.New(charge{"1", 1}, RunAt(at), Delay(time.Minute)); j.Delay != time.Minute || !j.RunAt.IsZero() {
		t.Errorf("delay %v and run_at %v", j.Delay, j.RunAt)
	}
}

// A kind is a package variable: jobs made of it share nothing that can be changed.
func TestKindJobsShareNothing(t *testing.T) {
	a, b := chargeCard.New(charge{"1", 1}, Meta("x", "1"), Tags("a")), chargeCard.New(charge{"2", 2}, Meta("x", "2"), Tags("b"))
	a.Meta["y"], a.Tags[0] = "z", "changed"
	if b.Meta["x"] != "2" || b.Meta["y"] != "" || b.Tags[0] != "money" || b.Tags[1] != "b" {
		t.Errorf("tags %v, meta %v", b.Tags, b.Meta)
	}
	shared := []Option{Tags("one"), Meta("m", "n")}
	c, d := NewJob("k", nil, shared...), NewJob("k", nil, shared...)
	c.Tags[0], c.Meta["m"] = "other", "other"
	if d.Tags[0] != "one" || d.Meta["m"] != "n" {
		t.Errorf("tags %v, meta %v", d.Tags, d.Meta)
	}
}

func TestKindArgsThatDoNotEncode(t *testing.T) {
	j := Kind[func()]{Name: "k"}.New(func() {})
	refusal(t, j.Validate(big), CodeInvalid, "args")
	j = Kind[string]{Name: "k", Codec: Bytes}.New("text")
	refusal(t, j.Validate(big), CodeInvalid, "args")
	if _, err := (Kind[charge]{Name: "k"}).Decode(NewJob("k", []byte("{"))); err == nil {
		t.Error("half an object decodes")
	}
	if _, err := (Kind[string]{Name: "k", Codec: Bytes}).Decode(NewJob("k", []byte("x"))); err == nil {
		t.Error("the Bytes codec fills a string")
	}
}

// spec:J3 args are opaque bytes, byte for byte.
func TestKindBytes(t *testing.T) {
	k := Kind[[]byte]{Name: "raw", Codec: Bytes}
	for _, args := range [][]byte{nil, {}, {0, 255, '\n'}, []byte(`{"a" : 1}`)} {
		j := k.New(args)
		if got, err := k.Decode(j); err != nil || string(got) != string(args) || j.ContentType != "application/octet-stream" {
			t.Errorf("%q: %q, %v, %s", args, got, err, j.ContentType)
		}
	}
}

type hexCodec struct{ Codec }

var errOdd = errors.New("odd")

func (hexCodec) Decode([]byte, any) error     { return fmt.Errorf("hex: %w", errOdd) }
func (hexCodec) Encode(v any) ([]byte, error) { return fmt.Appendf(nil, "%x", v), nil }
func (hexCodec) ContentType() string          { return "text/x-hex" }

func TestKindOwnCodec(t *testing.T) {
	k := Kind[int]{Name: "k", Codec: hexCodec{JSON}}
	j := k.New(255)
	if string(j.Args) != "ff" || j.ContentType != "text/x-hex" || j.Queue != DefaultQueue || j.Key != "" {
		t.Errorf("%+v", j)
	}
	if _, err := k.Decode(j); !errors.Is(err, errOdd) {
		t.Errorf("the codec's error is lost: %v", err)
	}
}

func TestNewJob(t *testing.T) {
	j := NewJob("k", []byte("1"), Weight(3))
	if j.Kind != "k" || j.Queue != "default" || j.Priority != 100 || j.Weight != 3 || j.ContentType != "application/json" || string(j.Args) != "1" {
		t.Errorf("%+v", j)
	}
	if err := j.Validate(big); err != nil {
		t.Error(err)
	}
}

// unequal lists the fields of two structs that differ.
func unequal(got, want any) []string {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	var out []string
	for i := range g.NumField() {
		if a, b := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			out = append(out, fmt.Sprintf("%s = %v, want %v", g.Type().Field(i).Name, a, b))
		}
	}
	return out
}
