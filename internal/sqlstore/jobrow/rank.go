package jobrow

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Lanes, which are part of the claim index: a claim from a queue with groups visits them one by
// one. Their texts sort in this order, with LaneGroup and a group appended for each group.
const (
	LaneNone     = ""  // the queue counts no weight in flight
	LanePlain    = "-" // counts; the queue has no groups
	LaneCritical = "0" // the job has no weight, so that no limit holds it back
	BeforeGroups = "9" // a bound, between LaneCritical and the first group
	LaneGroup    = ":" // counts, and takes turns with other groups; the name of the group follows
	AfterGroups  = ";" // a bound, after the last group
)

// SetRank sets the rank and the lane of a row by the settings of its queue, and reports whether
// either has changed.
func (l *Row) SetRank(q sojourn.QueueSettings) bool {
	r1, r2, lane := l.R1, l.R2, l.Lane
	l.R1, l.R2 = rules.Rank(q, l.Priority, Time(l.RunAt), l.Resumed)
	l.Lane = laneFor(q, l.Group, l.Weight)
	return r1 != l.R1 || r2 != l.R2 || lane != l.Lane
}

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

// Layout is the part of a queue's settings that determines rank and lane of its jobs, and which
// values of their JSON are indexed. Layouts are compared with ==: when the layout of a queue
// changes, its jobs must be reindexed.
type Layout struct {
	order            string
	bucket, ageStep  time.Duration
	counted, grouped bool
	index            string
}

// LayoutOf returns the layout of a queue, with defaults filled in.
func LayoutOf(q sojourn.QueueSettings) Layout {
	s := Layout{q.Order, q.Bucket, q.AgeStep, rules.Counted(q), rules.Grouped(q), strings.Join(q.Index, " ")}
	if s.order == "" {
		s.order = sojourn.OrderPriority
	}
	if s.order == sojourn.OrderTime && s.bucket == 0 {
		s.bucket = sojourn.DefaultBucket
	}
	return s
}
