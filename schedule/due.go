package schedule

import "time"

// Due is what a schedule does with the ticks that have come.
type Due struct {
	Run     []time.Time // ticks that become jobs, in order
	Skipped int64       // ticks that do not; up to 10,000 are counted exactly
	Last    time.Time   // the last tick that came; zero if none has
	Next    time.Time   // the first tick that is still to come; zero if there is none
}

// DueAt decides which of the ticks from next to now become jobs (inv:E4): the latest ones, as many
// as CatchUp says, and never more at once. It is pure.
func (s *Schedule) DueAt(next, now time.Time) (d Due, err error) {
	w, err := s.walker()
	if err != nil || next.IsZero() {
		return d, err
	}
	most := s.CatchUp
	if most <= 0 {
		most = 1
	}
	t, ok, came := next, true, int64(0)
	for ok && !t.After(now) && came < maxCounted {
		d.Run = keep(d.Run, t, most)
		came++
		t, ok = w.after(t)
	}
	if ok && !t.After(now) { // too many to walk through: look for the latest, from now backwards
		for back, first := time.Minute, t; ; back *= 2 {
			from := now.Add(-back)
			all := !from.After(first)
			if all {
				from = first.Add(-time.Second)
			}
			d.Run = d.Run[:0]
			seen := 0
			for t, ok = w.after(from); ok && !t.After(now); t, ok = w.after(t) {
				d.Run = keep(d.Run, t, most)
				seen++
			}
			if seen >= most || all {
				break
			}
		}
	}
	if came == 0 {
		d.Next = next
		return d, nil
	}
	if ok {
		d.Next = t
	}
	d.Last = d.Run[len(d.Run)-1]
	if s.CatchUp == NoCatchUp && now.Sub(d.Last) > CatchUpGrace {
		d.Run = nil
	}
	d.Skipped = came - int64(len(d.Run))
	return d, nil
}

// keep appends t, and drops the first above most.
func keep(ticks []time.Time, t time.Time, most int) []time.Time {
	if len(ticks) == most {
		copy(ticks, ticks[1:])
		ticks = ticks[:most-1]
	}
	return append(ticks, t)
}
