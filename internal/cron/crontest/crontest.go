// Package crontest has the oracle for the ticks of cron expressions: it walks through the minutes,
// and knows nothing of how package cron computes ticks.
package crontest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const day = 86_400

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Walker is the oracle: it goes through the minutes of a stretch of time, one after the other, and
// reads the wall clock of the zone in each. It knows nothing of instants and periods. Minutes are
// counted since 1970, of the wall clock those of its date and time.
type Walker struct {
	From int64   // the first minute
	wall []int64 // what the clock shows in each minute since from
}

// Walk reads the clock of a zone in the minutes from a time on.
func Walk(z *time.Location, from time.Time, minutes int) Walker {
	w := Walker{From: floorDiv(from.Unix(), 60)}
	for m := range int64(minutes) {
		at := (w.From + m) * 60
		_, offset := time.Unix(at, 0).In(z).Zone()
		w.wall = append(w.wall, floorDiv(at+int64(offset), 60))
	}
	return w
}

// Minutes is the number of minutes that w has walked through.
func (w Walker) Minutes() int { return len(w.wall) }

// Pattern is an expression of whole minutes, as the walker reads it.
type Pattern struct {
	Minutes, Hours []int // empty: *
	Weekday        int   // -1: *
	Stepped        bool  // hours are written as a step
}

func (p Pattern) names(wall int64) bool {
	minute, hour := int((wall%60+60)%60), int((floorDiv(wall, 60)%24+24)%24)
	weekday := int(((floorDiv(wall, 1440)+4)%7 + 7) % 7) // 1970-01-01 was a Thursday
	return (len(p.Minutes) == 0 || slices.Contains(p.Minutes, minute)) && (len(p.Hours) == 0 || slices.Contains(p.Hours, hour)) &&
		(p.Weekday < 0 || p.Weekday == weekday)
}

func (p Pattern) interval() bool { return len(p.Hours) == 0 || p.Stepped }

// String is the cron expression.
func (p Pattern) String() string {
	list := func(vs []int) string {
		if len(vs) == 0 {
			return "*"
		}
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(vs), " ", ","), "[]")
	}
	hours := list(p.Hours)
	if p.Stepped {
		hours = fmt.Sprintf("*/%d", p.Hours[1])
	}
	weekday := "*"
	if p.Weekday >= 0 {
		weekday = fmt.Sprint(p.Weekday)
	}
	return fmt.Sprintf("%s %s * * %s", list(p.Minutes), hours, weekday)
}

// Ticks are the minutes since w.From in which p is due, by the text of inv:E3. The first
// minutes only show the walker what the clock has shown before.
func (w Walker) Ticks(p Pattern, warm int) (due []int) {
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

// Around are expressions that a clock change can trouble: times before, in, at the end of and after
// the skipped or repeated stretch, and intervals that divide it and that do not.
func Around(change time.Time) []Pattern {
	_, was := change.Add(-time.Second).Zone()
	_, is := change.Zone()
	low, high := change.Unix()+int64(min(was, is)), change.Unix()+int64(max(was, is))
	var all []Pattern
	for _, at := range []int64{low - 3600, low - 60, low, low + 60, (low + high) / 2, high - 60, high, high + 1800} {
		minute, hour := int((at/60%60+60)%60), int((floorDiv(at, 3600)%24+24)%24)
		all = append(all, Pattern{Minutes: []int{minute}, Hours: []int{hour}, Weekday: -1})
	}
	h := int((floorDiv(low, 3600)%24 + 24) % 24)
	weekday := int(time.Unix(low, 0).UTC().Weekday())
	return append(all,
		Pattern{Hours: []int{h}, Weekday: -1}, Pattern{Minutes: []int{0, 15, 45}, Hours: []int{h, (h + 1) % 24}, Weekday: weekday},
		Pattern{Weekday: -1}, Pattern{Minutes: []int{0, 15, 30, 45}, Weekday: -1}, Pattern{Minutes: []int{30}, Weekday: -1}, Pattern{Minutes: []int{7, 53}, Weekday: weekday},
		Pattern{Minutes: []int{0}, Hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, Stepped: true, Weekday: -1},
		Pattern{Minutes: []int{30}, Hours: []int{0, 6, 12, 18}, Stepped: true, Weekday: -1})
}

// Transitions are the seconds from 2000 to 2037 at which the zone's offset changes. It looks at
// every quarter of an hour, and asks no table.
func Transitions(z *time.Location) (all []time.Time) {
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
