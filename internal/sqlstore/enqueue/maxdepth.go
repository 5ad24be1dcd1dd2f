package enqueue

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
)

// checkDepth refuses jobs that can never start, and jobs for a full queue. The next jobs of a
// completion and awaited children pass: a report that cannot be stored would run its job again for
// ever. So do the jobs of schedules (rules:F6).
func (b *Batch) checkDepth(j *sojourn.Job) error {
	q := b.Rows[j.Queue]
	if b.Ending != nil || b.Follows || b.Ticks {
		return nil
	}
	if err := CheckWeight(q.Limit, j.Weight); err != nil {
		return err
	}
	if q.MaxDepth < 1 || b.startState(j) != sojourn.Ready {
		return nil
	}
	full, err := b.depthExceeded(j.Queue, q.MaxDepth)
	if err == nil && full {
		err = &sojourn.Error{Code: sojourn.CodeQueueFull, Field: "queue", Index: -1, Retryable: true,
			Message: "the queue has as many ready jobs as its max_depth allows: enqueue again later"}
	}
	return err
}

// depthExceeded counts one more job of a queue, or reports that it is full. A batch reads the
// number of ready jobs once. It does not see transactions of other connections that run at the same
// time, so each of them may exceed the limit by its own jobs.
func (b *Batch) depthExceeded(queue string, limit int64) (bool, error) {
	ready, ok := b.depths[queue]
	if !ok {
		if err := b.Flush(); err != nil { // inserts are counted when they are sent
			return false, err
		}
		if err := counters.Read(b.Tx, func(_ jobcount.Key, n *jobcount.Numbers) { ready += n.Of(sojourn.Ready) }, queue); err != nil {
			return false, err
		}
		ready += b.Counts.ReadyIn(queue) + int64(b.planned(queue))
	}
	full := ready >= limit
	if !full {
		ready++
	}
	if b.depths == nil {
		b.depths = map[string]int64{}
	}
	b.depths[queue] = ready
	return full, nil
}

// planned is the number of jobs of a queue that are planned as ready and not written yet.
func (b *Batch) planned(queue string) (n int) {
	for _, p := range append(b.plans[:len(b.plans):len(b.plans)], b.callPlan) {
		for _, i := range p.fresh {
			if j := &p.jobs[i]; j.Queue == queue && b.startState(j) == sojourn.Ready {
				n++
			}
		}
	}
	return n
}

// CheckWeight refuses a weight above the limit of a queue (below 1: no limit). A job that exceeds a
// limit that was lowered later runs alone.
func CheckWeight(limit int64, weight int32) error {
	if limit < 1 || int64(weight) <= limit {
		return nil
	}
	return &sojourn.Error{Code: sojourn.CodeOversize, Field: "weight", Index: -1,
		Message: "the job weighs more than the limit of its queue, so it would never start: lower its weight or raise the limit"}
}
