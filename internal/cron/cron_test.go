package cron

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

func parse(t *testing.T, text, zone string) Spec {
	t.Helper()
	s, err := Parse(text, zone, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ticks formats the next n ticks after from, in the zone.
func ticks(t *testing.T, s Spec, from string, n int, layout string) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for range n {
		next, ok := s.Next(at)
		if !ok {
			return strings.Join(append(out, "none"), " ")
		}
		if !next.After(at) {
			t.Fatalf("the tick after %s is %s", at, next)
		}
		at = next
		out = append(out, at.In(s.zone).Format(layout))
	}
	return strings.Join(out, " ")
}

// spec:N2
func TestFields(t *testing.T) {
	const from, date, tod = "2026-06-01T12:00:00Z", "Jan02-15:04", "15:04:05" // a Monday
	for _, c := range []struct{ text, layout, want string }{
		{"30 2 * * *", date, "Jun02-02:30 Jun03-02:30 Jun04-02:30"},
		{"15 30 2 * * *", tod, "02:30:15 02:30:15 02:30:15"},
		{"*/20 * * * *", date, "Jun01-12:20 Jun01-12:40 Jun01-13:00"},
		{"*/20 * * * * *", tod, "12:00:20 12:00:40 12:01:00"},
		{"50-59/4 * * * *", date, "Jun01-12:50 Jun01-12:54 Jun01-12:58"},
		{"50/4 * * * *", date, "Jun01-12:50 Jun01-12:54 Jun01-12:58"},
		{"0 9-11,14 * * *", date, "Jun01-14:00 Jun02-09:00 Jun02-10:00"},
		{"59 23 31 12 *", date, "Dec31-23:59 Dec31-23:59 Dec31-23:59"},
		{"0 0 31 * *", date, "Jul31-00:00 Aug31-00:00 Oct31-00:00"},
		{"0 0 * FEB-Mar Mon", date, "Feb01-00:00 Feb08-00:00 Feb15-00:00"},
		{"0 0 * * 7", date, "Jun07-00:00 Jun14-00:00 Jun21-00:00"},
		{"0 0 * * sat-sun", date, "Jun06-00:00 Jun07-00:00 Jun13-00:00"},
		{"0 0 * * 5-7", date, "Jun05-00:00 Jun06-00:00 Jun07-00:00"},
		{"0 0 3 * mon", date, "Jun03-00:00 Jun08-00:00 Jun15-00:00"},
		{"0 0 ? * mon", date, "Jun08-00:00 Jun15-00:00 Jun22-00:00"},
		{"0 0 */2 * mon", date, "Jun15-00:00 Jun29-00:00 Jul13-00:00"}, // both, because one begins with *
		{"0 0 L * *", date, "Jun30-00:00 Jul31-00:00 Aug31-00:00"},
		{"0 0 L-1,l * ?", date, "Jun29-00:00 Jun30-00:00 Jul30-00:00"},
		{"0 0 LW * *", date, "Jun30-00:00 Jul31-00:00 Aug31-00:00"},
		{"0 0 LW 5,10 *", date, "Oct30-00:00 May31-00:00 Oct29-00:00"},
		{"0 0 14W * *", date, "Jun15-00:00 Jul14-00:00 Aug14-00:00"},
		{"0 0 1W 8 *", date, "Aug03-00:00 Aug02-00:00 Aug01-00:00"},
		{"0 0 31W 1,5 *", date, "Jan29-00:00 May31-00:00 Jan31-00:00"},
		{"0 0 * * fri#2", date, "Jun12-00:00 Jul10-00:00 Aug14-00:00"},
		{"0 0 * * 1#5", date, "Jun29-00:00 Aug31-00:00 Nov30-00:00"},
		{"0 0 * * 5L", date, "Jun26-00:00 Jul31-00:00 Aug28-00:00"},
		{"0 0 * * friL", date, "Jun26-00:00 Jul31-00:00 Aug28-00:00"},
		{"@daily", date, "Jun02-00:00 Jun03-00:00 Jun04-00:00"},
		{"@Hourly", date, "Jun01-13:00 Jun01-14:00 Jun01-15:00"},
		{"@weekly", date, "Jun07-00:00 Jun14-00:00 Jun21-00:00"},
		{"@monthly", date, "Jul01-00:00 Aug01-00:00 Sep01-00:00"},
		{"@yearly", date, "Jan01-00:00 Jan01-00:00 Jan01-00:00"},
		{"@every 90m", date, "Jun01-13:30 Jun01-15:00 Jun01-16:30"},
		{" \t0   13 * *  * ", date, "Jun01-13:00 Jun02-13:00 Jun03-13:00"},
	} {
		if got := ticks(t, parse(t, c.text, ""), from, 3, c.layout); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
	if got := ticks(t, parse(t, "0 0 29 2 *", ""), "2096-03-01T00:00:00Z", 2, time.DateOnly); got != "2104-02-29 2108-02-29" {
		t.Error("February 29 across 2100: ", got)
	}
	if got := ticks(t, parse(t, "0 0 ? 2 sun#5", ""), from, 2, time.DateOnly); got != "2032-02-29 2060-02-29" {
		t.Error("the fifth Sunday of a February: ", got)
	}
}

// inv:E3 for what each rule says, at clock changes that a reader can check.
func TestClockChanges(t *testing.T) {
	const berlin, layout = "Europe/Berlin", "02T15:04:05Z07" // gap at March 29 02:00, repeated hour at October 25 03:00
	const spring, autumn = "2026-03-28T22:30:00Z", "2026-10-24T21:30:00Z"
	for _, c := range []struct{ name, text, zone, from, want string }{
		{"fixed time in the gap", "30 2 * * *", berlin, spring, "29T03:00:00+02 30T02:30:00+02"},
		{"several in the gap", "*/15 2 * * *", berlin, spring, "29T03:00:00+02 30T02:00:00+02"},
		{"in the gap and at its end", "0 2,3 * * *", berlin, spring, "29T03:00:00+02 30T02:00:00+02"},
		{"seconds in the gap", "10,20 59 2 * * *", berlin, spring, "29T03:00:00+02 30T02:59:10+02"},
		{"fixed time in the repeated hour", "30 2 * * *", berlin, autumn, "25T02:30:00+02 26T02:30:00+01"},
		{"several in the repeated hour", "*/30 2 * * *", berlin, autumn, "25T02:00:00+02 25T02:30:00+02 26T02:00:00+01"},
		{"after the repeated hour", "0 3 * * *", berlin, autumn, "25T03:00:00+01 26T03:00:00+01"},
		{"interval over the gap", "*/30 * * * *", berlin, "2026-03-29T00:00:00Z", "29T01:30:00+01 29T03:00:00+02 29T03:30:00+02"},
		{"every hour over the gap", "30 * * * *", berlin, "2026-03-29T00:00:00Z", "29T01:30:00+01 29T03:30:00+02 29T04:30:00+02"},
		{"every two hours over the gap", "0 */2 * * *", berlin, spring, "29T00:00:00+01 29T03:00:00+02 29T04:00:00+02"},
		{"interval over the repeated hour", "30 * * * *", berlin, autumn, "25T00:30:00+02 25T01:30:00+02 25T02:30:00+02 25T02:30:00+01 25T03:30:00+01"},
		{"every over the gap", "@every 1h", berlin, "2026-03-29T00:30:00Z", "29T01:00:00Z 29T02:00:00Z"},
		{"half an hour is skipped", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", "04T02:30:00+11 05T02:15:00+11"},
		{"every hour over half an hour", "15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", "04T01:15:00+10 04T02:45:00+11 04T03:15:00+11"},
		{"no midnight", "@daily", "America/Santiago", "2026-09-05T12:00:00Z", "06T01:00:00-03 07T00:00:00-03"},
		{"every six hours without a midnight", "0 */6 * * *", "America/Santiago", "2026-09-05T20:00:00Z", "05T18:00:00-04 06T01:00:00-03 06T06:00:00-03"},
		{"a day that the zone skips", "0 9 * * fri", "Pacific/Apia", "2011-12-29T12:00:00Z", "31T00:00:00+14 06T09:00:00+14"},
		{"the last day of a leap year", "0 1 * * *", berlin, "2024-12-30T12:00:00Z", "31T01:00:00+01 01T01:00:00+01"},
		{"hourly on the last day of a leap year", "0 * * * *", "America/New_York", "2040-12-31T12:00:00Z", "31T08:00:00-05 31T09:00:00-05"},
	} {
		got := ticks(t, parse(t, c.text, c.zone), c.from, strings.Count(c.want, " ")+1, layout)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// spec:N2 spec:N4
func TestExpressionsAreChecked(t *testing.T) {
	for _, c := range []struct{ text, zone, says string }{
		{"", "", "0 fields"}, {"* * * *", "", "4 fields"}, {"0 0 0 * * * 2026", "", "7 fields"},
		{"60 * * * *", "", "minute: 60"}, {"* 24 * * *", "", "hour: 24"}, {"0 0 0 * *", "", "day of month: 0"}, {"0 0 32 * *", "", "day of month: 32"},
		{"0 0 * 13 *", "", "month: 13"}, {"0 0 * 0 *", "", "month: 0"}, {"0 0 * * 8", "", "weekday: 8"}, {"99 * * * * *", "", "second: 99"},
		{"*/0 * * * *", "", "the step"}, {"*/60 * * * *", "", "the step"}, {"*/x * * * *", "", "the step"}, {"5-1 * * * *", "", "ends before"},
		{"1-2-3 * * * *", "", "minute"}, {"1,,2 * * * *", "", "minute"}, {"+1 * * * *", "", "minute"}, {"-1 * * * *", "", "minute"}, {"1.5 * * * *", "", "minute"},
		{"? * * * *", "", "minute"}, {"0 0 * foo *", "", "month"}, {"0 0 * * fri#6", "", "weekday"}, {"0 0 * * #2", "", "weekday"}, {"0 0 * * xL", "", "weekday"},
		{"0 0 L-31 * *", "", "day of month"}, {"0 0 W * *", "", "day of month"}, {"0 0 32W * *", "", "day of month"},
		{"0 0 30 2 *", "", "never comes"}, {"30 2 31 4,6,9,11 *", "", "never comes"}, {"0 0 L-30 2 *", "", "never comes"}, {"0 0 30W 2 *", "", "never comes"},
		{"@reboot", "", "@hourly"}, {"@every", "", "@hourly"}, {"@every soon", "", "duration"}, {"@every 500ms", "", "1 s"}, {"@every 1.5s", "", "whole number"},
		{"@every -1h", "", "1 s"}, {"@every 100000h", "", "10 years"}, {"TZ=UTC 0 0 * * *", "", "second"}, {strings.Repeat("1,", 300) + "1 * * * *", "", "512"},
		{"0 0 * * *", "Mars/Olympus", "Europe/Berlin"}, {"0 0 * * *", "Local", "Europe/Berlin"},
	} {
		_, err := Parse(c.text, c.zone, 0)
		if e, ok := errors.AsType[*calendar.FieldError](err); !ok || !strings.Contains(e.Text, c.says) {
			t.Errorf("%q %s: %v, want a text with %q", c.text, c.zone, err, c.says)
		}
	}
	for _, offset := range []time.Duration{-time.Second, time.Hour, 1500 * time.Millisecond} {
		if _, err := Every(time.Hour, offset); err == nil {
			t.Errorf("an offset of %v in an interval of an hour", offset)
		}
	}
	if _, err := Parse("0 * * * *", "", time.Minute); err == nil {
		t.Error("an expression with an offset")
	}
}

// spec:N4
func TestEveryHasAnOffset(t *testing.T) {
	s, err := Every(time.Hour, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := ticks(t, s, "2026-06-01T12:04:59Z", 2, time.TimeOnly) + " " + ticks(t, s, "2026-06-01T12:05:00Z", 1, time.TimeOnly); got != "12:05:00 13:05:00 13:05:00" {
		t.Error(got)
	}
	if got := ticks(t, s, "1969-12-31T23:30:00Z", 2, time.TimeOnly); got != "00:05:00 01:05:00" {
		t.Error("before 1970: ", got)
	}
	tick, _ := s.Next(time.Date(2026, 6, 1, 12, 4, 59, 999_999_999, time.UTC))
	if got := tick.Format(time.TimeOnly); got != "12:05:00" {
		t.Error("after a fraction of a second: ", got)
	}
}

// spec:N2
func TestSentences(t *testing.T) {
	for text, want := range map[string]string{
		"30 2 * * *":              "every day at 02:30, Europe/Berlin",
		"30 2,14 * * mon-fri":     "on Monday to Friday at 02:30 and 14:30, Europe/Berlin",
		"15 30 2 1 * *":           "on day 1 of the month at 02:30:15, Europe/Berlin",
		"* * * * *":               "every minute, Europe/Berlin",
		"*/15 * * * *":            "every 15 minutes, Europe/Berlin",
		"*/10 * * * * *":          "every 10 seconds, Europe/Berlin",
		"@hourly":                 "every hour at minute 0, Europe/Berlin",
		"5 */2 * * sun":           "every 2 hours at minute 5 on Sunday, Europe/Berlin",
		"*/15 9-17 * * *":         "every 15 minutes of hours 9 to 17, Europe/Berlin",
		"* 0 * * *":               "every minute of hour 0, Europe/Berlin",
		"0 */7 * * *":             "every day at minute 0 of hours 0, 7, 14 and 21, Europe/Berlin",
		"0 0 13 * fri":            "on day 13 of the month or on Friday at 00:00, Europe/Berlin",
		"0 0 */2 * mon":           "on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month if it is Monday at 00:00, Europe/Berlin",
		"0 0 L 1,7 *":             "on the last day of the month in January and July at 00:00, Europe/Berlin",
		"0 0 15W,LW,L-2 * *":      "on 2 days before the last of the month, the Monday to Friday nearest to day 15 and the last Monday to Friday of the month at 00:00, Europe/Berlin",
		"0 0 * * fri#2,5L":        "on the second Friday of the month and the last Friday of the month at 00:00, Europe/Berlin",
		"*/20 0,30 * * * *":       "every 20 seconds of every 30 minutes of every hour, Europe/Berlin",
		"7 1,2,3 4,5,6 1,2,3 * *": "on days 1 to 3 of the month at second 7 of minutes 1 to 3 of hours 4 to 6, Europe/Berlin",
		"@every 90m":              "every 1h30m",
	} {
		if got := parse(t, text, "Europe/Berlin").String(); got != want {
			t.Errorf("%q: %s\nwant %s", text, got, want)
		}
	}
	s, err := Every(48*time.Hour, 20*time.Second)
	if err != nil || s.String() != "every 48h, offset 20s" {
		t.Error(s, err)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, text := range []string{"30 2 * * *", "*/15 * * * *", "0 0 29 2 *"} {
		b.Run(fmt.Sprintf("%q", text), func(b *testing.B) {
			s, err := Parse(text, "Europe/Berlin", 0)
			if err != nil {
				b.Fatal(err)
			}
			from := time.Date(2026, 6, 6, 12, 0, 0, 0, time.UTC)
			for b.Loop() {
				s.Next(from)
			}
		})
	}
}
