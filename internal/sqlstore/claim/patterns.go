package claim

import (
	"context"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

const (
	qQueueNames = `select name from sj_queue where name <> '*' order by seq, name`
	// qReadyQueues lists the queues with ready jobs: it jumps from one to the next by an index.
	qReadyQueues = `with recursive q (queue) as (select min(queue) from sj_live where state = 3
		union all select (select min(l.queue) from sj_live l where l.state = 3 and l.queue > q.queue) from q where q.queue is not null)
		select queue from q where queue is not null`
)

// namesLife bounds the age of the list of queues that a claim may use. A claim that finds nothing
// reads the list again before it waits.
const namesLife = 500 * time.Millisecond

// queueNames caches the names of all queues, for claims with patterns. Safe for concurrent use.
type queueNames struct {
	mu    sync.Mutex // guards the fields below
	names []string
	at    int64 // when they were read, microseconds of the monotonic clock
}

// all returns the names of all queues, and whether it has read them now.
func (q *queueNames) all(ctx context.Context, core *txn.Core, fresh bool) ([]string, bool, error) {
	now := core.Clock.Monotonic()
	q.mu.Lock()
	names, at := q.names, q.at
	q.mu.Unlock()
	if !fresh && names != nil && now-at < namesLife.Microseconds() {
		return names, false, nil
	}
	names = []string{}
	err := core.View(ctx, func(t *txn.Tx) error {
		names = names[:0]
		return t.Read(qQueueNames, func(r sqldb.Row) error { names = append(names, r.Text(0)); return nil })
	})
	if err != nil {
		return nil, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.names, q.at = names, now
	return names, true, nil
}

// selection resolves the patterns of a claim (docs/decisions/061-patterns-of-queues.md).
type selection struct {
	claimer *Claimer
	request *driver.ClaimRequest // its Queues and Share are replaced
	waiter  *wake.Waiter
	caller  *access.Caller
	entries []string
	share   map[string]int
	matched []string // the queues that patterns have selected, in the order in which they were first seen
	fresh   bool     // they were read from the database
}

// selectQueues makes the selection of a claim that names patterns, and resolves it; nil for others.
func (s *Claimer) selectQueues(ctx context.Context, r *driver.ClaimRequest, w *wake.Waiter) (*selection, error) {
	if !slices.ContainsFunc(r.Queues, driver.IsPattern) {
		return nil, nil
	}
	sel := &selection{claimer: s, request: r, waiter: w, caller: access.CallerOf(ctx), entries: r.Queues, share: r.Share}
	w.Selects = func(queue string) bool { return sel.takes(queue) }
	_, err := sel.resolve(ctx, false)
	return sel, err
}

// takes reports whether a pattern of the claim selects a queue in which the caller may work.
func (sel *selection) takes(queue string) bool {
	i := driver.SelectsQueue(sel.entries, queue)
	return i >= 0 && driver.IsPattern(sel.entries[i]) && queue != sojourn.ProbeQueue && !slices.ContainsFunc(sel.request.Kinds, func(kind string) bool {
		return !sel.caller.Allows(access.VerbWork, queue, kind)
	})
}

// resolve replaces the queues of the request, and reports whether others match than before. With
// fresh it reads the database, else perhaps the cache.
func (sel *selection) resolve(ctx context.Context, fresh bool) (changed bool, err error) {
	names, read, err := sel.claimer.names.all(ctx, sel.claimer.core, fresh)
	if err != nil {
		return false, err
	}
	var matched []string
	for _, name := range names {
		if sel.takes(name) {
			matched = append(matched, name)
		}
	}
	changed = !slices.Equal(matched, sel.matched)
	sel.matched, sel.fresh = matched, read
	chosen, err := sel.choose(ctx, sel.random())
	if err == nil {
		sel.set(chosen)
	}
	return changed, err
}

// random is the same for the same claim, so that a test can repeat it.
func (sel *selection) random() *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(sel.request.Worker))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(sel.request.Number)))
}

// choose returns the matched queues in a random order: all, or driver.MaxClaimQueues of them, those
// with ready jobs first.
func (sel *selection) choose(ctx context.Context, random *rand.Rand) ([]string, error) {
	chosen := slices.Clone(sel.matched)
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if len(chosen) <= driver.MaxClaimQueues {
		return chosen, nil
	}
	ready := map[string]bool{}
	err := sel.claimer.core.View(ctx, func(t *txn.Tx) error {
		clear(ready)
		return t.Read(qReadyQueues, func(r sqldb.Row) error { ready[r.Text(0)] = true; return nil })
	})
	slices.SortStableFunc(chosen, func(a, b string) int {
		switch {
		case ready[a] == ready[b]:
			return 0
		case ready[a]:
			return -1
		}
		return 1
	})
	return chosen[:driver.MaxClaimQueues], err
}

// set gives the request the names that its entries stand for, in the order of the entries. If they
// stand for none, it keeps the pattern, which is the name of no queue: so the worker is listed.
func (sel *selection) set(chosen []string) {
	r := sel.request
	queues := make([]string, 0, len(chosen)+len(sel.entries))
	if sel.share != nil {
		r.Share = maps.Clone(sel.share)
	}
	for i, e := range sel.entries {
		if !driver.IsPattern(e) {
			if driver.SelectsQueue(sel.entries, e) >= 0 && !slices.Contains(queues, e) {
				queues = append(queues, e)
			}
			continue
		}
		for _, q := range chosen {
			if driver.SelectsQueue(sel.entries, q) == i {
				queues = append(queues, q)
				if n := sel.share[e]; n > 0 {
					r.Share[q] = n
				}
			}
		}
	}
	if len(queues) == 0 {
		queues = sel.entries[:1]
	}
	sel.claimer.hub.Aim(sel.waiter, queues)
}

// claim runs the claim of a caller. With patterns it runs it again if queues match that it did not
// look into.
func (s *Claimer) claim(ctx context.Context, r *driver.ClaimRequest, sel *selection) (a wake.ClaimAnswer, err error) {
	for {
		a, err = s.claimOnce(context.WithoutCancel(ctx), *r)
		for a.Again && err == nil && ctx.Err() == nil {
			a, err = s.claimOnce(context.WithoutCancel(ctx), *r)
		}
		if err != nil || sel == nil || len(a.Jobs) > 0 || a.Drained || sel.fresh || ctx.Err() != nil {
			return a, err
		}
		if changed, err := sel.resolve(ctx, true); err != nil || !changed {
			return a, err
		}
	}
}
