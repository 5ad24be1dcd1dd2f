package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
)

// NewSchedule is a schedule to be stored.
type NewSchedule struct {
	Cron    string           `json:"cron,omitempty" doc:"5 fields (minute, hour, day of month, month, weekday), 6 with seconds in front, a macro such as @daily, or @every 90m; either this or every"`
	Zone    string           `json:"zone,omitempty" doc:"of cron, such as Europe/Berlin; default UTC"`
	Every   time.Duration    `json:"every,omitempty" doc:"whole seconds, counted from 1970 (UTC)"`
	Offset  time.Duration    `json:"offset,omitempty" doc:"moves the ticks of every"`
	Jitter  time.Duration    `json:"jitter,omitempty" doc:"delays each job by up to this, at most 24h"`
	Start   time.Time        `json:"start,omitzero" doc:"no tick is before it"`
	End     time.Time        `json:"end,omitzero" doc:"no tick is after it"`
	CatchUp int              `json:"catch_up,omitempty" doc:"how many missed ticks become jobs, the latest ones; default 1, -1 = none"`
	Overlap schedule.Overlap `json:"overlap,omitempty" doc:"what a tick does while an earlier job is not final: allow (default), skip, queue or cancel_previous"`
	Job     NewJob           `json:"job" doc:"the template, without id, run_at and delay"`
}

// Schedule is a stored schedule.
type Schedule struct {
	Name string `json:"name"`
	NewSchedule
	Text      string      `json:"text,omitempty" doc:"when it is due, in words"`
	Next      []time.Time `json:"next,omitempty" doc:"the next ticks, up to five"`
	Paused    bool        `json:"paused,omitempty"`
	Problem   string      `json:"problem,omitempty" doc:"why ticks make no jobs"`
	LastTick  time.Time   `json:"last_tick,omitzero"`
	LastJob   sojourn.ID  `json:"last_job,omitempty"`
	Runs      int64       `json:"runs" doc:"jobs that it has made"`
	Skipped   int64       `json:"skipped" doc:"ticks without a job"`
	Revision  int64       `json:"revision,omitempty"`
	Owner     string      `json:"owner,omitempty" doc:"the access token that has set it, with whose grants it runs"`
	CreatedAt time.Time   `json:"created_at,omitzero"`
	UpdatedAt time.Time   `json:"updated_at,omitzero"`
}

// SchedulesAnswer is a page of schedules.
type SchedulesAnswer struct {
	Schedules []Schedule `json:"schedules"`
}

// NewScheduleOf is the input of a schedule that Validate has accepted.
func NewScheduleOf(s *schedule.Schedule) NewSchedule {
	return NewSchedule{s.Cron, s.Zone, s.Every, s.Offset, s.Jitter, s.Start, s.End, s.CatchUp, s.Overlap, NewJobOf(s.Job)}
}

// Domain is the domain's own.
func (n NewSchedule) Domain(name string) schedule.Schedule {
	j := n.Job.Job()
	return schedule.Schedule{Name: name, Cron: n.Cron, Zone: n.Zone, Every: n.Every, Offset: n.Offset, Jitter: n.Jitter, Start: n.Start, End: n.End,
		CatchUp: n.CatchUp, Overlap: n.Overlap, Job: &j}
}

// ScheduleOf shows a schedule.
func ScheduleOf(s schedule.Schedule) Schedule {
	if s.Job == nil { // of a call that has failed
		return Schedule{}
	}
	return Schedule{s.Name, NewScheduleOf(&s), s.Text, s.Next, s.Paused, s.Problem, s.LastTick, s.LastJob, s.Runs, s.Skipped, s.Revision, s.Owner,
		s.CreatedAt, s.UpdatedAt}
}

// Domain is the schedule again.
func (w Schedule) Domain() schedule.Schedule {
	s := w.NewSchedule.Domain(w.Name)
	s.Text, s.Next, s.Paused, s.Problem, s.LastTick, s.LastJob = w.Text, w.Next, w.Paused, w.Problem, w.LastTick, w.LastJob
	s.Runs, s.Skipped, s.Revision, s.Owner, s.CreatedAt, s.UpdatedAt = w.Runs, w.Skipped, w.Revision, w.Owner, w.CreatedAt, w.UpdatedAt
	return s
}

// SchedulesOf shows schedules.
func SchedulesOf(all []schedule.Schedule) []Schedule {
	out := make([]Schedule, len(all))
	for i, d := range all {
		out[i] = ScheduleOf(d)
	}
	return out
}
