package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// sentence says in words when a Spec is due.
type sentence string

// String is a sentence such as "every day at 02:30, Europe/Berlin".
func (s Spec) String() string { return string(s.text) }

func (s Spec) sayEvery() sentence {
	text := "every " + short(time.Duration(s.every)*time.Second)
	if s.offset > 0 {
		text += ", offset " + short(time.Duration(s.offset)*time.Second)
	}
	return sentence(text)
}

// short is d without the zeros at its end: 1h30m instead of 1h30m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

func (s Spec) say() sentence {
	at, on := s.sayTime(), s.days.say()
	zone := ", " + s.zone.String()
	switch {
	case strings.HasPrefix(at, "every") && on == "every day":
		return sentence(at + zone)
	case strings.HasPrefix(at, "every"):
		return sentence(at + " " + on + zone)
	}
	return sentence(on + " " + at + zone)
}

func (s Spec) sayTime() string {
	hours, minutes, seconds := bits.OnesCount32(s.hours), bits.OnesCount64(s.minutes), bits.OnesCount64(s.seconds)
	if seconds == 1 && hours*minutes <= 6 && !s.interval {
		var times []string
		for h := range 24 {
			for m := range 60 {
				if s.hours>>h&1 == 1 && s.minutes>>m&1 == 1 {
					times = append(times, clock(h, m, bits.TrailingZeros64(s.seconds)))
				}
			}
		}
		return "at " + join(times, "and")
	}
	onTheMinute := s.seconds == 1
	perHour := steps("hour", uint64(s.hours), 24)
	perMinute := steps("minute", s.minutes, 60)
	perSecond := steps("second", s.seconds, 60)
	switch {
	case !onTheMinute && perSecond != "" && minutes == 60 && hours == 24:
		return perSecond
	case onTheMinute && perMinute != "" && hours == 24:
		return perMinute
	case onTheMinute && perHour != "" && minutes == 1:
		return perHour + " at minute " + strconv.Itoa(bits.TrailingZeros64(s.minutes))
	}
	var parts []string
	if !onTheMinute {
		parts = append(parts, orList(perSecond, "at second", s.seconds))
	}
	if onTheMinute || minutes < 60 {
		parts = append(parts, orList(perMinute, "at minute", s.minutes))
	}
	parts = append(parts, orList(perHour, "at hour", uint64(s.hours)))
	text := parts[0]
	for _, p := range parts[1:] {
		text += " of " + strings.TrimPrefix(p, "at ")
	}
	return text
}

func clock(h, m, s int) string {
	if s == 0 {
		return fmt.Sprintf("%02d:%02d", h, m)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

// steps says "every 15 minutes" for a set that has every 15th of n values from 0, "" for any other.
func steps(unit string, set uint64, n int) string {
	count := bits.OnesCount64(set)
	if count < 2 || n%count != 0 {
		return ""
	}
	step := n / count
	for v := range n {
		if (set>>v&1 == 1) != (v%step == 0) {
			return ""
		}
	}
	if step == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", step, unit)
}

func orList(steps, name string, set uint64) string {
	if steps != "" {
		return steps
	}
	return list(name, set, strconv.Itoa)
}

// list says "minutes 0, 10 to 20 and 40" for the values of set.
func list(name string, set uint64, say func(int) string) string {
	var items []string
	for v := 0; v < 64; v++ {
		if set>>v&1 == 0 {
			continue
		}
		end := v
		for end < 63 && set>>(end+1)&1 == 1 {
			end++
		}
		if end-v >= 2 {
			items = append(items, say(v)+" to "+say(end))
			v = end
			continue
		}
		items = append(items, say(v))
	}
	if name == "" {
		return join(items, "and")
	}
	if bits.OnesCount64(set) > 1 {
		name += "s"
	}
	return name + " " + join(items, "and")
}

func join(items []string, last string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " " + last + " " + items[len(items)-1]
}

var ordinals = []string{"first", "second", "third", "fourth", "fifth"}

func (x *days) say() string {
	var dates, weekdays []string
	if x.dates != 0 && !x.anyDate {
		dates = append(dates, list("day", uint64(x.dates), strconv.Itoa)+" of the month")
	}
	for n := range 31 {
		switch {
		case x.fromLast>>n&1 == 0:
		case n == 0:
			dates = append(dates, "the last day of the month")
		default:
			dates = append(dates, fmt.Sprintf("%d days before the last of the month", n))
		}
	}
	if x.near != 0 {
		dates = append(dates, "the Monday to Friday nearest to "+list("day", uint64(x.near), strconv.Itoa))
	}
	if x.lastWork {
		dates = append(dates, "the last Monday to Friday of the month")
	}
	name := func(v int) string { return time.Weekday(v).String() }
	if x.weekdays != 0 && !x.anyWeekday {
		weekdays = append(weekdays, list("", uint64(x.weekdays), name))
	}
	for n, set := range x.nth {
		if set != 0 {
			weekdays = append(weekdays, "the "+ordinals[n]+" "+list("", uint64(set), name)+" of the month")
		}
	}
	if x.lastDay != 0 {
		weekdays = append(weekdays, "the last "+list("", uint64(x.lastDay), name)+" of the month")
	}
	text := "every day"
	switch d, w := join(dates, "and"), join(weekdays, "and"); {
	case d != "" && w != "" && x.either:
		text = "on " + d + " or on " + w
	case d != "" && w != "":
		text = "on " + d + " if it is " + w
	case d+w != "":
		text = "on " + d + w
	}
	if x.months != 1<<13-2 {
		text += " in " + list("", uint64(x.months), func(m int) string { return time.Month(m).String() })
	}
	return text
}
