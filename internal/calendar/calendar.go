// Package calendar computes when time-of-day windows are open. It is pure arithmetic over embedded
// time-zone rules, so the same version of the program gives the same results on every machine.
//
// One rule covers every clock change: a time of day means the first instant at which the wall clock
// of the zone has reached it. A time in a gap (spring, a day that the zone skips) means the end of
// the gap. A repeated time (autumn) means its first occurrence. The instants keep the order of the
// times, so adjacent windows never overlap and leave no gap between them.
package calendar

import (
	"math"
	"slices"
	"time"
)

// Window is open from Start until End, without End, on each of its days. New makes it.
type Window struct {
	days       uint8 // bit 1<<time.Weekday
	start, end int64 // seconds since the midnight that begins the day; end is greater, and beyond 86,400 on the next day
	zone       *time.Location
	except     []string // dates, as 2006-01-02, on which it does not open
}

// Set is open when at least one of its windows is.
type Set []Window

// Calendar is open when all of its sets are. Without sets it always is.
type Calendar []Set

const day = 86_400

// Next is the first instant at or after t at which c is open: t itself, or an opening, a whole
// second. ok is false if c stays closed until limit.
func (c Calendar) Next(t, limit time.Time) (opens time.Time, ok bool) {
	at, end := t.Unix(), limit.Unix()
	for moved := true; moved; {
		moved = false
		for _, s := range c {
			next, ok := s.next(at, end)
			if !ok {
				return time.Time{}, false
			}
			if next > at {
				at, moved = next, true
			}
		}
	}
	if at == t.Unix() {
		return t, true
	}
	return time.Unix(at, 0).UTC(), true
}

// Until returns the first instant after t at which c is closed, if it is open at t. If c is still
// open at limit, it returns limit.
func (c Calendar) Until(t, limit time.Time) time.Time {
	end := limit.Unix()
	for _, s := range c {
		end = min(end, s.until(t.Unix(), end))
	}
	return time.Unix(end, 0).UTC()
}

func (s Set) next(at, limit int64) (opens int64, ok bool) {
	for _, w := range s {
		open, _, found := w.span(at, limit)
		if !found {
			continue
		}
		if open <= at {
			return at, true
		}
		if !ok || open < opens {
			opens, ok = open, true
		}
	}
	return opens, ok
}

// until follows windows that overlap or touch. Each round ends later than the one before, and no
// round passes limit.
func (s Set) until(at, limit int64) int64 {
	for at < limit {
		end := at
		for _, w := range s {
			if open, shut, ok := w.span(at, at); ok && open <= at {
				end = max(end, shut)
			}
		}
		if end == at {
			break
		}
		at = end
	}
	return min(at, limit)
}

// span is the opening that holds at, or else the first one after it, if it opens at or before
// limit. Days that a zone skips and windows that fall into a gap as a whole are no opening.
func (w Window) span(at, limit int64) (open, shut int64, ok bool) {
	_, offset := time.Unix(at, 0).In(w.zone).Zone()
	// An opening that holds this moment began today, yesterday, or, where the clock was set back
	// since, the day before.
	for d := floorDiv(at+int64(offset), day) - 2; d*day-maxOffset <= limit; d++ {
		if w.days&(1<<uint((d%7+11)%7)) == 0 || w.excepted(d) { // day 0 was a Thursday
			continue
		}
		if shut = Instant(w.zone, d*day+w.end); shut <= at {
			continue
		}
		if open = Instant(w.zone, d*day+w.start); open < shut {
			return open, shut, open <= limit
		}
	}
	return 0, 0, false
}

func (w Window) excepted(d int64) bool {
	return len(w.except) > 0 && slices.Contains(w.except, time.Unix(d*day, 0).UTC().Format(time.DateOnly))
}

// maxOffset is more than any zone has ever been away from UTC (15:56:08, Manila before 1844).
const maxOffset = 16 * 3600

// Instant is the first second at which the wall clock of z has reached local, given in seconds
// since 1970-01-01 00:00 of that clock.
func Instant(z *time.Location, local int64) int64 {
	for t := local - maxOffset; ; {
		offset, end := Period(z, t)
		if at := max(local-offset, t); at < end {
			return at
		}
		t = end
	}
}

// Period is the offset of z from UTC at t, and a later second until which it certainly holds, in
// seconds.
func Period(z *time.Location, t int64) (offset, end int64) {
	at := time.Unix(t, 0).In(z)
	_, o := at.Zone()
	_, bound := at.ZoneBounds()
	switch end = bound.Unix(); {
	case bound.IsZero():
		end = math.MaxInt64
	case end <= t:
		// Go 1.26 gives each year 365 days where a zone follows its last rule, so that on December
		// 31 of a leap year the bound has passed. The offset holds until the year ends.
		end = (floorDiv(t, day) + 1) * day
	}
	return int64(o), end
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
