package sqlstore

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

const afterGroups = ";" // after the last one

const beforeGroups = "9" // between laneCritical and the first group

const laneCritical = "0" // weighs nothing, so that no limit holds it back

const laneGroup = ":" // with the group appended: counts, and takes turns with other groups

const laneNone = "" // the queue counts nothing

// laneOf returns the lane of a job of weight w. A job in flight stays in the lane from which it was
// claimed.
func laneOf(q sojourn.QueueSettings, group string, w int32) string {
	switch {
	case !rules.Counted(q):
		return laneNone
	case w == 0:
		return laneCritical
	case rules.Grouped(q):
		return laneGroup + group
	}
	return lanePlain
}

const lanePlain = "-" // counts; the queue has no groups

// put sets a row's rank and lane by the queue's settings, and reports whether either has changed.
func (l *live) put(q sojourn.QueueSettings) bool {
	r1, r2, lane := l.r1, l.r2, l.lane
	l.r1, l.r2 = rules.Rank(q, l.priority, at(l.runAt), l.Resumed)
	l.lane = laneOf(q, l.group, l.Weight)
	return r1 != l.r1 || r2 != l.r2 || lane != l.lane
}

// shape is the part of a queue's settings that determines the order of its jobs.
type shape struct {
	order            sojourn.Order
	bucket, ageStep  time.Duration
	counted, grouped bool
}

func shapeOf(q sojourn.QueueSettings) shape {
	s := shape{q.Order, q.Bucket, q.AgeStep, rules.Counted(q), rules.Grouped(q)}
	if s.order == "" {
		s.order = sojourn.OrderPriority
	}
	if s.order == sojourn.OrderTime && s.bucket == 0 {
		s.bucket = sojourn.DefaultBucket
	}
	return s
}
