package sqlstore

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// backlog caches, for each queue with a max_depth, the last count of its ready jobs and the number
// that this process has added since. Counting costs an index entry for each job up to the limit. So
// it is repeated only when the count is a second old, or the queue is full; then at most once in
// countEvery. Jobs added by other processes are seen with the next count.
type backlog struct {
	mu    sync.Mutex // guards known
	known map[string]depthCount
}

const countEvery = 100_000 // microseconds between two counts of a queue that is full

const countStale = 1_000_000 // microseconds until a count is stale

type depthCount struct{ at, ready int64 }

// admit refuses jobs that can never start, and jobs for a full queue. The next jobs of a completion
// pass: a completion that cannot be stored would run its job again for ever.
func (e *enqueue) admit(j *sojourn.Job) error {
	q := e.rows[j.Queue]
	if e.ending != nil {
		return nil
	}
	if err := oversize(q.Limit, j.Weight); err != nil {
		return err
	}
	if q.MaxDepth < 1 || e.startState(j) != sojourn.Ready {
		return nil
	}
	full, err := e.full(j.Queue, q.MaxDepth)
	if err == nil && full {
		err = &sojourn.Error{Code: sojourn.CodeQueueFull, Field: "queue", Index: -1, Retryable: true,
			Message: "the queue has as many ready jobs as its max_depth allows: enqueue again later"}
	}
	return err
}

// coming is the number of the queue's jobs that are planned and not written yet.
func (e *enqueue) coming(queue string) (n int) {
	for _, p := range append(e.plans[:len(e.plans):len(e.plans)], e.enqueuePlan) {
		for _, i := range p.fresh {
			if j := &p.jobs[i]; j.Queue == queue && e.startState(j) == sojourn.Ready {
				n++
			}
		}
	}
	return n
}

// full counts one more job of a queue, or reports that it is full.
func (e *enqueue) full(queue string, limit int64) (bool, error) {
	b := &e.svc.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.known[queue]
	age := e.now - c.at
	if !ok || age >= countStale || age < 0 || c.ready >= limit && age >= countEvery {
		n, err := e.num(qDepth, queue, limit)
		if err != nil {
			return false, err
		}
		c = depthCount{at: e.now, ready: n + int64(e.coming(queue))}
	}
	full := c.ready >= limit
	if !full {
		c.ready++
	}
	if b.known == nil {
		b.known = map[string]depthCount{}
	}
	b.known[queue] = c
	return full, nil
}

// oversize refuses a weight above a limit. A job that exceeds a later, lower limit runs alone.
func oversize(limit int64, weight int32) error {
	if limit < 1 || int64(weight) <= limit {
		return nil
	}
	return &sojourn.Error{Code: sojourn.CodeOversize, Field: "weight", Index: -1,
		Message: "the job weighs more than the limit of its queue, so it would never start: lower its weight or raise the limit"}
}

const qDepth = `select count(*) from (select 1 from sj_live where queue = $1 and state = 3 limit $2) a`
