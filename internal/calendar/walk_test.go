package calendar

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

// walker is the oracle: it goes through the minutes of a stretch of time, one after the other,
// reads the wall clock of the zone in each, and remembers the greatest minute that the clock has
// shown. It knows nothing of instants and periods. Minutes are counted since 1970, of the wall
// clock those of its date and time.
type walker struct {
	from  int64
	shown []int64 // for each minute since from: the greatest wall minute shown up to then
}

func walk(z *time.Location, from time.Time, minutes int) walker {
	w := walker{from: floorDiv(from.Unix(), 60)}
	greatest := int64(-1 << 62)
	for m := range int64(minutes) {
		at := (w.from + m) * 60
		_, offset := time.Unix(at, 0).In(z).Zone()
		greatest = max(greatest, floorDiv(at+int64(offset), 60))
		w.shown = append(w.shown, greatest)
	}
	return w
}

// rule is a window in whole minutes, as the walker reads it.
type rule struct {
	days       uint8
	start, end int64 // of the day; an end that is not after the start is on the next day
	except     []int64
}

func (r rule) open(shown int64) bool {
	end := r.end
	if end <= r.start {
		end += 1440
	}
	today := floorDiv(shown, 1440)
	for d := today; d > today-3; d-- {
		if minute := shown - d*1440; minute >= end {
			break // and earlier days ended before
		} else if minute < r.start {
			continue
		}
		weekday := ((d+4)%7 + 7) % 7 // 1970-01-01 was a Thursday
		if r.days>>weekday&1 == 1 && !slices.Contains(r.except, d) {
			return true
		}
	}
	return false
}

func (r rule) window(z *time.Location) Window {
	w := Window{days: r.days, start: r.start * 60, end: r.end * 60, zone: z}
	if w.end <= w.start {
		w.end += day
	}
	for _, d := range r.except {
		w.except = append(w.except, time.Unix(d*day, 0).UTC().Format(time.DateOnly))
	}
	return w
}

func (r rule) String() string {
	return fmt.Sprintf("days %07b %02d:%02d-%02d:%02d except %v", r.days, r.start/60, r.start%60, r.end/60, r.end%60, r.except)
}

// compare checks Next and Until against the minutes that were walked: calendar is open in exactly
// those in which open says so.
func compare(t *testing.T, c Calendar, w walker, open func(m int) bool, name func() string) {
	t.Helper()
	last := time.Unix((w.from+int64(len(w.shown)))*60, 0).UTC()
	for m := 0; m < len(w.shown); {
		at := time.Unix((w.from+int64(m))*60, 0).UTC()
		n := m
		for n < len(w.shown) && !open(n) {
			n++
		}
		opens, ok := c.Next(at, last.Add(-time.Second))
		if ok != (n < len(w.shown)) || ok && opens.Unix() != (w.from+int64(n))*60 {
			t.Fatalf("%s: Next(%s) = %s, %v; the walker opens after %d minutes (%s)", name(), at, opens, ok, n-m, at.Add(time.Duration(n-m)*time.Minute))
		}
		for m = n; n < len(w.shown) && open(n); {
			n++
		}
		if m < n {
			shuts := c.Until(opens, last)
			if shuts.Unix() != (w.from+int64(n))*60 {
				t.Fatalf("%s: Until(%s) = %s; the walker closes %s", name(), opens, shuts, opens.Add(time.Duration(n-m)*time.Minute))
			}
		}
		m = n
	}
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

// distinctZones leaves out the older names of the same rules.
func distinctZones(t *testing.T) map[string]*time.Location {
	t.Helper()
	names, err := Zones()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	seen, out := map[string]bool{}, map[string]*time.Location{}
	for _, n := range names {
		f, err := must(t, archive).Open(n)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		f.Close()
		z, err2 := Zone(n)
		if err != nil || err2 != nil {
			t.Fatal(n, err, err2)
		}
		if !seen[string(data)] {
			seen[string(data)], out[n] = true, z
		}
	}
	return out
}

func must[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	v, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const everyDay = 1<<7 - 1

// around returns the windows that a clock change can affect: their ends are before, on, inside and
// after the skipped or repeated interval.
func around(change time.Time) []rule {
	_, was := change.Add(-time.Second).Zone()
	_, is := change.Zone()
	low, high := change.Unix()+int64(min(was, is)), change.Unix()+int64(max(was, is))
	clock := func(s int64) int64 { return ((s/60)%1440 + 1440) % 1440 }
	l, m, h := clock(low), clock((low+high)/2), clock(high)
	var rules []rule
	for _, e := range [][2]int64{
		{m, clock(high + 3600)}, {clock(low - 3600), m}, {l, h}, {h, l}, {clock(low + 300), clock(high - 300)}, {m, m}, {l, m}, {m, h}, {m, clock(high - 60)},
		{h, clock(high + 7200)}, {clock(low - 7200), l}, {0, 1440}, {1320, 360}, {300, 420},
	} {
		rules = append(rules, rule{days: everyDay, start: e[0], end: e[1]})
	}
	day := floorDiv(low, day)
	only := uint8(1) << uint(time.Unix(low, 0).UTC().Weekday())
	return append(rules, rule{days: only, start: m, end: h}, rule{days: everyDay, start: m, end: l, except: []int64{day}})
}

// inv:E3 spec:T1: every window that a clock change can trouble, at every change of every zone,
// against the walker.
func TestEveryTransition(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("make calendar runs it; it has one goroutine and nothing for the race detector")
	}
	zones := distinctZones(t)
	changes, checks := 0, 0
	for name, z := range zones {
		for _, change := range transitions(z) {
			changes++
			w := walk(z, change.Add(-13*time.Hour).Truncate(time.Minute), 39*60)
			for _, r := range around(change) {
				checks++
				compare(t, Calendar{{r.window(z)}}, w, func(m int) bool { return r.open(w.shown[m]) },
					func() string { return fmt.Sprintf("%s, change at %s, %s", name, change, r) })
			}
		}
	}
	t.Logf("tz %s: %d zones, %d transitions, %d windows: 0 differ", TZVersion, len(zones), changes, checks)
	if changes < 10_000 {
		t.Errorf("only %d transitions", changes)
	}
}

// FuzzCalendar compares a calendar of two sets, one with two windows, with the walker, anywhere in
// any zone.
func FuzzCalendar(f *testing.F) {
	names, err := Zones()
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	f.Add(uint16(slices.Index(names, "Europe/Berlin")), uint16(0), int64(1_761_400_000), []byte{127, 2, 30, 6, 0, 127, 22, 0, 2, 45, 62, 1, 0, 5, 30})
	f.Add(uint16(slices.Index(names, "Australia/Lord_Howe")), uint16(slices.Index(names, "Pacific/Apia")), int64(1_325_100_000), []byte{127, 1, 45, 2, 15, 1, 0, 0, 24, 0, 62, 1, 0, 5, 30})
	f.Add(uint16(slices.Index(names, "Pacific/Apia")), uint16(slices.Index(names, "Asia/Kathmandu")), int64(1_325_100_000), bytes.Repeat([]byte{32, 20, 0, 6, 0}, 3))
	f.Fuzz(func(t *testing.T, a, b uint16, from int64, spec []byte) {
		from = 946_684_800 + (from%1_199_145_600+1_199_145_600)%1_199_145_600 // 2000 to 2037
		z1, err1 := Zone(names[int(a)%len(names)])
		z2, err2 := Zone(names[int(b)%len(names)])
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if len(spec) < 15 {
			t.Skip()
		}
		var rules [3]rule
		for i := range rules {
			s := spec[i*5:]
			rules[i] = rule{days: s[0] & 127, start: int64(s[1]%24)*60 + int64(s[2]%60), end: int64(s[3]%25)*60 + int64(s[4]%60)}
			rules[i].end = min(rules[i].end, 1440)
		}
		at := time.Unix(from, 0).Truncate(time.Minute)
		// A clock that was set back in the day before has shown more than it shows.
		warm := 2 * 1440
		w1, w2 := walk(z1, at.Add(-48*time.Hour), 10*1440), walk(z2, at.Add(-48*time.Hour), 10*1440)
		w1.from, w2.from = w1.from+int64(warm), w2.from+int64(warm)
		w1.shown, w2.shown = w1.shown[warm:], w2.shown[warm:]
		c := Calendar{{rules[0].window(z1), rules[1].window(z1)}, {rules[2].window(z2)}}
		compare(t, c, w1, func(m int) bool {
			return (rules[0].open(w1.shown[m]) || rules[1].open(w1.shown[m])) && rules[2].open(w2.shown[m])
		}, func() string {
			return fmt.Sprintf("%s %s from %s: (%s | %s) & %s", z1, z2, at, rules[0], rules[1], rules[2])
		})
	})
}
