package cron

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

// walker is the oracle: it goes through the minutes of a stretch of time, one after the other, and
// reads the wall clock of the zone in each. It knows nothing of instants and periods. Minutes are
// counted since 1970, of the wall clock those of its date and time.
type walker struct {
	from int64
	wall []int64 // what the clock shows in each minute since from
}

func walk(z *time.Location, from time.Time, minutes int) walker {
	w := walker{from: floorDiv(from.Unix(), 60)}
	for m := range int64(minutes) {
		at := (w.from + m) * 60
		_, offset := time.Unix(at, 0).In(z).Zone()
		w.wall = append(w.wall, floorDiv(at+int64(offset), 60))
	}
	return w
}

// pattern is an expression of whole minutes, as the walker reads it.
type pattern struct {
	minutes, hours []int // empty: *
	weekday        int   // -1: *
	stepped        bool  // hours are written as a step
}

func (p pattern) names(wall int64) bool {
	minute, hour := int((wall%60+60)%60), int((floorDiv(wall, 60)%24+24)%24)
	weekday := int(((floorDiv(wall, 1440)+4)%7 + 7) % 7) // 1970-01-01 was a Thursday
	return (len(p.minutes) == 0 || slices.Contains(p.minutes, minute)) && (len(p.hours) == 0 || slices.Contains(p.hours, hour)) &&
		(p.weekday < 0 || p.weekday == weekday)
}

func (p pattern) interval() bool { return len(p.hours) == 0 || p.stepped }

func (p pattern) String() string {
	list := func(vs []int) string {
		if len(vs) == 0 {
			return "*"
		}
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(vs), " ", ","), "[]")
	}
	hours := list(p.hours)
	if p.stepped {
		hours = fmt.Sprintf("*/%d", p.hours[1])
	}
	weekday := "*"
	if p.weekday >= 0 {
		weekday = fmt.Sprint(p.weekday)
	}
	return fmt.Sprintf("%s %s * * %s", list(p.minutes), hours, weekday)
}

// ticks are the minutes since w.from in which p is due, by the text of inv:E3. The first
// minutes only show the walker what the clock has shown before.
func (w walker) ticks(p pattern, warm int) (due []int) {
	greatest := slices.Max(w.wall[:1])
	before := map[int]bool{} // minutes with a tick by the clock from before a gap
	for m := 1; m < len(w.wall); m++ {
		fixed := false
		for shown := greatest + 1; shown <= w.wall[m]; shown++ {
			fixed = fixed || p.names(shown)
		}
		for skipped := w.wall[m-1] + 1; skipped < w.wall[m]; skipped++ {
			if p.names(skipped) {
				before[m+int(skipped-w.wall[m-1]-1)] = true
			}
		}
		greatest = max(greatest, w.wall[m])
		if m >= warm && (p.interval() && (p.names(w.wall[m]) || before[m]) || !p.interval() && fixed) {
			due = append(due, m)
		}
	}
	return due
}

func compare(t *testing.T, z *time.Location, w walker, p pattern, warm int) {
	t.Helper()
	s, err := Parse(p.String(), z.String(), 0)
	if err != nil {
		t.Fatal(p, err)
	}
	at := time.Unix((w.from+int64(warm))*60-1, 0)
	for _, m := range w.ticks(p, warm) {
		tick, ok := s.Next(at)
		if want := time.Unix((w.from+int64(m))*60, 0); !ok || !tick.Equal(want) {
			t.Fatalf("%s, %q: after %s comes %s; the walker says %s", z, p, at.In(z), tick.In(z), want.In(z))
		}
		at = tick
	}
	if tick, ok := s.Next(at); ok && tick.Unix() < (w.from+int64(len(w.wall)))*60 {
		t.Fatalf("%s, %q: after %s comes %s; the walker says none", z, p, at.In(z), tick.In(z))
	}
}

// around are expressions that a clock change can trouble: times before, in, at the end of and after
// the skipped or repeated stretch, and intervals that divide it and that do not.
func around(change time.Time) []pattern {
	_, was := change.Add(-time.Second).Zone()
	_, is := change.Zone()
	low, high := change.Unix()+int64(min(was, is)), change.Unix()+int64(max(was, is))
	var all []pattern
	for _, at := range []int64{low - 3600, low - 60, low, low + 60, (low + high) / 2, high - 60, high, high + 1800} {
		minute, hour := int((at/60%60+60)%60), int((floorDiv(at, 3600)%24+24)%24)
		all = append(all, pattern{minutes: []int{minute}, hours: []int{hour}, weekday: -1})
	}
	h := int((floorDiv(low, 3600)%24 + 24) % 24)
	weekday := int(time.Unix(low, 0).UTC().Weekday())
	return append(all,
		pattern{hours: []int{h}, weekday: -1}, pattern{minutes: []int{0, 15, 45}, hours: []int{h, (h + 1) % 24}, weekday: weekday},
		pattern{weekday: -1}, pattern{minutes: []int{0, 15, 30, 45}, weekday: -1}, pattern{minutes: []int{30}, weekday: -1}, pattern{minutes: []int{7, 53}, weekday: weekday},
		pattern{minutes: []int{0}, hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, stepped: true, weekday: -1},
		pattern{minutes: []int{30}, hours: []int{0, 6, 12, 18}, stepped: true, weekday: -1})
}

// transitions are the seconds from 2000 to 2037 at which the zone's offset changes. It looks at
// every quarter of an hour, and asks no table.
func transitions(z *time.Location) (all []time.Time) {
	const step = 900
	offset := func(s int64) int { _, o := time.Unix(s, 0).In(z).Zone(); return o }
	was := offset(946_684_800)
	for d := int64(946_684_800); d < 2_145_916_800; d += day {
		if offset(d+day) == was { // nobody changes twice a day
			continue
		}
		s := d
		for offset(s) == was {
			s += step
		}
		for offset(s-1) != was {
			s--
		}
		all, was = append(all, time.Unix(s, 0).In(z)), offset(d+day)
	}
	return all
}

// inv:E3 spec:N2: every expression that a clock change can trouble, at every change of every zone
// from 2000 to 2037, against the walker: no tick twice, none missed. Without SOJOURN_CALENDAR=all
// it takes the zones with the strangest changes.
func TestEveryTransition(t *testing.T) {
	names := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Pacific/Apia", "Antarctica/Troll", "Asia/Gaza", "America/Caracas"}
	all := os.Getenv("SOJOURN_CALENDAR") == "all"
	if all {
		var err error
		if names, err = calendar.Zones(); err != nil {
			t.Fatal(err)
		}
	}
	changes, checks := 0, 0
	for _, name := range names {
		z, err := calendar.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range transitions(z) {
			changes++
			const warm = 26 * 60 // a clock that was set back a day before has shown more than it shows
			w := walk(z, change.Add(-37*time.Hour).Truncate(time.Minute), warm+39*60)
			for _, p := range around(change) {
				checks++
				compare(t, z, w, p, warm)
			}
		}
	}
	t.Logf("tz %s: %d changes, %d expressions: 0 differ", calendar.TZVersion, changes, checks)
	if all && changes < 10_000 {
		t.Errorf("only %d changes", changes)
	}
}

// FuzzTicks compares an expression with the walker, anywhere in any zone.
func FuzzTicks(f *testing.F) {
	names, err := calendar.Zones()
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	f.Add(uint16(slices.Index(names, "Europe/Berlin")), int64(1_761_350_000), uint64(1<<30|1), uint32(1<<2), uint8(9))
	f.Add(uint16(slices.Index(names, "Australia/Lord_Howe")), int64(1_775_300_000), uint64(1<<15), uint32(0), uint8(0))
	f.Add(uint16(slices.Index(names, "Pacific/Apia")), int64(1_325_100_000), uint64(1), uint32(1<<9|1<<31), uint8(5))
	f.Fuzz(func(t *testing.T, zone uint16, from int64, minutes uint64, hours uint32, weekday uint8) {
		z, err := calendar.Zone(names[int(zone)%len(names)])
		if err != nil {
			t.Fatal(err)
		}
		from = 946_684_800 + (from%1_199_145_600+1_199_145_600)%1_199_145_600 // 2000 to 2037
		p := pattern{weekday: int(weekday%9) - 2}
		p.weekday = max(p.weekday, -1)
		for m := range 60 {
			if minutes>>m&1 == 1 {
				p.minutes = append(p.minutes, m)
			}
		}
		for h := range 24 {
			if hours>>h&1 == 1 {
				p.hours = append(p.hours, h)
			}
		}
		if step := int(hours >> 27); hours>>26&1 == 1 && step > 0 && step < 13 {
			p.stepped, p.hours = true, nil
			for h := 0; h < 24; h += step {
				p.hours = append(p.hours, h)
			}
		}
		const warm = 26 * 60
		compare(t, z, walk(z, time.Unix(from, 0).Truncate(time.Minute), warm+4*1440), p, warm)
	})
}

// FuzzParse: no text panics, and each accepted one has a tick and a sentence.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"30 2 * * *", "0 0 L-3,15W * fri#2,5L", "*/7 1-5/2,9 * jan-mar ?", "@daily", "@every 1h30m", "0 0 30 2 *", "1 2 3 4 5 6", "-/, # L W ?"} {
		f.Add(text)
	}
	from := time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, "Europe/Berlin", 0)
		if err != nil {
			return
		}
		if s.String() == "" {
			t.Errorf("%q has no sentence", text)
		}
		at := from
		for range 5 {
			next, ok := s.Next(at)
			if !ok || !next.After(at) {
				t.Fatalf("%q: after %s comes %s, %v", text, at, next, ok)
			}
			at = next
		}
	})
}
