// Package cron computes the ticks of schedules: cron expressions in a time zone, and fixed
// intervals. It is pure arithmetic over the zone rules of package calendar.
//
// A clock change moves ticks by one of two rules (inv:E3).
//
//   - An expression that names hours is a fixed time. Its tick is the first instant at which the
//     wall clock has reached that time. So a tick in the gap (spring) comes at the end of the gap,
//     once even if the gap has several, and one in the repeated hour (autumn) comes once, at the
//     first of the two.
//   - An expression whose hours begin with * is an interval, and so is @every. It follows elapsed
//     time. In a repeated hour it has the ticks of both hours. A tick in the gap is read by the
//     clock from before the gap, so it comes as long after the tick before it as on any other day.
package cron

import (
	"math/bits"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

// Spec is when a schedule is due. Parse and Every make it.
type Spec struct {
	seconds, minutes uint64 // bit n: second or minute n
	hours            uint32
	days             days
	interval         bool // follows elapsed time
	zone             *time.Location
	every, offset    int64 // seconds; every is 0 for an expression
	text             sentence
}

const day = 86_400

// Limits of Every.
const (
	MinEvery = time.Second
	MaxEvery = 10 * 366 * 24 * time.Hour
)

// horizon is how far Next looks. Every day of the calendar comes again within 40 years: the longest
// wait is that for a February 29 on a given weekday over a year such as 2100.
const horizon = 41 * 366 * day

// Every is an interval of whole seconds. Its ticks are offset after the multiples of d since 1970
// (UTC), so they do not depend on when or where it is made. An error is a *calendar.FieldError.
func Every(d, offset time.Duration) (Spec, error) {
	switch {
	case d < MinEvery || d > MaxEvery || d%time.Second != 0:
		return Spec{}, bad("every", "%v is no whole number of seconds from 1 s to 10 years", d)
	case offset < 0 || offset >= d || offset%time.Second != 0:
		return Spec{}, bad("offset", "%v is no whole number of seconds from 0 to less than the interval (%v)", offset, d)
	}
	s := Spec{interval: true, zone: time.UTC, every: int64(d / time.Second), offset: int64(offset / time.Second)}
	s.text = s.sayEvery()
	return s, nil
}

// Next is the first tick after t, a whole second. ok is false if there is none within 41 years.
func (s Spec) Next(t time.Time) (tick time.Time, ok bool) {
	from := t.Unix() + 1
	var at int64
	switch {
	case s.every > 0:
		at, ok = floorDiv(from-s.offset+s.every-1, s.every)*s.every+s.offset, true
	case s.interval:
		at, ok = s.nextElapsed(from, from+horizon)
	default:
		at, ok = s.nextFixed(from, from+horizon)
	}
	return time.Unix(at, 0).UTC(), ok
}

// nextFixed is the first tick at or after from of an expression that names hours. Instants keep the
// order of the local times, so the first local time whose instant is late enough is the tick.
func (s Spec) nextFixed(from, limit int64) (int64, bool) {
	offset, _ := calendar.Period(s.zone, from)
	local := from + offset
	// The clock has not shown this time for the first time if it was set back since: then the
	// following ones have an earlier instant too. If it was set forward, the ticks in the gap come
	// at from or later only if the gap ends there.
	if gap := s.gapBefore(from); gap > 0 {
		local -= gap
	}
	for {
		var ok bool
		if local, ok = s.match(local, limit+day); !ok {
			return 0, false
		}
		if at := calendar.Instant(s.zone, local); at >= from {
			return at, true
		}
		local++
	}
}

// gapBefore is the length of the gap that ends at t, 0 if none does.
func (s Spec) gapBefore(t int64) int64 {
	is, _ := calendar.Period(s.zone, t)
	was, _ := calendar.Period(s.zone, t-1)
	return max(is-was, 0)
}

// nextElapsed is the first tick at or after from of an expression that follows elapsed time.
func (s Spec) nextElapsed(from, limit int64) (int64, bool) {
	for from < limit {
		offset, end := calendar.Period(s.zone, from)
		best := end
		if local, ok := s.match(from+offset, end+offset); ok {
			best = local - offset
		}
		if start, _ := time.Unix(from, 0).In(s.zone).ZoneBounds(); !start.IsZero() {
			began := start.Unix()
			was, _ := calendar.Period(s.zone, began-1)
			if after := began + offset - was; from < after { // the gap, by the clock from before it
				if local, ok := s.match(from+was, min(best, after)+was); ok {
					best = local - was
				}
			}
		}
		if best < end {
			return best, true
		}
		if from = end; end == maxTime {
			break
		}
	}
	return 0, false
}

const maxTime = 1<<63 - 1

// match is the first local time at or after from and before limit that the expression names.
func (s Spec) match(from, limit int64) (int64, bool) {
	if limit < from { // the sum of an endless period and an offset
		limit = from + horizon
	}
	limit = min(limit, from+horizon)
	for d := floorDiv(from, day); d*day < limit; {
		next, ok := s.days.next(d)
		if !ok || next*day >= limit {
			return 0, false
		}
		if next > d {
			d, from = next, next*day
		}
		if tod, ok := s.timeOfDay(from - d*day); ok {
			at := d*day + tod
			return at, at < limit
		}
		d++
		from = d * day
	}
	return 0, false
}

// timeOfDay is the first time at or after from, both in seconds since midnight.
func (s Spec) timeOfDay(from int64) (int64, bool) {
	h, m, sec := int(from/3600), int(from/60%60), int(from%60)
	hour := atLeast(uint64(s.hours), h)
	if hour > h {
		m, sec = 0, 0
	}
	minute := atLeast(s.minutes, m)
	if minute > m {
		sec = 0
	}
	second := atLeast(s.seconds, sec)
	if second == 64 { // the next minute
		second = bits.TrailingZeros64(s.seconds)
		minute = atLeast(s.minutes, m+1)
	}
	if minute == 64 { // the next hour
		second, minute = bits.TrailingZeros64(s.seconds), bits.TrailingZeros64(s.minutes)
		hour = atLeast(uint64(s.hours), h+1)
	}
	return int64(hour*3600 + minute*60 + second), hour < 24
}

// atLeast is the lowest bit of set that is at least n, 64 if there is none.
func atLeast(set uint64, n int) int { return bits.TrailingZeros64(set >> n << n) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
