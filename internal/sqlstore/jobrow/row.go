package jobrow

import (
	"encoding/json"
	"math"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// Never is the wake_at of a job that only a claim moves.
const Never = math.MaxInt64

// Row is a row of sj_live, with the columns of sj_job that the rules need.
type Row struct {
	rules.Row
	Queue, Kind, Key string
	Group            string
	Lane             string // see rank.go
	Priority         int32
	Generation       int32
	Epoch            int64
	Worker           string // of the last claim
	History          int32  // the number of the newest history row
	Awaited          bool   // has keys of its own waits in sj_key
	HasData          bool   // has a row in sj_data

	RunAt, UpdatedAt    int64 // microseconds, as all below; 0 = none
	LeaseUntil, LeaseUs int64
	BeganAt             int64 // of the current step
	WaitUntil           int64 // limit of the wait by Await(within)
	BeatUntil           int64 // the wait ends then unless a progress response comes
	PollAt              int64 // the next poll step; only of an awaiting job
	TimeoutAt           int64
	ResumedAt           int64 // when the job was resumed: its clock has stood still since then
	DecideBy            int64
	Deadline            int64
	PolicyJSON          string
	R1, R2              int64 // rank in the claim index
	WakeAt              int64
}

func IDsOf(rows []*Row) sqldb.Ints {
	ids := make(sqldb.Ints, len(rows))
	for i, l := range rows {
		ids[i] = int64(l.ID)
	}
	return ids
}

// HasLease reports whether id, epoch and worker of a lease match the row and the state is running.
// This is the fence of every write on behalf of a step (inv:F2).
func (l *Row) HasLease(lease sojourn.Lease) bool {
	return l.ID == lease.ID && l.Epoch == lease.Epoch && l.Worker == lease.Worker && l.State == sojourn.Running
}

func (l *Row) Lease() sojourn.Lease {
	return sojourn.Lease{ID: l.ID, Epoch: l.Epoch, Worker: l.Worker}
}

// SetWakeAt sets wake_at: the time at which the sweep must check the row at the latest.
func (l *Row) SetWakeAt() {
	l.WakeAt = Earliest(l.Deadline)
	switch l.State {
	case sojourn.Scheduled:
		l.WakeAt = Earliest(l.RunAt, l.Deadline)
	case sojourn.Ready:
		if l.Resumed {
			l.WakeAt = Earliest(l.TimeoutAt, l.Deadline)
		}
	case sojourn.Running:
		l.WakeAt = Earliest(l.LeaseUntil, l.GraceAfterLease(l.Deadline))
		if l.Purpose != sojourn.PurposeDecide {
			l.WakeAt = Earliest(l.WakeAt, l.GraceAfterLease(l.TimeoutAt))
		}
		if l.Purpose == sojourn.PurposePoll {
			l.WakeAt = Earliest(l.WakeAt, l.WaitEnd())
		}
	case sojourn.Awaiting:
		l.WakeAt = Earliest(l.WaitEnd(), l.TimeoutAt, l.Deadline)
	case sojourn.Errored:
		l.WakeAt = Earliest(l.DecideBy, l.Deadline)
	}
}

// WaitEnd returns when the wait ends by its own limit or its beat; never if neither runs. If a
// response came during a poll step, both stand still: the end of the step determines whether the
// response ends the wait.
func (l *Row) WaitEnd() int64 {
	if l.State == sojourn.Running && l.Kept > 0 {
		return Never
	}
	return Earliest(l.WaitUntil, l.BeatUntil)
}

// Earliest is the least of the times that are set.
func Earliest(times ...int64) int64 {
	e := int64(Never)
	for _, us := range times {
		if us > 0 {
			e = min(e, us)
		}
	}
	return e
}

// GraceAfterLease is the time at which the sweep acts on a timeout or a deadline of a running job.
// The worker, which knows the remaining time, acts first. So no second step overlaps a live worker,
// even if its step began after the time was over.
func (l *Row) GraceAfterLease(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, l.BeganAt) + l.LeaseUs
}

// waitJSON is empty for a job that has never awaited in this generation: it would wait for its own
// key.
func waitJSON(l *Row) string {
	if !l.Awaited {
		return ""
	}
	b, _ := json.Marshal(l.Wait) // texts and numbers: it cannot fail
	return string(b)
}

func Bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
