package sqlstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestSamePolicy: a policy that differs in any field is another one, fields of the future included.
func TestSamePolicy(t *testing.T) {
	if !samePolicy(&sojourn.Policy{MaxAttempts: 3}, &sojourn.Policy{MaxAttempts: 3}) {
		t.Error("equal ones differ")
	}
	fields := reflect.TypeFor[sojourn.Policy]()
	for i := range fields.NumField() {
		var p sojourn.Policy
		f := reflect.ValueOf(&p).Elem().Field(i)
		switch v := f.Addr().Interface().(type) {
		case *bool:
			*v = true
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
