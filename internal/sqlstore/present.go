package sqlstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn/driver"
)

func subset(part, all []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(all, s) })
}

// union is sorted and without duplicates.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// present are the workers that claim from this process. An idle worker writes nothing, so only this
// process knows that it is alive.
type present struct {
	mu      sync.Mutex // guards workers
	workers map[string]*presence
}

// presence is a worker that has claimed.
type presence struct {
	asks
	seen    int64 // µs by the store's clock: when a claim has begun or ended
	waiting int   // claims under way that may wait
}

// maxPresent bounds the memory: 10,000 workers are some 5 MB. Other workers are read from the
// database.
const maxPresent = 10_000

// come records the begin of a claim; the returned function records its end.
func (p *present) come(r *driver.ClaimRequest, clock func() int64) (leave func()) {
	now := clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[r.Worker]
	if w == nil {
		if len(p.workers) >= maxPresent {
			maps.DeleteFunc(p.workers, func(_ string, w *presence) bool { return w.waiting == 0 })
		}
		if len(p.workers) >= maxPresent {
			return func() {}
		}
		w = &presence{}
		if p.workers == nil {
			p.workers = map[string]*presence{}
		}
		p.workers[r.Worker] = w
	}
	w.Name, w.seen = r.Name, max(w.seen, now)
	if !subset(r.Queues, w.Queues) || !subset(r.Kinds, w.Kinds) {
		w.Queues, w.Kinds = union(w.Queues, r.Queues), union(w.Kinds, r.Kinds)
	}
	waits := 0
	if r.Wait > 0 {
		waits = 1
	}
	w.waiting += waits
	return func() {
		now := clock()
		p.mu.Lock()
		defer p.mu.Unlock()
		w.waiting -= waits
		w.seen = max(w.seen, now)
	}
}

// all returns the workers that have claimed since then.
func (p *present) all(since int64) map[string]presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]presence{}
	for id, w := range p.workers {
		if w.waiting > 0 || w.seen > since {
			out[id] = *w
		}
	}
	return out
}

// asked holds the queues and kinds that a worker has claimed in this process, and their text.
type asked struct {
	asks
	text string
	at   int64 // when it was stored
}

// asks is the stored form of the queues and kinds that a worker claims.
type asks struct {
	Name   string   `json:"name,omitempty"`
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
}
