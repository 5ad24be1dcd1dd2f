package filter_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/filter"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]sojourn.Filter{
		"kind:charge state:awaiting age:>10m":       {Kind: "charge", States: []sojourn.State{sojourn.Awaiting}, CreatedBefore: now.Add(-10 * time.Minute)},
		` key:"order \"17\" \\ x"` + "\tqueue:a:b ": {Key: `order "17" \ x`, Queue: "a:b"},
		`key:">x"`:                              {Key: ">x"},
		"id:17,4":                               {IDs: []sojourn.ID{17, 4}},
		"state:final,ready,failed":              {States: []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled, sojourn.Ready}},
		"state:live":                            {States: []sojourn.State{sojourn.Blocked, sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}},
		"created:>2026-11-01T00:00:00Z age:>1h": {CreatedAfter: day, CreatedBefore: now.Add(-time.Hour)},
		"age:<7d":                               {CreatedAfter: now.Add(-7 * 24 * time.Hour)},
		"ended:<2026-11-01T00:00:00Z ended_ago:<36h": {EndedBefore: day, EndedAfter: now.Add(-36 * time.Hour)},
		"ended_ago:>90s": {EndedBefore: now.Add(-90 * time.Second)},
		`args.customer:42 args.a.b:"x \"y\" \\" meta.k:v`: {Fields: map[string]string{"args.customer": "42", "args.a.b": `x "y" \`, "meta.k": "v"}},
		"group:g tag:red reason:timeout failure:ab12":     {Group: "g", Tag: "red", Reason: "timeout", Failure: "ab12"},
	} {
		got, err := filter.Parse(text, now)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "is empty",
		" \t\n":                                 "is empty",
		"charge":                                "write key:charge",
		"charge kind:x":                         `"charge" has no field`,
		"kinds:x":                               "fields are id, kind, key",
		"kind:":                                 "kind: has no value",
		`kind:""`:                               "kind: has no value",
		"kind:a kind:b":                         "kind is given twice",
		"kind:>a":                               "takes no >",
		`key:"a`:                                "no quote at its end",
		`key:"a"b`:                              "a space must follow",
		"id:x":                                  "not the id of a job",
		"args.:x":                               "empty name",
		"args.a:1 args.a:2":                     "args.a is given twice",
		"args.a:>1":                             "takes no >",
		"args.a:":                               "has no value",
		"id:01":                                 "not the id of a job",
		"id:0":                                  "not the id of a job",
		"id:1,":                                 "not the id of a job",
		"state:lost":                            "none of blocked",
		"state:none":                            "none of blocked",
		"age:10m":                               "write age:>10m or age:<10m",
		"age:>ten":                              "not a duration",
		"age:>-1h":                              "not a duration",
		"age:>99999999d":                        "not a duration",
		"created:>yesterday":                    "not a time",
		"age:>1h age:>2h":                       "age> is given twice",
		"age:<1h created:>2026-11-01T00:00:00Z": "bounds a time that another term bounds",
		"key:" + strings.Repeat("k", 2000):      "key",
		strings.Repeat("x", 40<<10):             "exceed the limit",
	} {
		f, err := filter.Parse(text, now)
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(f, sojourn.Filter{}) {
			t.Errorf("%.80q: %+v, %v; want a refusal with %q", text, f, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	want := map[string]string{"args.b": `a "quoted" \ <text>`, "args.a": "<1", "meta.x": " "}
	text := filter.Paths(want)
	if got, err := filter.Parse(text, now); err != nil || !reflect.DeepEqual(got.Fields, want) {
		t.Errorf("%s is %q, %v; want %q", text, got.Fields, err, want)
	}
	both := sojourn.Filter{Fields: map[string]string{"args.a": "1"}}
	if _, err := filter.Join(both, both); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("two values of a path: %v", err)
	}
	joined, err := filter.Join(both, sojourn.Filter{Fields: map[string]string{"args.b": "2"}})
	if err != nil || len(joined.Fields) != 2 || len(both.Fields) != 1 {
		t.Errorf("joined to %v, %v; the first is %v now", joined.Fields, err, both.Fields)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`kind:charge state:live age:>10m key:"a \" b"`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := filter.Parse(text, now)
		if err == nil && (got.Validate() != nil || reflect.DeepEqual(got, sojourn.Filter{})) {
			t.Errorf("%q chooses every job, or is not valid: %+v", text, got)
		}
	})
}

func ExampleParse() {
	f, err := filter.Parse(`kind:charge state:awaiting key:"order 17" age:>10m`, now)
	fmt.Println(f.Kind, f.States, f.Key, now.Sub(f.CreatedBefore), err)
	_, err = filter.Parse("kind:charge order-17", now)
	fmt.Println(err)
	// Output:
	// charge [awaiting] order 17 10m0s <nil>
	// sojourn: where: "order-17" has no field: write key:order-17, id:order-17 or the like; fields are id, kind, key, queue, group, tag, reason, failure, state, created, ended, age, ended_ago (invalid)
}
