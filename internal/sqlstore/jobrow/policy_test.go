package jobrow

import (
	"reflect"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestStoredPolicy: a stored policy is read back unchanged, and values that the text omits keep
// their present meaning for ever.
func TestStoredPolicy(t *testing.T) {
	resolved := func(change func(*sojourn.Policy)) sojourn.Policy {
		var j sojourn.Job
		change(&j.Policy)
		j.Resolve(sojourn.Policy{})
		return j.Policy
	}
	for _, c := range []struct {
		policy sojourn.Policy
		text   string
	}{
		{resolved(func(*sojourn.Policy) {}), ""},
		{resolved(func(p *sojourn.Policy) { p.MaxAttempts, p.MaxCrashes = 1, sojourn.Unlimited }), `{"max_attempts":1,"max_crashes":-1}`},
		{resolved(func(p *sojourn.Policy) { p.Timeout, p.DecideWithin = time.Minute, time.Hour }), `{"timeout":60000000000,"decide_within":3600000000000}`},
		{resolved(func(p *sojourn.Policy) {
			p.Backoff = sojourn.Backoff{First: -1, Factor: 1, Limit: time.Minute, Jitter: -1}
		}),
			`{"backoff":{"first":-1,"factor":1,"limit":60000000000,"jitter":-1}}`},
		{resolved(func(p *sojourn.Policy) { p.Backoff.Factor, p.NoExtend = 2, new(true) }), `{"backoff":{"factor":2},"no_extend":true}`},
	} {
		text, err := StoredPolicy(c.policy)
		if err != nil || text != c.text {
			t.Errorf("%+v is stored as %s, want %s (%v)", c.policy, text, c.text, err)
		}
		if back, err := readPolicy(text); err != nil || !reflect.DeepEqual(back, c.policy) {
			t.Errorf("%s is read as %+v, want %+v (%v)", text, back, c.policy, err)
		}
	}
	whole := `{"max_attempts":5,"max_crashes":3,"timeout":86400000000000,"decide_within":300000000000,"backoff":{"first":5000000000,"factor":4,"limit":3600000000000,"jitter":1}}`
	said, err := readPolicy(whole)
	if unsaid, _ := readPolicy(""); err != nil || !reflect.DeepEqual(said, unsaid) {
		t.Errorf("no text is read as %+v, want %+v (%v)", unsaid, said, err)
	}
}

// TestSamePolicy: a policy that differs in any field is another one, fields of the future included.
func TestSamePolicy(t *testing.T) {
	if !samePolicy(&sojourn.Policy{MaxAttempts: 3}, &sojourn.Policy{MaxAttempts: 3}) {
		t.Error("equal ones differ")
	}
	fields := reflect.TypeFor[sojourn.Policy]()
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; name == "Priority" || name == "Weight" {
			continue // fields of the job, not stored with its policy
		}
		var p sojourn.Policy
		f := reflect.ValueOf(&p).Elem().Field(i)
		switch v := f.Addr().Interface().(type) {
		case **bool:
			*v = new(true)
		case *time.Duration:
			*v = 1
		case *sojourn.Backoff:
			v.First = 1
		case *[]sojourn.Windows:
			*v = []sojourn.Windows{{}}
		default:
			if f.CanInt() {
				f.SetInt(1)
			} else {
				f.SetUint(1)
			}
		}
		if samePolicy(&p, &sojourn.Policy{}) || samePolicy(&sojourn.Policy{}, &p) {
			t.Errorf("%s is not compared", fields.Field(i).Name)
		}
	}
}
