package enqueue

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// backlog caches, for each queue with a max_depth, the last count of its ready jobs, with the jobs
// that this process has added since. A count reads an index entry for each job up to the limit, so
// it is repeated only after recountAfter, or if the queue is full; then at most once in
// recountFull. Jobs added by other processes are seen with the next count.
type backlog struct {
	mu    sync.Mutex // guards known
	known map[string]depthCount
}

// Times between two counts, in microseconds.
const (
	recountFull  = 100_000   // of a queue that is full
	recountAfter = 1_000_000 // of any other
)

// depthCount is a number of ready jobs, and when they were counted.
type depthCount struct{ at, ready int64 }

// ForgetDepths makes the next enqueues count again: a transaction that was rolled back may have
// counted jobs that are not stored.
func (s *Enqueuer) ForgetDepths() {
	s.backlog.mu.Lock()
	defer s.backlog.mu.Unlock()
	clear(s.backlog.known)
}

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

const qDepth = `select count(*) from (select 1 from sj_live where queue = $1 and state = 3 limit $2) a`

// depthExceeded counts one more job of a queue, or reports that it is full.
func (b *Batch) depthExceeded(queue string, limit int64) (bool, error) {
	cache := &b.Enqueuer.backlog
	cache.mu.Lock()
	defer cache.mu.Unlock()
	c, ok := cache.known[queue]
	age := b.Now - c.at
	if !ok || age >= recountAfter || age < 0 || c.ready >= limit && age >= recountFull {
		n, err := b.ReadInt(qDepth, queue, limit)
		if err != nil {
			return false, err
		}
		c = depthCount{at: b.Now, ready: n + int64(b.planned(queue))}
	}
	full := c.ready >= limit
	if !full {
		c.ready++
	}
	if cache.known == nil {
		cache.known = map[string]depthCount{}
	}
	cache.known[queue] = c
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
