// Package schedule makes jobs again and again: by cron expressions in time zones, or at fixed
// intervals.
//
// A [Schedule] has a job as a template. Each time that it is due, a tick, the store enqueues a copy
// of this job. One tick is one job, however many processes share the store: the job and the next
// tick are stored in one transaction. Any worker or server does that; there is no leader.
// Job.Schedule and Job.ScheduledFor name the schedule and the tick.
package schedule

import (
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/calendar"
	"github.com/sojourn-queue/sojourn/internal/cron"
)

// Schedule is a recurring definition. The fields of the first group are input; the store sets the
// rest.
type Schedule struct {
	Name string `json:"name"` // unique in the store; 1-128 bytes of A-Za-z0-9_.:/-
	// Cron is an expression of 5 fields (minute, hour, day of month, month, weekday), of 6 with
	// seconds in front, a macro such as @daily, or "@every 90m". Either Cron or Every is set.
	Cron   string        `json:"cron,omitempty"`
	Zone   string        `json:"zone,omitempty"`   // of Cron: an IANA name such as Europe/Berlin; default UTC
	Every  time.Duration `json:"every,omitempty"`  // whole seconds, 1 s to 10 years, counted from 1970 (UTC)
	Offset time.Duration `json:"offset,omitempty"` // moves the ticks of Every; less than Every
	Jitter time.Duration `json:"jitter,omitempty"` // delays each job by up to this, up to 24 h; the tick keeps its nominal time
	Start  time.Time     `json:"start,omitzero"`   // no tick is before it
	End    time.Time     `json:"end,omitzero"`     // no tick is after it
	// CatchUp is how many missed ticks become jobs, the latest ones, when ticks are handled late:
	// after an outage, a pause, or a pause of the queue or the kind. 0 = 1; up to MaxCatchUp;
	// NoCatchUp = none that is more than CatchUpGrace late. The others are skipped.
	CatchUp int          `json:"catch_up,omitempty"`
	Overlap Overlap      `json:"overlap,omitempty"`
	Job     *sojourn.Job `json:"job"` // the template, without id, run_at and delay

	Text      string      `json:"text,omitempty"`     // when it is due, in words
	Next      []time.Time `json:"next,omitempty"`     // the next ticks, up to five
	Paused    bool        `json:"paused,omitempty"`   // by an operator
	Problem   string      `json:"problem,omitempty"`  // why ticks make no jobs; empty while they do
	LastTick  time.Time   `json:"last_tick,omitzero"` // nominal time of the last tick that was handled
	LastJob   sojourn.ID  `json:"last_job,omitempty"` // the last job that it has made
	Runs      int64       `json:"runs"`               // jobs that it has made
	Skipped   int64       `json:"skipped"`            // ticks without a job, by CatchUp, Overlap or Problem
	Revision  int64       `json:"revision,omitempty"` // counts its changes
	Owner     string      `json:"owner,omitempty"`    // access token that has set it, with whose grants it runs; empty without one
	CreatedAt time.Time   `json:"created_at,omitzero"`
	UpdatedAt time.Time   `json:"updated_at,omitzero"`
}

// Overlap says what a tick does while an earlier job of the schedule is not final.
type Overlap string

// The values of Overlap. They look at the last MaxOverlap jobs of the schedule.
const (
	OverlapAllow          Overlap = "allow"           // it makes a job all the same (default, also "")
	OverlapSkip           Overlap = "skip"            // it makes none
	OverlapQueue          Overlap = "queue"           // it waits for the end of the earlier job; CatchUp counts the ticks that wait
	OverlapCancelPrevious Overlap = "cancel_previous" // it cancels the earlier job
)

// Limits of schedules.
const (
	NoCatchUp    = -1             // as CatchUp: a missed tick makes no job
	MaxCatchUp   = 1000           // of CatchUp
	CatchUpGrace = time.Minute    // a tick that is later than this is missed
	MaxJitter    = 24 * time.Hour // of Jitter
	MaxOverlap   = 100            // jobs that Overlap looks at
	MaxPerToken  = 1000           // schedules that one access token may have
	maxCounted   = 10_000         // missed ticks that are counted exactly
)

// Validate checks everything that can be checked without the store's data. maxBytes bounds the args
// of the job. An error has CodeInvalid or CodeTooLarge.
func (s *Schedule) Validate(maxBytes int) error {
	if err := sojourn.ValidName("name", s.Name); err != nil {
		return err
	}
	if _, err := s.spec(); err != nil {
		return err
	}
	switch {
	case s.Jitter < 0 || s.Jitter > MaxJitter:
		return sojourn.Invalid("jitter", "%v is out of range: 0 to %v", s.Jitter, MaxJitter)
	case !s.Start.IsZero() && !s.End.IsZero() && s.End.Before(s.Start):
		return sojourn.Invalid("end", "is before start")
	case s.CatchUp < NoCatchUp || s.CatchUp > MaxCatchUp:
		return sojourn.Invalid("catch_up", "%d is out of range: 0 for the latest tick, 1 to %d, or %d for none", s.CatchUp, MaxCatchUp, NoCatchUp)
	case !slices.Contains([]Overlap{"", OverlapAllow, OverlapSkip, OverlapQueue, OverlapCancelPrevious}, s.Overlap):
		return sojourn.Invalid("overlap", "%.64q is none of allow, skip, queue and cancel_previous", string(s.Overlap))
	case s.Job == nil:
		return sojourn.Invalid("job", "is missing; it is the template of the jobs to make")
	case s.Job.ID != 0:
		return sojourn.Invalid("job.id", "is set; each tick makes a job with an id of its own")
	case len(s.Job.Depends) > 0:
		return sojourn.Invalid("job.depends", "the jobs of a schedule cannot wait for other jobs")
	case !s.Job.RunAt.IsZero() || s.Job.Delay != 0:
		return sojourn.Invalid("job.run_at", "the schedule says when its jobs run; leave run_at and delay out")
	}
	return s.Job.Validate(maxBytes)
}

// spec compiles the definition.
func (s *Schedule) spec() (spec cron.Spec, err error) {
	switch {
	case (s.Cron == "") == (s.Every == 0):
		return spec, sojourn.Invalid("cron", "set one of cron and every")
	case s.Cron != "":
		spec, err = cron.Parse(s.Cron, s.Zone, s.Offset)
	case s.Zone != "":
		return spec, sojourn.Invalid("zone", "an interval follows elapsed time, and no zone")
	default:
		spec, err = cron.Every(s.Every, s.Offset)
	}
	if e, ok := errors.AsType[*calendar.FieldError](err); ok {
		return spec, sojourn.Invalid(e.Field, "%s", e.Text)
	}
	return spec, err
}

// Sentence says in words when the schedule is due: "every day at 02:30, Europe/Berlin".
func (s *Schedule) Sentence() string {
	spec, err := s.spec()
	if err != nil {
		return ""
	}
	return spec.String()
}

// Ticks lists up to n ticks after t, from Start to End. It is pure: it knows no pause.
func (s *Schedule) Ticks(t time.Time, n int) ([]time.Time, error) {
	w, err := s.walker()
	var out []time.Time
	for err == nil && len(out) < n {
		var ok bool
		if t, ok = w.after(t); !ok {
			break
		}
		out = append(out, t)
	}
	return out, err
}

// SameTicks reports whether two definitions are due at the same times.
func (s *Schedule) SameTicks(o *Schedule) bool {
	return s.Cron == o.Cron && s.Zone == o.Zone && s.Every == o.Every && s.Offset == o.Offset && s.Start.Equal(o.Start) && s.End.Equal(o.End)
}

// walker walks from tick to tick.
type walker struct {
	spec       cron.Spec
	start, end time.Time
}

func (s *Schedule) walker() (walker, error) {
	spec, err := s.spec()
	return walker{spec, s.Start, s.End}, err
}

func (w walker) after(t time.Time) (time.Time, bool) {
	if !w.start.IsZero() && t.Before(w.start) {
		t = w.start.Add(-time.Nanosecond) // a tick at start counts
	}
	tick, ok := w.spec.Next(t)
	return tick, ok && (w.end.IsZero() || !tick.After(w.end))
}
