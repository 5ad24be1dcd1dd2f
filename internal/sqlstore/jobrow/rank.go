package jobrow

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

const AfterGroups = ";" // after the last one

const BeforeGroups = "9" // between LaneCritical and the first group

const LaneCritical = "0" // weighs nothing, so that no limit holds it back

const LaneGroup = ":" // with the group appended: counts, and takes turns with other groups

const LaneNone = "" // the queue counts nothing

// laneFor returns the lane of a job of weight w. A job in flight stays in the lane from which it
// was claimed.
func laneFor(q sojourn.QueueSettings, group string, w int32) string {
	switch {
	case !rules.Counted(q):
		return LaneNone
	case w == 0:
		return LaneCritical
	case rules.Grouped(q):
		return LaneGroup + group
	}
	return LanePlain
}

const LanePlain = "-" // counts; the queue has no groups

// SetRank sets a row's rank and lane by the queue's settings, and reports whether either has
// changed.
func (l *Row) SetRank(q sojourn.QueueSettings) bool {
	r1, r2, lane := l.R1, l.R2, l.Lane
	l.R1, l.R2 = rules.Rank(q, l.Priority, Time(l.RunAt), l.Resumed)
	l.Lane = laneFor(q, l.Group, l.Weight)
	return r1 != l.R1 || r2 != l.R2 || lane != l.Lane
}

// layout is the part of a queue's settings that determines the order of its jobs.
type layout struct {
	order            string
	bucket, ageStep  time.Duration
	counted, grouped bool
}

func LayoutOf(q sojourn.QueueSettings) layout {
	s := layout{q.Order, q.Bucket, q.AgeStep, rules.Counted(q), rules.Grouped(q)}
	if s.order == "" {
		s.order = sojourn.OrderPriority
	}
	if s.order == sojourn.OrderTime && s.bucket == 0 {
		s.bucket = sojourn.DefaultBucket
	}
	return s
}
