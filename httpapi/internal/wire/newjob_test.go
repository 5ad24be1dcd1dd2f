package wire

import (
	"reflect"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// TestNewJobsAreAlike: a job that a program or a response names has the fields of one that a client
// sends.
func TestNewJobsAreAlike(t *testing.T) {
	_ = jsonform.NewJob(NewJob{})
	here, there := reflect.TypeFor[NewJob](), reflect.TypeFor[jsonform.NewJob]()
	for i := range here.NumField() {
		if a, b := here.Field(i).Tag.Get("json"), there.Field(i).Tag.Get("json"); a != b {
			t.Errorf("%s is %q here and %q there", here.Field(i).Name, a, b)
		}
	}
}
