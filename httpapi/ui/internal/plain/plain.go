// Package plain writes values as texts for people: times, numbers, and the states of jobs.
package plain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/failure"
)

// MaxShown is how many bytes of args and the like a page shows; the rest can be downloaded.
const MaxShown = 32 << 10

// Duration is a span of time in at most two units.
func Duration(d time.Duration) string {
	d = max(d, -d)
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) && i < 3 && d/u.of < 10 {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	if d >= time.Millisecond {
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return "0 s"
}

// Ago is a time as people say it: "3 min ago", "in 2 h".
func Ago(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	switch d := time.Until(t); {
	case d > time.Second:
		return "in " + Duration(d)
	case d < -time.Second:
		return Duration(d) + " ago"
	}
	return "now"
}

// Stamp is a time in full, in UTC.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Counted is a number with a noun: "1 job", "1,204 jobs".
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// Number groups the digits: 1,204.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short is a text of at most n characters.
func Short(n int, s string) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// Percent is a part of a whole, from 0 to 100.
func Percent(part, of int64) int64 {
	if of <= 0 {
		return 0
	}
	return min(100*part/of, 100)
}

// Text shows bytes. JSON is indented, and its numbers keep all digits. Of bytes that are not text
// it says only how many there are.
func Text(b []byte) string {
	switch {
	case len(b) == 0:
		return ""
	case !utf8.Valid(b):
		return fmt.Sprintf("%s bytes that are not text", Number(int64(len(b))))
	}
	var out bytes.Buffer
	if len(b) <= MaxShown && json.Indent(&out, b, "", "  ") == nil {
		return out.String()
	}
	return sojourn.Cut(string(b), MaxShown)
}

// StateName is the state of a job in a word, with what operators look for.
func StateName(j *sojourn.Job) string {
	switch {
	case j.State == sojourn.Running && !j.LeaseUntil.IsZero() && time.Now().After(j.LeaseUntil):
		return "stalled"
	case j.State == sojourn.Ready && j.Resumed:
		return "resumed"
	case Overdue(j):
		return "overdue"
	}
	return j.State.String()
}

// Overdue reports whether the wait of a job has ended without an answer.
func Overdue(j *sojourn.Job) bool {
	return j.State == sojourn.Awaiting && j.Waiting != nil && !j.Waiting.Until.IsZero() && time.Now().After(j.Waiting.Until)
}

// icons stand beside the words of the states: colour alone says nothing to some readers.
var icons = map[string]string{
	"blocked": "⋯", "scheduled": "◷", "ready": "○", "resumed": "◍", "running": "▶", "stalled": "⚠", "awaiting": "◔", "overdue": "⚠", "errored": "↻",
	"completed": "✓", "failed": "✕", "cancelled": "⊘", "open": "○", "paused": "‖", "canary": "◔", "stopped": "⚠", "muted": "⊘", "changed": "✓", "unchanged": "–", "refused": "✕", "closed": "●",
}

// Icon is the sign of a state.
func Icon(state string) string { return icons[state] }

// NextOf says in a few words what a job waits for, or how it ended.
func NextOf(j *sojourn.Job) string {
	switch j.State {
	case sojourn.Blocked:
		return "waits for " + Counted(int64(j.WaitsFor), "job")
	case sojourn.Scheduled:
		return "starts " + Ago(j.RunAt)
	case sojourn.Ready:
		return j.Progress
	case sojourn.Running:
		return cmp.Or(j.Progress, "on "+j.Worker)
	case sojourn.Errored:
		return "its retry handler decides next"
	case sojourn.Awaiting:
		if j.Waiting == nil || j.Waiting.Until.IsZero() {
			return "answer is due"
		}
		return "answer due " + Ago(j.Waiting.Until)
	case sojourn.Completed:
		return ""
	}
	return j.Reason
}

// Cause is the cause of the failures of a group.
func Cause(g failure.Group) string {
	switch {
	case g.Other:
		return "(all other causes)"
	case g.Pattern == "":
		return "(no error text)"
	}
	return g.Pattern
}
