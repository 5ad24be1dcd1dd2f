package wire

import (
	"reflect"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestNothingIsLeftOut: a field that the domain gets must not be dropped on its way. Types that are
// converted are held by the compiler; here are those that are copied by hand, and the fields that
// the domain keeps out of its own JSON.
func TestNothingIsLeftOut(t *testing.T) {
	for domain, here := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[driver.Claimed](): reflect.TypeFor[Claimed](), reflect.TypeFor[sojourn.Edit](): reflect.TypeFor[struct {
			Edit
			Change
		}](),
	} {
		for _, f := range reflect.VisibleFields(domain) {
			if _, ok := here.FieldByName(f.Name); !ok {
				t.Errorf("%v has %s, the wire has not", domain, f.Name)
			}
		}
	}
	for _, c := range []struct {
		domain  reflect.Type
		carried []string // under a name of the wire's own
	}{
		{reflect.TypeFor[sojourn.Job](), []string{"Delay", "OnConflict", "Depends", "Instance", "Token"}},
		{reflect.TypeFor[sojourn.Response](), []string{"TTL"}},
		{reflect.TypeFor[sojourn.Enqueued](), []string{"Err"}}, {reflect.TypeFor[driver.Finished](), []string{"Err"}},
		{reflect.TypeFor[sojourn.Edited](), []string{"Err"}}, {reflect.TypeFor[sojourn.Outcome](), nil}, {reflect.TypeFor[sojourn.Wait](), nil},
		{reflect.TypeFor[sojourn.Policy](), nil},
		{reflect.TypeFor[sojourn.QueueSettings](), nil},
	} {
		var hidden []string
		for _, f := range reflect.VisibleFields(c.domain) {
			if f.IsExported() && f.Tag.Get("json") == "-" {
				hidden = append(hidden, f.Name)
			}
		}
		if !reflect.DeepEqual(hidden, c.carried) {
			t.Errorf("%v keeps %v out of its JSON, and the wire carries %v", c.domain, hidden, c.carried)
		}
	}
}
