package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

func windowOf(t *testing.T, text string) sojourn.Window {
	t.Helper()
	w, err := sojourn.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// monday is 2026-06-01, 12:00 UTC.
var monday = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]sojourn.Window{
		"05:00-07:00":                                  {Start: "05:00", End: "07:00"},
		"mon-fri 22:00-06:00 Europe/Berlin":            {Days: []string{"mon-fri"}, Start: "22:00", End: "06:00", Zone: "Europe/Berlin"},
		"sat,sun 00:00-24:00":                          {Days: []string{"sat", "sun"}, Start: "00:00", End: "24:00"},
		"22:00-23:00:30 UTC except 2026-12-25":         {Start: "22:00", End: "23:00:30", Zone: "UTC", Except: []string{"2026-12-25"}},
		"mon 01:00-02:00 except 2026-06-01,2026-06-08": {Days: []string{"mon"}, Start: "01:00", End: "02:00", Except: []string{"2026-06-01", "2026-06-08"}},
	} {
		got, err := sojourn.ParseWindow(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
		var again sojourn.Window
		if raw, err := json.Marshal(got); err != nil || json.Unmarshal(raw, &again) != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: over JSON %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "always", "22:00", "mon", "22:00-06:00 Europe/Berlin extra", "22:00 - 06:00", "22:00-06:00 except", "mon-fri 25:00-26:00", "22:00-23:00 Berlin",
		"22:00-23:00 except tomorrow", "mo 22:00-23:00"} {
		if w, err := sojourn.ParseWindow(text); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
}

// spec:T1: of several sets all must be open, of each set one window.
func TestNextOpening(t *testing.T) {
	day, lunch := windowOf(t, "mon-fri 09:00-17:00 Europe/Berlin"), windowOf(t, "12:00-13:00 Europe/Berlin")
	for _, c := range []struct {
		all  []sojourn.Windows
		want string // after monday; empty = never
	}{
		{nil, "0s"}, {[]sojourn.Windows{nil, {}}, "0s"}, {[]sojourn.Windows{{day}}, "0s"}, {[]sojourn.Windows{{lunch}}, "22h0m0s"},
		{[]sojourn.Windows{{lunch, day}}, "0s"}, {[]sojourn.Windows{{day}, {lunch}}, "22h0m0s"}, {[]sojourn.Windows{{day}, {windowOf(t, "sat-sun 00:00-24:00 Europe/Berlin")}}, ""},
	} {
		opens, err := NextOpening(monday, c.all...)
		switch {
		case c.want == "" && sojourn.ErrorCode(err) != sojourn.CodeInvalid, c.want != "" && (err != nil || opens.Sub(monday).String() != c.want):
			t.Errorf("%v: after %v, %v; want %s", c.all, opens.Sub(monday), err, c.want)
		}
	}
	if shuts, err := NextClosing(monday, time.Hour, sojourn.Windows{day}); err != nil || shuts.Sub(monday) != time.Hour {
		t.Errorf("within an hour: %v, %v", shuts, err)
	}
	if shuts, err := NextClosing(monday, 24*time.Hour, sojourn.Windows{day}); err != nil || shuts.Sub(monday) != 3*time.Hour {
		t.Errorf("closes at %v, %v", shuts, err)
	}
}

// spec:J13: the windows of a job and of its kind are both kept; a kind's option wins over its
// field.
func TestWindowsOfKindAndJob(t *testing.T) {
	a, b, c := windowOf(t, "09:00-17:00"), windowOf(t, "12:00-13:00"), windowOf(t, "10:00-11:00")
	k := sojourn.Kind[int]{Name: "k", Policy: sojourn.Policy{Windows: []sojourn.Windows{{a}}}}
	for _, x := range []struct {
		job  *sojourn.Job
		want []sojourn.Windows
	}{
		{k.New(1), []sojourn.Windows{{a}}},
		{k.New(1, sojourn.In(b)), []sojourn.Windows{{b}, {a}}},
		{k.New(1, sojourn.In(b, c), sojourn.In(c)), []sojourn.Windows{{b, c}, {c}, {a}}},
		{sojourn.Kind[int]{Name: "k", Policy: sojourn.Policy{Windows: []sojourn.Windows{{a}, {b}}}}.New(1, sojourn.In(c)), []sojourn.Windows{{c}, {a}, {b}}},
		{sojourn.NewJob("k", nil, sojourn.In(a)), []sojourn.Windows{{a}}},
	} {
		if !reflect.DeepEqual(x.job.Policy.Windows, x.want) {
			t.Errorf("%v, want %v", x.job.Policy.Windows, x.want)
		}
		if err := x.job.Validate(100); err != nil {
			t.Error(err)
		}
	}
	first, second := k.New(1, sojourn.In(b)), k.New(1, sojourn.In(c)) // jobs do not share what In adds to
	if reflect.DeepEqual(first.Policy.Windows, second.Policy.Windows) {
		t.Error("two jobs, one list of windows")
	}
}

// bad-input 37: unknown zones, malformed times and too many of anything are refused, wherever
// windows are given.
func TestBadWindowsAreRefused(t *testing.T) {
	good := windowOf(t, "09:00-17:00")
	for field, ws := range map[string]sojourn.Windows{
		"windows.zone":   {good, {Start: "09:00", End: "10:00", Zone: "Mars"}},
		"windows.start":  {{Start: "9", End: "10:00"}},
		"windows.end":    {{Start: "09:00"}},
		"windows.days":   {{Days: []string{"someday"}, Start: "09:00", End: "10:00"}},
		"windows":        slices.Repeat(sojourn.Windows{good}, sojourn.MaxWindows+1),
		"windows.except": {{Start: "09:00", End: "10:00", Except: slices.Repeat([]string{"2026-01-01"}, sojourn.MaxExcept+1)}},
	} {
		for name, err := range map[string]error{
			"job":   sojourn.NewJob("k", nil, sojourn.In(ws...)).Validate(100),
			"kind":  sojourn.Kind[int]{Name: "k", Policy: sojourn.Policy{Windows: []sojourn.Windows{ws}}}.New(1).Validate(100),
			"queue": ValidSettings(sojourn.QueueSettings{Windows: ws}),
			"edit":  sojourn.Edit{Action: sojourn.EditChange, Policy: &sojourn.Policy{Windows: []sojourn.Windows{ws}}}.Validate(100),
		} {
			if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), field+":") {
				t.Errorf("%s of a %s: %v", field, name, err)
			}
		}
	}
	many := sojourn.Policy{Windows: slices.Repeat([]sojourn.Windows{{good}}, 9)}
	if err := sojourn.NewJob("k", nil, sojourn.WithPolicy(many)).Validate(100); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("9 sets: %v", err)
	}
	if err := ValidSettings(sojourn.QueueSettings{Defaults: sojourn.Policy{Windows: []sojourn.Windows{{good}}}}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("windows as defaults of a queue: %v", err)
	}
}

// spec:T4: a job that was put off starts inside all windows, in their first tenth, at most a minute
// after they open, the same job at the same time.
func TestPutOff(t *testing.T) {
	night := []sojourn.Windows{{windowOf(t, "22:00-06:00")}}
	ten := monday.Add(10 * time.Hour)
	seen := map[time.Duration]bool{}
	for id := sojourn.ID(1); id <= 1000; id++ {
		at, err := PutOff(id, monday, night, nil)
		if again, _ := PutOff(id, monday, night, nil); err != nil || !again.Equal(at) {
			t.Fatalf("job %d: %v, then %v, %v", id, at, again, err)
		}
		if at.Before(ten) || !at.Before(ten.Add(time.Minute)) {
			t.Fatalf("job %d starts at %v", id, at)
		}
		seen[at.Sub(ten).Truncate(6*time.Second)] = true
		short, err := PutOff(id, monday, []sojourn.Windows{{windowOf(t, "22:00:00-22:00:10")}}, nil)
		if err != nil || short.Before(ten) || !short.Before(ten.Add(time.Second)) {
			t.Fatalf("job %d starts at %v, the window is open for 10 s", id, short)
		}
		both, err := PutOff(id, monday, night, sojourn.Windows{windowOf(t, "21:00-22:00:20")})
		if err != nil || both.Before(ten) || !both.Before(ten.Add(2*time.Second)) {
			t.Fatalf("job %d starts at %v, the queue closes at 22:00:20", id, both)
		}
		later, err := PutOff(id, monday, night, sojourn.Windows{windowOf(t, "23:00-24:00")})
		if err != nil || !later.Equal(ten) {
			t.Fatalf("job %d is ready at %v, the queue opens at 23:00", id, later)
		}
	}
	if len(seen) != 10 {
		t.Errorf("1,000 jobs in %d of the 10 tenths of a minute", len(seen))
	}
	if at, err := PutOff(7, monday, []sojourn.Windows{{windowOf(t, "09:00-10:00")}, {windowOf(t, "10:00-11:00")}}, nil); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("never: %v, %v", at, err)
	}
}

func ExampleNextOpening() {
	working, _ := sojourn.ParseWindow("mon-fri 05:00-07:00 Europe/Berlin except 2026-12-25")
	opens, _ := NextOpening(time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC), sojourn.Windows{working})
	fmt.Println(opens)
	// Output: 2026-12-28 04:00:00 +0000 UTC
}

// refuses checks the code and the field of a refusal.
func refuses(t *testing.T, err error, code, field string) {
	t.Helper()
	if e, ours := errors.AsType[*sojourn.Error](err); !ours || e.Code != code || e.Field != field {
		t.Errorf("%v; want the code %s and the field %s", err, code, field)
	}
}
