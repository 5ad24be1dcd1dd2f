package jobrow

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// Never is the WakeAt of a job that only a claim, a response or an operator moves.
const Never = math.MaxInt64

// Row is a row of sj_live, with the columns of sj_job that the rules need. The rules read and
// change the embedded part; the rest is for the store. Save of a transaction writes it back.
type Row struct {
	rules.Row
	Queue, Kind, Key string
	Group            string
	Lane             string // one of the lanes in rank.go
	Priority         int32
	Generation       int32  // number of the job's life; a redrive begins another one
	Epoch            int64  // number of the lease; each claim begins another one
	Worker           string // of the last claim
	History          int32  // number of the newest history row
	Awaited          bool   // has keys of its own waits in sj_key
	HasData          bool   // has a row in sj_data
	Dependents       bool   // an edge names it as the parent: its end reads them
	Workflow         int64  // number of the workflow that it is a member of; 0: none
	PolicyJSON       string // Policy, as stored
	R1, R2           int64  // rank in the claim index, see rules.Rank

	// Times are microseconds since 1970; 0 = none.
	RunAt, UpdatedAt int64
	BornAt           int64 // when the generation began: enqueue or redrive; 0 if it is older than this column
	WaitedAt         int64 // when the wait began that the job awaits a response in; stored with Wait
	LeaseUntil       int64
	LeaseUs          int64 // length of the lease, microseconds
	BeganAt          int64 // of the current step; of a ready job that came back with its old run_at: when it came back
	WaitUntil        int64 // limit of the wait by Await(within) or AwaitJobs(within)
	BeatUntil        int64 // the wait ends then unless a progress response arrives
	PollAt           int64 // the next poll step; only of an awaiting job
	TimeoutAt        int64 // Policy.Timeout is over; it is moved by the time from ResumedAt to the next claim
	ResumedAt        int64 // when the job was resumed, while it is not claimed
	DecideBy         int64 // when the stored backoff decides about an errored job
	Deadline         int64
	WakeAt           int64 // see SetWakeAt
}

// IDsOf returns the ids of rows, in their order.
func IDsOf(rows []*Row) sqldb.Ints {
	ids := make(sqldb.Ints, len(rows))
	for i, l := range rows {
		ids[i] = int64(l.ID)
	}
	return ids
}

// HasLease reports whether a lease is still valid for the row: id, epoch and worker match, and the
// state is running. This is the fence of every write on behalf of a step (inv:F2).
func (l *Row) HasLease(lease sojourn.Lease) bool {
	return l.ID == lease.ID && l.Epoch == lease.Epoch && l.Worker == lease.Worker && l.State == sojourn.Running
}

// Lease returns the lease of a running job.
func (l *Row) Lease() sojourn.Lease {
	return sojourn.Lease{ID: l.ID, Epoch: l.Epoch, Worker: l.Worker}
}

// SetWakeAt sets WakeAt: the time at which the sweep must check the row at the latest, by the state
// and the other times of the row. Every write of a row calls it, so that no job gets stuck.
func (l *Row) SetWakeAt() {
	l.WakeAt = Earliest(l.Deadline)
	switch l.State {
	case sojourn.Blocked:
		if l.AttemptOpen { // it awaits children
			l.WakeAt = Earliest(l.WaitUntil, l.TimeoutAt, l.Deadline)
		}
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

// WaitEnd returns when the wait ends without a response: by its limit or for lack of progress. It
// is Never if it has neither limit. If a response came during a poll step, both stand still,
// because the end of the step determines whether the response ends the wait.
func (l *Row) WaitEnd() int64 {
	if l.State == sojourn.Running && l.Kept > 0 {
		return Never
	}
	return Earliest(l.WaitUntil, l.BeatUntil)
}

// Earliest returns the least of the times that are not 0; Never if there is none.
func Earliest(times ...int64) int64 {
	e := int64(Never)
	for _, us := range times {
		if us > 0 {
			e = min(e, us)
		}
	}
	return e
}

// GraceAfterLease returns when the sweep acts on a timeout or a deadline us of a running job: one
// lease later, because the worker knows the remaining time and acts first. So no second step
// overlaps a live worker, even if its step began after us. It is 0 if us is.
func (l *Row) GraceAfterLease(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, l.BeganAt) + l.LeaseUs
}

// waitedAt is the last field in the JSON of a wait: Row.WaitedAt. Older programs ignore it.
const waitedAt = `"waited_us":`

// waitJSON is empty for a job that has never awaited in this generation: it would wait for its own
// key.
func waitJSON(l *Row) string {
	if !l.Awaited {
		return ""
	}
	b, _ := json.Marshal(l.Wait) // texts and numbers: it cannot fail
	if l.WaitedAt == 0 {
		return string(b)
	}
	if b = b[:len(b)-1]; len(b) > 1 {
		b = append(b, ',')
	}
	return string(append(strconv.AppendInt(append(b, waitedAt...), l.WaitedAt, 10), '}'))
}

// Bit returns a flag as the number that is stored for it.
func Bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
