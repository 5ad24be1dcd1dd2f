package rules

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/calendar"
	"github.com/sojourn-queue/sojourn/internal/inside"
)

// maxSpread bounds how long after an opening a job starts that was put off.
const maxSpread = time.Minute

// Zone is an IANA time zone by the rules that windows are read with; empty means UTC. The error has
// CodeInvalid.
func Zone(name string) (*time.Location, error) {
	z, err := calendar.Zone(name)
	if err != nil {
		return nil, sojourn.Invalid("zone", "%v", err)
	}
	return z, nil
}

// NextOpening is the first instant at or after t at which all of the windows are open: t itself if
// they are. The error has CodeInvalid: a window cannot be read, or they are not open together
// within WindowHorizon.
func NextOpening(t time.Time, all ...sojourn.Windows) (time.Time, error) {
	c, err := inside.Calendar(all)
	if err != nil || len(c) == 0 {
		return t, err
	}
	opens, ok := c.Next(t, t.Add(sojourn.WindowHorizon))
	if !ok {
		return t, sojourn.Invalid("windows", "do not open between %s and five years later: look at them with \"sojourn window preview\"", t.UTC().Format(time.RFC3339))
	}
	return opens, nil
}

// NextClosing is the first instant after t at which one of the windows is closed, if they are open
// at t; t+within if they are open until then.
func NextClosing(t time.Time, within time.Duration, all ...sojourn.Windows) (time.Time, error) {
	c, err := inside.Calendar(all)
	return c.Until(t, t.Add(within)), err
}

// PutOff is when a job starts that was found outside its own windows: at their next opening, later
// by at most a tenth of the time for which they and those of its queue are open then, and by at
// most a minute. The part is derived from id and opening, so that jobs which were put off together
// do not start together, and each opening gives another order.
func PutOff(id sojourn.ID, now time.Time, own []sojourn.Windows, queue sojourn.Windows) (time.Time, error) {
	opens, err := NextOpening(now, own...)
	if err != nil {
		return now, err
	}
	all := append(own[:len(own):len(own)], queue)
	if both, err := NextOpening(opens, all...); err != nil || !both.Equal(opens) {
		return opens, nil // the queue opens later: no job starts now
	}
	shuts, err := NextClosing(opens, 10*maxSpread, all...)
	spread := min(shuts.Sub(opens)/10, maxSpread)
	return opens.Add(time.Duration(float64(spread) * inside.Unit(uint64(id), uint64(opens.Unix())))).Truncate(time.Microsecond), err
}
