// Package presence knows the workers that claim from this process. An idle worker writes nothing,
// so the database does not know that it is alive.
package presence

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn/driver"
)

// Workers are the workers that claim from this process. Safe for concurrent use.
type Workers struct {
	mu      sync.Mutex // guards workers
	workers map[string]*Presence

	// Life is the setting worker_life as this process has read it last; 0 = not yet.
	Life atomic.Int64
}

// maxPresent bounds the memory: 10,000 workers are some 5 MB. Other workers are read from the
// database.
const maxPresent = 10_000

// Presence is a worker that has claimed.
type Presence struct {
	Subscription
	Seen    int64 // when a claim has begun or ended, microseconds by the store's clock
	Waiting int   // claims under way that may wait
}

// Subscription is what a worker claims: its stored form is the JSON.
type Subscription struct {
	Name   string   `json:"name,omitempty"`
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
	Left   bool     `json:"left,omitempty"` // it has stopped; queues and kinds are empty
}

// StoredSubscription is a Subscription as this process has stored it last.
type StoredSubscription struct {
	Subscription
	Text string // its JSON
	At   int64  // when it was stored, microseconds
}

// Note records the beginning of a claim, and leave its end. now returns the time, in microseconds.
func (p *Workers) Note(r *driver.ClaimRequest, now func() int64) (leave func()) {
	began := now()
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
	w.Name, w.Seen = r.Name, max(w.Seen, began)
	if !Subset(r.Queues, w.Queues) || !Subset(r.Kinds, w.Kinds) {
		w.Queues, w.Kinds = Union(w.Queues, r.Queues), Union(w.Kinds, r.Kinds)
	}
	waits := 0
	if r.Wait > 0 {
		waits = 1
	}
	w.Waiting += waits
	return func() {
		ended := now()
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Waiting -= waits
		w.Seen = max(w.Seen, ended)
	}
}

// All returns the workers that have claimed after since, in microseconds, or wait in a claim, by
// id.
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

// Subset reports whether all contains every text of part.
func Subset(part, all []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(all, s) })
}

// Union returns the texts of both lists, sorted and without duplicates.
func Union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Forget removes a worker that an operator has removed. One that waits in a claim stays.
func (p *Workers) Forget(worker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[worker]; w != nil && w.Waiting == 0 {
		delete(p.workers, worker)
	}
}
