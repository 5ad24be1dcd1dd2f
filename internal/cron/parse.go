package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

// MaxText is the longest expression, in bytes.
const MaxText = 512

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func bad(field, format string, a ...any) *calendar.FieldError {
	return &calendar.FieldError{Field: field, Text: fmt.Sprintf(format, a...)}
}

// Parse reads five fields (minute, hour, day of month, month, weekday), six with seconds in front,
// a macro such as @daily, or @every with a duration, whose ticks offset moves. A field is *, a
// number, a range (1-5), a step (*/15, 10-40/10), or a list of these (1,15). Months and weekdays
// may be names, in any case; weekday 7 is Sunday. Days of the month also take L (the last), L-3,
// LW, 15W (the Monday to Friday nearest to it); weekdays take 5L (the last Friday of the month) and
// fri#2 (the second). If both fields of days are restricted, a day needs to be in one of them; a
// field that begins with * or ? does not count as restricted, and then a day must be in both.
//
// An expression that names no day that exists is refused. An error is a *calendar.FieldError.
func Parse(text, zone string, offset time.Duration) (Spec, error) {
	if len(text) > MaxText {
		return Spec{}, bad("cron", "%d bytes exceed the limit of %d", len(text), MaxText)
	}
	if of, ok := strings.CutPrefix(strings.TrimSpace(text), "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(of))
		if err != nil {
			return Spec{}, bad("cron", "%.64q after @every is not a duration such as 1h30m", of)
		}
		return Every(d, offset)
	}
	if offset != 0 {
		return Spec{}, bad("offset", "%v moves the ticks of an interval; in a cron expression write the minute itself", offset)
	}
	z, err := calendar.Zone(zone)
	if err != nil {
		return Spec{}, bad("zone", "%v", err)
	}
	fields := strings.Fields(text)
	if len(fields) == 1 && strings.HasPrefix(fields[0], "@") {
		full, ok := macros[strings.ToLower(fields[0])]
		if !ok {
			return Spec{}, bad("cron", "%.64q is not one of @yearly, @monthly, @weekly, @daily, @hourly and @every 90m", fields[0])
		}
		fields = strings.Fields(full)
	}
	if len(fields) == 5 {
		fields = slices.Insert(fields, 0, "0")
	}
	if len(fields) != 6 {
		return Spec{}, bad("cron", "%.64q has %d fields; write 5 (minute, hour, day of month, month, weekday), or 6 with seconds in front", text, len(fields))
	}
	s := Spec{zone: z}
	if err := s.parse(fields); err != nil {
		return Spec{}, err
	}
	if _, ok := s.days.next(0); !ok {
		return Spec{}, bad("cron", "%.64q never comes: no year has such a day", text)
	}
	s.text = s.say()
	return s, nil
}

// field is the range of one field of an expression, and the names of its values.
type field struct {
	name     string
	low, top int
	names    []string // of the values from low
}

var (
	monthNames = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	dayNames   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	fieldSecond  = field{"second", 0, 59, nil}
	fieldMinute  = field{"minute", 0, 59, nil}
	fieldHour    = field{"hour", 0, 23, nil}
	fieldDate    = field{"day of month", 1, 31, nil}
	fieldMonth   = field{"month", 1, 12, monthNames}
	fieldWeekday = field{"weekday", 0, 7, dayNames}
)

func (s *Spec) parse(f []string) (err error) {
	var hours, months uint64
	if s.seconds, err = fieldSecond.set(f[0]); err != nil {
		return err
	}
	if s.minutes, err = fieldMinute.set(f[1]); err != nil {
		return err
	}
	if hours, err = fieldHour.set(f[2]); err != nil {
		return err
	}
	if err = s.days.parseDates(f[3]); err != nil {
		return err
	}
	if months, err = fieldMonth.set(f[4]); err != nil {
		return err
	}
	if err = s.days.parseWeekdays(f[5]); err != nil {
		return err
	}
	s.hours, s.days.months = uint32(hours), uint16(months)
	s.interval = star(f[2])
	s.days.either = !star(f[3]) && !star(f[5])
	return nil
}

func star(text string) bool { return text[0] == '*' || text[0] == '?' }

// set reads a list of values, ranges and steps.
func (f field) set(text string) (set uint64, err error) {
	for _, item := range strings.Split(text, ",") {
		one, err := f.item(item)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

func (f field) item(text string) (set uint64, err error) {
	body, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.top {
			return 0, bad("cron", "%s: the step in %.32q is no number from 1 to %d", f.name, text, f.top)
		}
	}
	low, high := f.low, f.top
	if f.top == 7 {
		high = 6 // * counts Sunday once
	}
	if body != "*" {
		first, last, isRange := strings.Cut(body, "-")
		if low, err = f.value(first, text); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if high, err = f.value(last, text); err != nil {
				return 0, err
			}
			if high == 0 && f.top == 7 { // sat-sun
				high = 7
			}
		case !stepped:
			high = low
		}
		if high < low {
			return 0, bad("cron", "%s: the range %.32q ends before it begins; write two ranges", f.name, text)
		}
	}
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	if f.top == 7 && set>>7&1 == 1 {
		set = set&^(1<<7) | 1
	}
	return set, nil
}

func (f field) value(text, item string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return i + f.low, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || text[0] == '+' || text[0] == '-' {
		return 0, bad("cron", "%s: %.32q is not a number, a range (1-5), a step (*/15) or a list of these", f.name, item)
	}
	if n < f.low || n > f.top {
		return 0, bad("cron", "%s: %d in %.32q is out of range: %d to %d", f.name, n, item, f.low, f.top)
	}
	return n, nil
}

func (x *days) parseDates(text string) error {
	if text == "?" {
		text = "*"
	}
	for _, item := range strings.Split(text, ",") {
		upper := strings.ToUpper(item)
		before, isLast := strings.CutPrefix(upper, "L-")
		number, isNear := strings.CutSuffix(upper, "W")
		switch {
		case upper == "L":
			x.fromLast |= 1
		case upper == "LW":
			x.lastWork = true
		case isLast:
			n, err := strconv.Atoi(before)
			if err != nil || n < 1 || n > 30 {
				return bad("cron", "day of month: %.32q is not L-1 to L-30", item)
			}
			x.fromLast |= 1 << n
		case isNear:
			n, err := fieldDate.value(number, item)
			if err != nil {
				return err
			}
			x.near |= 1 << n
		default:
			set, err := fieldDate.item(item)
			if err != nil {
				return err
			}
			x.dates |= uint32(set)
		}
	}
	x.anyDate = bits.OnesCount32(x.dates) == 31
	return nil
}

func (x *days) parseWeekdays(text string) error {
	if text == "?" {
		text = "*"
	}
	for _, item := range strings.Split(text, ",") {
		name, nth, isNth := strings.Cut(item, "#")
		last, isLast := strings.CutSuffix(strings.ToUpper(item), "L")
		switch {
		case isNth:
			v, err := fieldWeekday.value(name, item)
			n, err2 := strconv.Atoi(nth)
			if err != nil || err2 != nil || n < 1 || n > 5 {
				return bad("cron", "weekday: %.32q is not a weekday and a number from 1 to 5, such as fri#2", item)
			}
			x.nth[n-1] |= 1 << (v % 7)
		case isLast:
			v, err := fieldWeekday.value(last, item)
			if err != nil {
				return err
			}
			x.lastDay |= 1 << (v % 7)
		default:
			set, err := fieldWeekday.item(item)
			if err != nil {
				return err
			}
			x.weekdays |= uint8(set)
		}
	}
	x.anyWeekday = x.weekdays == 1<<7-1
	return nil
}
