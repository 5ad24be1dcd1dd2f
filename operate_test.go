package sojourn

import (
	"reflect"
	"testing"
	"time"
)

func TestEditValidate(t *testing.T) {
	change := func(c Change) Edit { return Edit{Action: EditChange, Change: c} }
	weight, delay, name, tags, args := int32(-1), time.Duration(-1), "a b", []string{"a b"}, make([]byte, big+1)
	for _, c := range []struct {
		name        string
		e           Edit
		code, field string
	}{
		{"nothing", Edit{}, CodeInvalid, "action"},
		{"unknown", Edit{Action: "explode"}, CodeInvalid, "action"},
		{"change nothing", change(Change{}), CodeInvalid, "change"},
		{"weight", change(Change{Weight: &weight}), CodeInvalid, "weight"},
		{"delay", change(Change{Delay: &delay}), CodeInvalid, "delay"},
		{"queue", change(Change{Queue: &name}), CodeInvalid, "queue"},
		{"tags", change(Change{Tags: &tags}), CodeInvalid, "tags"},
		{"args", change(Change{Args: &args}), CodeTooLarge, "args"},
		{"policy", change(Change{Policy: &Policy{Timeout: -1}}), CodeInvalid, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) { refusal(t, c.e.Validate(big), c.code, c.field) })
	}
	group := "a\n"
	refusal(t, change(Change{Group: &group}).Validate(big), CodeInvalid, "group")
	weight, delay, name, group, args = 0, time.Hour, "slow", "", []byte{}
	none, priority, at := []string{}, int32(-5), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []Edit{{Action: EditCancel}, {Action: EditFail, Refuse: true}, {Action: EditRedrive, Generation: 2}, {Action: EditPurge},
		change(Change{Weight: &weight}), change(Change{Delay: &delay, Queue: &name, Group: &group, Args: &args}),
		change(Change{Tags: &none}), change(Change{Priority: &priority}), change(Change{RunAt: &at}), change(Change{Policy: &Policy{MaxAttempts: 3}})} {
		if err := e.Validate(big); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

func TestChangeApply(t *testing.T) {
	p := Policy{MaxAttempts: 2, Timeout: time.Hour}
	if got := (Change{}).Apply(p); !reflect.DeepEqual(got, p) {
		t.Errorf("no change gives %+v", got)
	}
	if got := (Change{Policy: &Policy{MaxAttempts: 7}}).Apply(p); !reflect.DeepEqual(got, Policy{MaxAttempts: 7, Timeout: time.Hour}.withDefaults()) {
		t.Errorf("%+v", got)
	}
}
