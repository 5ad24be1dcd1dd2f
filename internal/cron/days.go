package cron

import "time"

// days are the dates that an expression names.
type days struct {
	months              uint16   // bit 1 to 12
	dates               uint32   // bit 1 to 31: days of the month
	weekdays            uint8    // bit 0 to 6: every such weekday
	nth                 [5]uint8 // weekdays of which only the first to the fifth of the month counts
	lastDay             uint8    // weekdays of which only the last of the month counts
	fromLast            uint32   // bit n: n days before the last of the month
	near                uint32   // bit 1 to 31: the weekday (Monday to Friday) nearest to this day
	lastWork            bool     // the last weekday of the month
	either              bool     // both fields name days, and one of them is enough
	anyDate, anyWeekday bool
}

// next is the first day at or after d, in days since 1970, that is named. ok is false if there is
// none within 41 years.
func (x *days) next(d int64) (int64, bool) {
	for end := d + horizon/day; d < end; {
		y, m, date := time.Unix(d*day, 0).UTC().Date()
		if x.months>>m&1 == 0 {
			d = firstOf(y, m+1)
			continue
		}
		for last := firstOf(y, m+1) - d + int64(date) - 1; int64(date) <= last; date++ {
			if x.names(y, m, date, int(last), time.Weekday(((d+4)%7+7)%7)) {
				return d, true
			}
			d++
		}
	}
	return 0, false
}

func firstOf(y int, m time.Month) int64 {
	return floorDiv(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).Unix(), day)
}

func (x *days) names(y int, m time.Month, date, last int, weekday time.Weekday) bool {
	byDate := x.dates>>date&1 == 1 || x.fromLast>>(last-date)&1 == 1 || x.nearest(date, last, weekday)
	byWeekday := x.weekdays>>weekday&1 == 1 || x.nth[(date-1)/7]>>weekday&1 == 1 || date > last-7 && x.lastDay>>weekday&1 == 1
	if x.either {
		return byDate || byWeekday
	}
	return byDate && byWeekday
}

// nearest tells whether date is the Monday to Friday nearest to a day that is named with W. The
// search does not leave the month.
func (x *days) nearest(date, last int, weekday time.Weekday) bool {
	if x.near == 0 && !x.lastWork || weekday == time.Saturday || weekday == time.Sunday {
		return false
	}
	named := func(d int) bool { return d >= 1 && d <= last && x.near>>d&1 == 1 }
	friday, monday := weekday == time.Friday, weekday == time.Monday
	return named(date) ||
		friday && (named(date+1) || date+2 == last && named(last)) ||
		monday && (named(date-1) || date == 3 && named(1)) ||
		x.lastWork && (date == last || friday && date+2 >= last)
}
