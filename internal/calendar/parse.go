package calendar

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FieldError names the field of a definition that cannot be parsed, and the reason.
type FieldError struct{ Field, Text string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Text }

func bad(field, format string, a ...any) *FieldError {
	return &FieldError{field, fmt.Sprintf(format, a...)}
}

// New reads the definition of a window. days are names (mon) or ranges (mon-fri, sat-mon), none =
// every day. start and end are 15:04 or 15:04:05; end may be 24:00. An end before the start is on
// the next day, and equal ones mean 24 hours of the wall clock. except are dates (2006-01-02) on
// which it does not open. An error is a *FieldError.
func New(days []string, start, end, zone string, except []string) (w Window, err error) {
	if w.days, err = parseDays(days); err != nil {
		return w, err
	}
	if w.start, err = parseTime("start", start); err != nil {
		return w, err
	}
	if w.end, err = parseTime("end", end); err != nil {
		return w, err
	}
	if w.start == day {
		return w, bad("start", "24:00 is an end; a window that starts at midnight starts at 00:00")
	}
	if w.end <= w.start {
		w.end += day
	}
	for _, d := range except {
		if _, err := time.Parse(time.DateOnly, d); err != nil {
			return w, bad("except", "%.64q is not a date such as 2026-12-25", d)
		}
	}
	w.except = except
	if w.zone, err = Zone(zone); err != nil {
		return w, bad("zone", "%v", err)
	}
	return w, nil
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func parseDays(days []string) (mask uint8, err error) {
	if len(days) == 0 {
		return 1<<7 - 1, nil
	}
	for _, d := range days {
		first, last, isRange := strings.Cut(d, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(dayNames, first), slices.Index(dayNames, last)
		if from < 0 || to < 0 {
			return 0, bad("days", "%.64q is neither a day (sun, mon, tue, wed, thu, fri, sat) nor a range of days (mon-fri)", d)
		}
		for i := from; ; i = (i + 1) % 7 {
			mask |= 1 << i
			if i == to {
				break
			}
		}
	}
	return mask, nil
}

// parseTime reads 15:04 or 15:04:05, and 24:00, in seconds since midnight.
func parseTime(field, text string) (int64, error) {
	if text == "24:00" || text == "24:00:00" {
		return day, nil
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, text); err == nil && len(text) == len(layout) { // without fractions, and with two digits an hour
			return int64(t.Hour()*3600 + t.Minute()*60 + t.Second()), nil
		}
	}
	return 0, bad(field, "%.64q is not a time of day: use 15:04 or 15:04:05, at most 24:00", text)
}
