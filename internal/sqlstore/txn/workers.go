package txn

import (
	"maps"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn/driver"
)

func Subset(part, all []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(all, s) })
}

// Union is sorted and without duplicates.
func Union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Workers are the workers that claim from this process. An idle worker writes nothing, so only this
// process knows that it is alive.
type Workers struct {
	mu      sync.Mutex // guards workers
	workers map[string]*Presence
}

// Presence is a worker that has claimed.
type Presence struct {
	Subscription
	Seen    int64 // µs by the store's clock: when a claim has begun or ended
	Waiting int   // claims under way that may wait
}

// maxPresent bounds the memory: 10,000 workers are some 5 MB. Other workers are read from the
// database.
const maxPresent = 10_000

// Note records the begin of a claim; the returned function records its end.
func (p *Workers) Note(r *driver.ClaimRequest, c func() int64) (leave func()) {
	now := c()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[r.Worker]
	if w == nil {
		if len(p.workers) >= maxPresent {
			maps.DeleteFunc(p.workers, func(_ string, w *Presence) bool { return w.Waiting == 0 })
		}
		if len(p.workers) >= maxPresent {
			return func() {}
		}
		w = &Presence{}
		if p.workers == nil {
			p.workers = map[string]*Presence{}
		}
		p.workers[r.Worker] = w
	}
	w.Name, w.Seen = r.Name, max(w.Seen, now)
	if !Subset(r.Queues, w.Queues) || !Subset(r.Kinds, w.Kinds) {
		w.Queues, w.Kinds = Union(w.Queues, r.Queues), Union(w.Kinds, r.Kinds)
	}
	waits := 0
	if r.Wait > 0 {
		waits = 1
	}
	w.Waiting += waits
	return func() {
		now := c()
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Waiting -= waits
		w.Seen = max(w.Seen, now)
	}
}

// All returns the workers that have claimed since then.
func (p *Workers) All(since int64) map[string]Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]Presence{}
	for id, w := range p.workers {
		if w.Waiting > 0 || w.Seen > since {
			out[id] = *w
		}
	}
	return out
}

// StoredSubscription holds the queues and kinds that a worker has claimed in this process, and
// their text.
type StoredSubscription struct {
	Subscription
	Text string
	At   int64 // when it was stored
}

// Subscription is the stored form of the queues and kinds that a worker claims.
type Subscription struct {
	Name   string   `json:"name,omitempty"`
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
}
