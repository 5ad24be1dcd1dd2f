package sqlstore

import (
	"encoding/json"
	"math"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// never is the wake_at of a job that only a claim moves.
const never = math.MaxInt64

// live is a row of sj_live, with the columns of sj_job that the rules need.
type live struct {
	rules.Row
	queue, kind, key string
	group            string
	lane             string // see rank.go
	priority         int32
	generation       int32
	epoch            int64
	worker           string // of the last claim
	history          int32  // the number of the newest history row
	awaited          bool   // has keys of its own waits in sj_key
	hasData          bool   // has a row in sj_data

	runAt, updated      int64 // microseconds, as all below; 0 = none
	leaseUntil, leaseUs int64
	began               int64 // of the current step
	waitUntil           int64 // limit of the wait by Await(within)
	beatUntil           int64 // the wait ends then unless a progress response comes
	pollAt              int64 // the next poll step; only of an awaiting job
	timeoutAt           int64
	rested              int64 // when the job was resumed: its clock has stood still since then
	decideBy            int64
	deadline            int64
	policyJSON          string
	r1, r2              int64 // rank in the claim index
	wakeAt              int64
}

func idsOf(rows []*live) sqldb.Ints {
	ids := make(sqldb.Ints, len(rows))
	for i, l := range rows {
		ids[i] = int64(l.ID)
	}
	return ids
}

// stands reports whether id, epoch and worker of a lease match the row and the state is running.
// This is the fence of every write on behalf of a step (inv:F2).
func (l *live) stands(lease sojourn.Lease) bool {
	return l.ID == lease.ID && l.epoch == lease.Epoch && l.worker == lease.Worker && l.State == sojourn.Running
}

func (l *live) leaseOf() sojourn.Lease {
	return sojourn.Lease{ID: l.ID, Epoch: l.epoch, Worker: l.worker}
}

// wake sets wake_at: the time at which the sweep must check the row at the latest.
func (l *live) wake() {
	l.wakeAt = earliest(l.deadline)
	switch l.State {
	case sojourn.Scheduled:
		l.wakeAt = earliest(l.runAt, l.deadline)
	case sojourn.Ready:
		if l.Resumed {
			l.wakeAt = earliest(l.timeoutAt, l.deadline)
		}
	case sojourn.Running:
		l.wakeAt = earliest(l.leaseUntil, l.oneLeaseLater(l.deadline))
		if l.Purpose != sojourn.PurposeDecide {
			l.wakeAt = earliest(l.wakeAt, l.oneLeaseLater(l.timeoutAt))
		}
		if l.Purpose == sojourn.PurposePoll {
			l.wakeAt = earliest(l.wakeAt, l.waitEnd())
		}
	case sojourn.Awaiting:
		l.wakeAt = earliest(l.waitEnd(), l.timeoutAt, l.deadline)
	case sojourn.Errored:
		l.wakeAt = earliest(l.decideBy, l.deadline)
	}
}

// waitEnd returns when the wait ends by its own limit or its beat; never if neither runs. If a
// response came during a poll step, both stand still: the end of the step determines whether the
// response ends the wait.
func (l *live) waitEnd() int64 {
	if l.State == sojourn.Running && l.Kept > 0 {
		return never
	}
	return earliest(l.waitUntil, l.beatUntil)
}

// earliest is the least of the times that are set.
func earliest(times ...int64) int64 {
	e := int64(never)
	for _, us := range times {
		if us > 0 {
			e = min(e, us)
		}
	}
	return e
}

// oneLeaseLater is the time at which the sweep acts on a timeout or a deadline of a running job.
// The worker, which knows the remaining time, acts first. So no second step overlaps a live worker,
// even if its step began after the time was over.
func (l *live) oneLeaseLater(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, l.began) + l.leaseUs
}

// waitJSON is empty for a job that has never awaited in this generation: it would wait for its own
// key.
func waitJSON(l *live) string {
	if !l.awaited {
		return ""
	}
	b, _ := json.Marshal(l.Wait) // texts and numbers: it cannot fail
	return string(b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
