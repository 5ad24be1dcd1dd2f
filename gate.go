package sojourn

import (
	"errors"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
)

// Window is a time of day in which jobs may start: from Start until End, without End, by the wall clock of Zone. A time of day means the first
// instant at which that clock has reached it: what a clock change skips means the moment of the change, what comes twice its first occurrence.
type Window struct {
	Days   []string `json:"days,omitempty"`   // on which it opens: mon, or a range such as mon-fri; none = every day
	Start  string   `json:"start"`            // 22:00 or 22:00:00
	End    string   `json:"end"`              // at most 24:00; before Start it is on the next day, equal to it means 24 hours
	Zone   string   `json:"zone,omitempty"`   // an IANA name such as Europe/Berlin; default UTC
	Except []string `json:"except,omitempty"` // dates such as 2026-12-25 on which it does not open, at most MaxExcept
}

// Windows are open when at least one of them is. None means always.
type Windows []Window

// Limits of windows.
const (
	MaxWindows = 32  // windows of a job, a kind or a queue each
	MaxExcept  = 400 // dates of one window
	// WindowHorizon is how far ahead an opening is looked for. Windows that do not open within it are refused.
	WindowHorizon = 5 * 365 * 24 * time.Hour
	// TZVersion is the release of the IANA time zone database that all windows are read with. It is part of the program: the zone files
	// of the machine do not count.
	TZVersion = calendar.TZVersion
)

// maxSets bounds how many sets of windows a policy has: its kind's, and one for each In.
const maxSets = 8

// maxSpread bounds how long after an opening a job starts that was put off.
const maxSpread = time.Minute

// In lets the job start only while one of the windows is open. It adds to the windows of its kind: all must be open, as those of the queue.
func In(windows ...Window) Option {
	return func(j *Job) {
		j.Policy.Windows = append(j.Policy.Windows[:len(j.Policy.Windows):len(j.Policy.Windows)], windows)
	}
}

// ParseWindow reads a window as [DAYS] START-END [ZONE] [except DATES]: "mon-fri 22:00-06:00 Europe/Berlin except 2026-12-24,2026-12-25".
func ParseWindow(text string) (Window, error) {
	var w Window
	words := strings.Fields(text)
	if n := len(words); n > 2 && words[n-2] == "except" {
		w.Except, words = strings.Split(words[n-1], ","), words[:n-2]
	}
	if len(words) > 0 && !strings.Contains(words[0], ":") {
		w.Days, words = strings.Split(words[0], ","), words[1:]
	}
	if len(words) == 2 {
		w.Zone, words = words[1], words[:1]
	}
	if len(words) != 1 || !strings.Contains(words[0], "-") {
		return w, Invalid("window", "%.100q is not a window such as \"mon-fri 22:00-06:00 Europe/Berlin except 2026-12-25\"", text)
	}
	w.Start, w.End, _ = strings.Cut(words[0], "-")
	_, err := w.compile()
	return w, err
}

// String writes a window as ParseWindow reads it.
func (w Window) String() string {
	var words []string
	if len(w.Days) > 0 {
		words = append(words, strings.Join(w.Days, ","))
	}
	words = append(words, w.Start+"-"+w.End)
	if w.Zone != "" {
		words = append(words, w.Zone)
	}
	if len(w.Except) > 0 {
		words = append(words, "except", strings.Join(w.Except, ","))
	}
	return strings.Join(words, " ")
}

func (w Window) compile() (calendar.Window, error) {
	if len(w.Except) > MaxExcept {
		return calendar.Window{}, Invalid("windows.except", "%d dates exceed the limit of %d", len(w.Except), MaxExcept)
	}
	c, err := calendar.New(w.Days, w.Start, w.End, w.Zone, w.Except)
	if e, ok := errors.AsType[*calendar.FieldError](err); ok {
		return c, Invalid("windows."+e.Field, "%s", e.Text)
	}
	return c, err
}

func (ws Windows) compile() (calendar.Set, error) {
	if len(ws) > MaxWindows {
		return nil, Invalid("windows", "%d windows exceed the limit of %d", len(ws), MaxWindows)
	}
	set := make(calendar.Set, len(ws))
	for i, w := range ws {
		var err error
		if set[i], err = w.compile(); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// calendarOf combines windows that all must be open.
func calendarOf(all []Windows) (c calendar.Calendar, err error) {
	for _, ws := range all {
		set, err := ws.compile()
		if err != nil {
			return nil, err
		}
		if len(set) > 0 {
			c = append(c, set)
		}
	}
	return c, nil
}

// NextOpening is the first instant at or after t at which all of the windows are open: t itself if they are. The error has CodeInvalid: a
// window cannot be read, or they are not open together within WindowHorizon.
func NextOpening(t time.Time, all ...Windows) (time.Time, error) {
	c, err := calendarOf(all)
	if err != nil || len(c) == 0 {
		return t, err
	}
	opens, ok := c.Next(t, t.Add(WindowHorizon))
	if !ok {
		return t, Invalid("windows", "do not open between %s and five years later: look at them with \"sojourn window preview\"", t.UTC().Format(time.RFC3339))
	}
	return opens, nil
}

// NextClosing is the first instant after t at which one of the windows is closed, if they are open at t; t+within if they are open until then.
func NextClosing(t time.Time, within time.Duration, all ...Windows) (time.Time, error) {
	c, err := calendarOf(all)
	return c.Until(t, t.Add(within)), err
}

// PutOff is when a job starts that was found outside its own windows: at their next opening, later by at most a tenth of the time for which they
// and those of its queue are open then, and by at most a minute. The part is derived from id and opening, so that jobs which were put off
// together do not start together, and each opening gives another order.
func PutOff(id ID, now time.Time, own []Windows, queue Windows) (time.Time, error) {
	opens, err := NextOpening(now, own...)
	if err != nil {
		return now, err
	}
	all := append(own[:len(own):len(own)], queue)
	if both, err := NextOpening(opens, all...); err != nil || !both.Equal(opens) {
		return opens, nil // the queue opens later: nobody starts now
	}
	shuts, err := NextClosing(opens, 10*maxSpread, all...)
	spread := min(shuts.Sub(opens)/10, maxSpread)
	return opens.Add(time.Duration(float64(spread) * unit(uint64(id), uint64(opens.Unix())))).Truncate(time.Microsecond), err
}
