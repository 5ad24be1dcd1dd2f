package calendar

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func window(t *testing.T, days, start, end, zone string, except ...string) Window {
	t.Helper()
	var list []string
	if days != "" {
		list = strings.Split(days, ",")
	}
	w, err := New(list, start, end, zone, except)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// openings formats the next n pairs of opening and closing times of c after from, in UTC.
func openings(c Calendar, from time.Time, n int) string {
	var out []string
	limit := from.AddDate(5, 0, 0)
	for range n {
		opens, ok := c.Next(from, limit)
		if !ok {
			break
		}
		from = c.Until(opens, limit)
		out = append(out, opens.UTC().Format("Jan02 15:04:05")+" - "+from.Format("Jan02 15:04:05"))
	}
	return strings.Join(out, ", ")
}

// spec:T1 and the example of the seeds, 5-7 AM and 10-11 PM; inv:E3 for the clock changes, of which
// each row names one.
func TestOpenings(t *testing.T) {
	const berlin = "Europe/Berlin" // in 2026: gap at March 29 02:00, repeated hour at October 25 03:00
	for _, c := range []struct {
		name, from string
		n          int
		sets       []Set
		want       string
	}{
		{"morning and evening", "2026-06-01T12:00:00Z", 3, []Set{{window(t, "", "05:00", "07:00", ""), window(t, "", "22:00", "23:00", "")}},
			"Jun01 22:00:00 - Jun01 23:00:00, Jun02 05:00:00 - Jun02 07:00:00, Jun02 22:00:00 - Jun02 23:00:00"},
		{"seconds, and the end is outside", "2026-06-01T12:00:01Z", 1, []Set{{window(t, "", "12:00:00", "12:00:01", "")}}, "Jun02 12:00:00 - Jun02 12:00:01"},
		{"inside", "2026-06-01T06:59:59Z", 1, []Set{{window(t, "", "05:00", "07:00", "")}}, "Jun01 06:59:59 - Jun01 07:00:00"},
		{"across midnight belongs to the day it opens", "2026-06-01T12:00:00Z", 2, []Set{{window(t, "fri", "22:00", "06:00", "")}},
			"Jun05 22:00:00 - Jun06 06:00:00, Jun12 22:00:00 - Jun13 06:00:00"},
		{"equal is 24 hours", "2026-06-01T12:00:00Z", 1, []Set{{window(t, "fri", "08:00", "08:00", "")}}, "Jun05 08:00:00 - Jun06 08:00:00"},
		{"until 24:00", "2026-06-01T12:00:00Z", 1, []Set{{window(t, "fri", "18:00", "24:00", "")}}, "Jun05 18:00:00 - Jun06 00:00:00"},
		{"days that touch", "2026-06-01T12:00:00Z", 1, []Set{{window(t, "sat-sun", "00:00", "24:00", "")}}, "Jun06 00:00:00 - Jun08 00:00:00"},
		{"a range over the week's end", "2026-06-02T12:00:00Z", 2, []Set{{window(t, "sun-mon", "10:00", "11:00", "")}},
			"Jun07 10:00:00 - Jun07 11:00:00, Jun08 10:00:00 - Jun08 11:00:00"},
		{"overlapping", "2026-06-01T12:00:00Z", 1, []Set{{window(t, "", "13:00", "15:00", ""), window(t, "", "14:00", "16:00", "")}}, "Jun01 13:00:00 - Jun01 16:00:00"},
		{"holidays", "2026-12-24T00:00:00Z", 2, []Set{{window(t, "thu-fri", "09:00", "10:00", "", "2026-12-24", "2026-12-25", "2026-12-31")}},
			"Jan01 09:00:00 - Jan01 10:00:00, Jan07 09:00:00 - Jan07 10:00:00"},
		{"a holiday ends no night that began before it", "2026-12-24T12:00:00Z", 2, []Set{{window(t, "", "22:00", "06:00", "", "2026-12-25")}},
			"Dec24 22:00:00 - Dec25 06:00:00, Dec26 22:00:00 - Dec27 06:00:00"},
		{"intersection", "2026-06-01T00:00:00Z", 1, []Set{{window(t, "", "09:00", "17:00", berlin)}, {window(t, "", "09:00", "17:00", "America/New_York")}}, "Jun01 13:00:00 - Jun01 15:00:00"},
		{"both only while the clocks differ", "2026-04-01T00:00:00Z", 1, []Set{{window(t, "", "13:00", "14:00", berlin)}, {window(t, "", "08:00", "09:00", "America/New_York")}},
			"Oct25 12:00:00 - Oct25 13:00:00"},
		{"never", "2026-06-01T00:00:00Z", 1, []Set{{window(t, "", "09:00", "10:00", "")}, {window(t, "", "10:00", "11:00", "")}}, ""},
		{"always", "2026-06-01T00:00:00Z", 1, nil, "Jun01 00:00:00 - Jun01 00:00:00"},
		{"start in the gap", "2026-03-28T12:00:00Z", 2, []Set{{window(t, "", "02:30", "04:00", berlin)}}, "Mar29 01:00:00 - Mar29 02:00:00, Mar30 00:30:00 - Mar30 02:00:00"},
		{"end in the gap", "2026-03-28T12:00:00Z", 1, []Set{{window(t, "", "01:30", "02:30", berlin)}}, "Mar29 00:30:00 - Mar29 01:00:00"},
		{"inside the gap", "2026-03-28T12:00:00Z", 1, []Set{{window(t, "", "02:15", "02:45", berlin)}}, "Mar30 00:15:00 - Mar30 00:45:00"},
		{"start in the repeated hour", "2026-10-24T12:00:00Z", 1, []Set{{window(t, "", "02:30", "04:00", berlin)}}, "Oct25 00:30:00 - Oct25 03:00:00"},
		{"end in the repeated hour", "2026-10-24T12:00:00Z", 1, []Set{{window(t, "", "01:00", "02:30", berlin)}}, "Oct24 23:00:00 - Oct25 00:30:00"},
		{"inside the repeated hour", "2026-10-24T12:00:00Z", 2, []Set{{window(t, "", "02:15", "02:45", berlin)}}, "Oct25 00:15:00 - Oct25 00:45:00, Oct26 01:15:00 - Oct26 01:45:00"},
		{"end with the repeated hour", "2026-10-24T12:00:00Z", 1, []Set{{window(t, "", "02:30", "03:00", berlin)}}, "Oct25 00:30:00 - Oct25 02:00:00"},
		{"the long night", "2026-10-24T12:00:00Z", 1, []Set{{window(t, "", "22:00", "06:00", berlin)}}, "Oct24 20:00:00 - Oct25 05:00:00"},
		{"the short night", "2026-03-28T12:00:00Z", 1, []Set{{window(t, "", "22:00", "06:00", berlin)}}, "Mar28 21:00:00 - Mar29 04:00:00"},
		{"half an hour is skipped", "2026-10-03T00:00:00Z", 1, []Set{{window(t, "", "02:15", "02:45", "Australia/Lord_Howe")}}, "Oct03 15:30:00 - Oct03 15:45:00"},
		{"no midnight", "2026-09-05T12:00:00Z", 1, []Set{{window(t, "sun", "00:00", "01:30", "America/Santiago")}}, "Sep06 04:00:00 - Sep06 04:30:00"},
		{"a day that the zone skips", "2011-12-29T12:00:00Z", 1, []Set{{window(t, "fri", "09:00", "10:00", "Pacific/Apia")}}, "Jan05 19:00:00 - Jan05 20:00:00"},
		{"a night that begins on it", "2011-12-29T12:00:00Z", 1, []Set{{window(t, "fri", "22:00", "06:00", "Pacific/Apia")}}, "Dec30 10:00:00 - Dec30 16:00:00"},
		{"the last day of a leap year", "2024-12-31T12:00:00Z", 1, []Set{{window(t, "", "22:00", "06:00", berlin)}}, "Dec31 21:00:00 - Jan01 05:00:00"},
	} {
		limitless := c.sets == nil
		got := openings(c.sets, instantOf(t, c.from), c.n)
		if got != c.want && !limitless {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFractionsOfASecond(t *testing.T) {
	c := Calendar{{window(t, "", "05:00", "07:00", "")}}
	limit := instantOf(t, "2030-01-01T00:00:00Z")
	inside := instantOf(t, "2026-06-01T06:59:59Z").Add(999 * time.Millisecond)
	if opens, ok := c.Next(inside, limit); !ok || !opens.Equal(inside) {
		t.Errorf("Next(%s) = %s, %v", inside, opens, ok)
	}
	before := instantOf(t, "2026-06-01T04:59:59Z").Add(999 * time.Millisecond)
	if opens, ok := c.Next(before, limit); !ok || !opens.Equal(instantOf(t, "2026-06-01T05:00:00Z")) {
		t.Errorf("Next(%s) = %s, %v", before, opens, ok)
	}
}

// A calendar that is open for ever is no endless loop: Until stops at its limit.
func TestUntilStopsAtItsLimit(t *testing.T) {
	c := Calendar{{window(t, "", "00:00", "24:00", "Europe/Berlin")}, {window(t, "", "00:00", "12:00", ""), window(t, "", "12:00", "00:00", "")}}
	from := instantOf(t, "2026-06-01T06:59:59Z")
	if got := c.Until(from, from.AddDate(1, 0, 0)); !got.Equal(from.AddDate(1, 0, 0)) {
		t.Error(got)
	}
}

func TestDefinitionsAreChecked(t *testing.T) {
	for _, c := range []struct{ days, start, end, zone, except, field string }{
		{"", "05:00", "07:00", "Mars/Olympus", "", "zone"}, {"", "05:00", "07:00", "Local", "", "zone"}, {"", "05:00", "07:00", "../etc/passwd", "", "zone"},
		{"", "05:00", "07:00", "Europe", "", "zone"}, {"", "05:00", "07:00", "Europe/", "", "zone"},
		{"", "5:00", "07:00", "", "", "start"}, {"", "", "07:00", "", "", "start"}, {"", "24:00", "07:00", "", "", "start"}, {"", "05:00:00.5", "07:00", "", "", "start"},
		{"", "05:00", "24:01", "", "", "end"}, {"", "05:00", "7 PM", "", "", "end"}, {"", "05:00", "07:00:61", "", "", "end"},
		{"monday", "05:00", "07:00", "", "", "days"}, {"mon-", "05:00", "07:00", "", "", "days"}, {"Mon", "05:00", "07:00", "", "", "days"},
		{"", "05:00", "07:00", "", "2026-02-29", "except"}, {"", "05:00", "07:00", "", "25.12.", "except"},
	} {
		var days, except []string
		if c.days != "" {
			days = []string{c.days}
		}
		if c.except != "" {
			except = []string{c.except}
		}
		_, err := New(days, c.start, c.end, c.zone, except)
		if e, ok := errors.AsType[*FieldError](err); !ok || e.Field != c.field {
			t.Errorf("%+v: %v, want an error about %s", c, err, c.field)
		}
	}
}

// TestTZVersion compares the embedded database with that of the Go toolchain, where this names the
// same version.
func TestTZVersion(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	if err != nil {
		t.Skip("a Go without lib/time/update.bash: ", err)
	}
	version := regexp.MustCompile(`(?m)^DATA=(\S+)`).FindStringSubmatch(string(script))
	if version == nil {
		t.Skip("update.bash names no version")
	}
	if version[1] != TZVersion {
		t.Skipf("%s has tz %s, we have %s: see TZVersion", runtime.Version(), version[1], TZVersion)
	}
	theirs, err := os.ReadFile(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil || !bytes.Equal(theirs, zoneinfo) {
		t.Errorf("zoneinfo.zip is not tz %s of %s (%v)", TZVersion, runtime.Version(), err)
	}
}

func BenchmarkNext(b *testing.B) {
	w, err := New([]string{"mon-fri"}, "22:00", "06:00", "Europe/Berlin", nil)
	if err != nil {
		b.Fatal(err)
	}
	c, from := Calendar{{w}}, time.Date(2026, 6, 6, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(from, from.AddDate(5, 0, 0))
	}
}

func BenchmarkNever(b *testing.B) {
	w1, err1 := New(nil, "09:00", "10:00", "Europe/Berlin", nil)
	w2, err2 := New(nil, "10:00", "11:00", "Europe/Berlin", nil)
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	c, from := Calendar{{w1}, {w2}}, time.Date(2026, 6, 6, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(from, from.AddDate(5, 0, 0))
	}
}
