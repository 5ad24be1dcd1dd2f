package jobrow

import (
	"reflect"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

func oneDigest(j *sojourn.Job, c *access.Caller) Digest { return Digests([]sojourn.Job{*j}, c)[0] }

// TestDigestOfPolicies: each field of a policy, also one that is added later, is part of the
// digest.
func TestDigestOfPolicies(t *testing.T) {
	seen := map[Digest]string{oneDigest(sojourn.NewJob("k", nil), nil): "none"}
	var walk func(name string, p *sojourn.Policy, v reflect.Value)
	walk = func(name string, p *sojourn.Policy, v reflect.Value) {
		for i := range v.NumField() {
			f, field := v.Field(i), name+v.Type().Field(i).Name
			if !v.Type().Field(i).IsExported() || field == "Priority" || field == "Weight" {
				continue // these two are fields of the job: its policy never has them
			}
			switch {
			case f.Kind() == reflect.Struct:
				walk(field+".", p, f)
				continue
			case f.CanInt():
				f.SetInt(1)
			case f.CanUint():
				f.SetUint(1)
			case f.CanFloat():
				f.SetFloat(1.5)
			case f.Kind() == reflect.Bool:
				f.SetBool(true)
			case f.Kind() == reflect.Pointer:
				f.Set(reflect.ValueOf(new(false)))
			case f.Kind() == reflect.Slice:
				f.Set(reflect.ValueOf([]sojourn.Windows{{{Start: "08:00", End: "09:00"}}}))
			default:
				t.Fatalf("%s is a %s: say how to set it", field, f.Kind())
			}
			j := sojourn.NewJob("k", nil)
			j.Policy = *p
			d := oneDigest(j, nil)
			if other, ok := seen[d]; ok {
				t.Errorf("%s has the digest of %s", field, other)
			}
			seen[d] = field
			f.SetZero()
		}
	}
	var p sojourn.Policy
	walk("", &p, reflect.ValueOf(&p).Elem())
	if len(seen) < 15 {
		t.Errorf("%d digests", len(seen))
	}
}

// TestDigestOfNeighbours: a value in one field does not look like another field, and the same job
// has the same digest again.
func TestDigestOfNeighbours(t *testing.T) {
	alice, bob := &access.Caller{Token: "alice"}, &access.Caller{Token: "bob"}
	make := func(options ...sojourn.Option) *sojourn.Job { return sojourn.NewJob("k", []byte("a"), options...) }
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	jobs := []*sojourn.Job{
		make(), make(sojourn.Key("x")), make(sojourn.Group("x")), make(sojourn.Queue("x")), make(sojourn.Tags("x")), make(sojourn.Tags("x", "y")),
		make(sojourn.Tags("y", "x")), make(sojourn.Tags("x", "x")), make(sojourn.Meta("x", "y")), make(sojourn.Meta("xy", "")), make(sojourn.Meta("x", "y"), sojourn.Meta("z", "")),
		make(sojourn.RunAt(at)), make(sojourn.Delay(time.Duration(at.UnixMicro()))), make(sojourn.Priority(1)), make(sojourn.Weight(1)), make(sojourn.Priority(100)),
	}
	seen := map[Digest]int{}
	for i, j := range jobs {
		for _, c := range []*access.Caller{nil, alice, bob} {
			d := oneDigest(j, c)
			if other, ok := seen[d]; ok {
				t.Errorf("job %d for %q has the digest of job %d", i, c.Owner(), other)
			}
			seen[d] = i
			again := *j
			again.ID, again.OnConflict, again.Args, again.RunAt = 7, sojourn.Replace, append([]byte{}, j.Args...), j.RunAt.In(time.FixedZone("z", 3600))
			if j.RunAt.IsZero() {
				again.RunAt = time.Time{}
			}
			if oneDigest(&again, c) != d {
				t.Errorf("job %d for %q has another digest the second time", i, c.Owner())
			}
		}
	}
	both := Digests([]sojourn.Job{*jobs[0], *jobs[5], *jobs[0]}, nil)
	if both[0] != both[2] || both[0] == both[1] {
		t.Error("a digest depends on the jobs before it")
	}
	silent, lax := make(sojourn.MaxAttempts(9)), make(sojourn.MaxAttempts(9))
	lax.Policy.NoExtend = new(false)
	if both := Digests([]sojourn.Job{*silent, *lax}, nil); both[1] != oneDigest(lax, nil) || both[0] == both[1] {
		t.Error("a policy that says false has the digest of the one before it, which says nothing")
	}
}
