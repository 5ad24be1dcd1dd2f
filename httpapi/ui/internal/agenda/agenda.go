// Package agenda lays out the next days: open windows and ticks of schedules.
package agenda

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/schedule"
)

const (
	maxTicks = 100 // of a schedule that are drawn one by one; more are one bar
	maxSpans = 400 // openings that are drawn
	scale    = 1000
)

// Span is a part of a drawing, in thousandths of its width.
type Span struct{ X, Width int }

// Period is the time that a drawing shows.
type Period struct {
	From   time.Time
	Length time.Duration
}

// span is the part of the drawing from one time to another.
func (p Period) span(from, to time.Time) Span {
	at := func(t time.Time) int { return int(min(max(scale*float64(t.Sub(p.From))/float64(p.Length), 0), scale)) }
	x := min(at(from), scale-2)
	return Span{X: x, Width: max(at(to)-x, 2)}
}

// Open is when all of the windows are open, with what follows now: the end of this opening or the
// next one.
func (p Period) Open(all ...sojourn.Windows) (spans []Span, open bool, until time.Time) {
	end := p.From.Add(p.Length)
	for at := p.From; len(spans) < maxSpans; {
		opens, err := rules.NextOpening(at, all...)
		if err != nil {
			return spans, open, until
		}
		shuts, err := rules.NextClosing(opens, sojourn.WindowHorizon, all...)
		if err != nil {
			return spans, open, until
		}
		if at.Equal(p.From) {
			if open = opens.Equal(at); open {
				until = shuts
			} else {
				until = opens
			}
		}
		if !opens.Before(end) {
			break
		}
		spans = append(spans, p.span(opens, shuts))
		if at = shuts; !at.Before(end) {
			break
		}
	}
	return spans, open, until
}

// ticks are the first ticks of a schedule in the period.
func (p Period) ticks(s *schedule.Schedule, n int) []time.Time {
	all, err := s.Ticks(p.From, n)
	if err != nil || s.Paused {
		return nil
	}
	end := p.From.Add(p.Length)
	return slices.DeleteFunc(all, func(t time.Time) bool { return t.After(end) })
}

// Marks are the ticks of a schedule. One that is paused has none.
func (p Period) Marks(s *schedule.Schedule) (marks []Span) {
	all := p.ticks(s, maxTicks)
	if len(all) == maxTicks {
		return []Span{p.span(all[0], p.From.Add(p.Length))}
	}
	for _, t := range all {
		marks = append(marks, p.span(t, t))
	}
	return marks
}

// Run is a tick of a schedule.
type Run struct {
	At       time.Time
	Schedule *schedule.Schedule
	Opens    time.Time // when its windows and those of its queue open, if they are closed at the tick
}

// Runs are the next ticks of all schedules, at most n. windows are those of the queues.
func (p Period) Runs(schedules []schedule.Schedule, windows map[string]sojourn.Windows, n int) (runs []Run) {
	for i := range schedules {
		for _, t := range p.ticks(&schedules[i], n) {
			runs = append(runs, Run{At: t, Schedule: &schedules[i]})
		}
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.At.Compare(b.At) })
	runs = runs[:min(len(runs), n)]
	for i, r := range runs {
		job := r.Schedule.Job
		all := append(slices.Clone(job.Policy.Windows), windows[job.Queue])
		if opens, err := rules.NextOpening(r.At, all...); err == nil && opens.After(r.At) {
			runs[i].Opens = opens
		}
	}
	return runs
}
