package sojourn

import (
	"reflect"
	"testing"
	"time"
)

func TestEditValidate(t *testing.T) {
	change := func(e Edit) Edit { e.Action = EditChange; return e }
	weight, delay, name, tags, args := int32(-1), time.Duration(-1), "a b", []string{"a b"}, make([]byte, big+1)
	for _, c := range []struct {
		name        string
		e           Edit
		code, field string
	}{
		{"nothing", Edit{}, CodeInvalid, "action"},
		{"unknown", Edit{Action: "explode"}, CodeInvalid, "action"},
		{"change nothing", change(Edit{}), CodeInvalid, "change"},
		{"weight", change(Edit{Weight: &weight}), CodeInvalid, "weight"},
		{"delay", change(Edit{Delay: &delay}), CodeInvalid, "delay"},
		{"queue", change(Edit{Queue: &name}), CodeInvalid, "queue"},
		{"tags", change(Edit{Tags: &tags}), CodeInvalid, "tags"},
		{"args", change(Edit{Args: &args}), CodeTooLarge, "args"},
		{"policy", change(Edit{Policy: &Policy{Timeout: -1}}), CodeInvalid, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) { refusal(t, c.e.Validate(big), c.code, c.field) })
	}
	group := "a\n"
	refusal(t, change(Edit{Group: &group}).Validate(big), CodeInvalid, "group")
	weight, delay, name, group, args = 0, time.Hour, "slow", "", []byte{}
	none, priority, at := []string{}, int32(-5), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []Edit{{Action: EditCancel}, {Action: EditFail, Refuse: true}, {Action: EditRedrive, Generation: 2}, {Action: EditPurge}, {Action: EditRelease},
		change(Edit{Weight: &weight}), change(Edit{Delay: &delay, Queue: &name, Group: &group, Args: &args}),
		change(Edit{Tags: &none}), change(Edit{Priority: &priority}), change(Edit{RunAt: &at}), change(Edit{Policy: &Policy{MaxAttempts: 3}})} {
		if err := e.Validate(big); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

func TestPolicyChanged(t *testing.T) {
	p := Policy{MaxAttempts: 2, Timeout: time.Hour}
	if got := p.Changed(nil); !reflect.DeepEqual(got, p) {
		t.Errorf("no change gives %+v", got)
	}
	if got := p.Changed(&Policy{MaxAttempts: 7}); !reflect.DeepEqual(got, Policy{MaxAttempts: 7, Timeout: time.Hour}.withDefaults()) {
		t.Errorf("%+v", got)
	}
}
