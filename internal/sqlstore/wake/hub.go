// Package wake wakes blocked calls: claims that wait for jobs, and reads that wait for the end of
// jobs. Frequent polling would keep an idle store busy, and rare polling would delay every job.
//
// A [Hub] knows the [Waiter] of each blocked call. After each commit of this process the store
// gives it the events of the transaction, and it wakes the calls that they concern. Timers wake
// calls when a job is due or a gate opens. Commits of other processes are found by the signals of
// the database, and by polling its version. A wake-up is a hint (docs/decisions/005): the call that
// is woken reads the database, so a lost or a wrong hint delays it by one poll at most.
//
// The hub is also where a transaction that makes jobs ready finds blocked claims, and runs them
// itself. Their callers then get a [ClaimAnswer] without a transaction of their own.
//
// A Hub is safe for concurrent use. A Waiter belongs to the call that blocks with it.
package wake

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Hub wakes blocked calls. Its poll loop runs only while a call waits, so that an idle store does
// nothing at all. All times are microseconds by the clock of the store. Safe for concurrent use.
type Hub struct {
	core *txn.Core

	mu      sync.Mutex // guards the fields below
	waiters []*Waiter  // in order of arrival
	running bool       // the poll loop runs
	due     int64      // the earliest wake_at that is known; 0 = none
	sleeps  int64      // when the poll loop checks the times again; 0 = at once
	foreign bool       // another process has committed, and the poll loop is to wake all calls

	sooner chan struct{} // capacity 1: ends the sleep of the poll loop
}

// NewHub makes the hub of a store. It ends with the store.
func NewHub(c *txn.Core) *Hub { return &Hub{core: c, sooner: make(chan struct{}, 1)} }

// Waiter is a blocked call: a Claim, with queues, kinds and its request, or a Find, with ids. The
// caller fills in the exported fields before Block; the hub sets Answer.
type Waiter struct {
	Queues, Kinds []string                // the jobs that a Claim takes
	Pollable      []string                // kinds whose poll steps it takes
	Request       *driver.ClaimRequest    // of a Claim; the transaction of another call may run it
	Selects       func(queue string) bool // further queues that a Claim with patterns may take jobs of; nil: none
	IDs           []sojourn.ID            // the jobs whose end a Find waits for; not nil for any call but a Claim
	Events        bool                    // a read of events

	// Answer has the jobs of a Claim whose request was run by the transaction of another call. It
	// is nil if there were none. Read it after Block.
	Answer *ClaimAnswer

	opens    int64         // when a gate opens, or a poll step is due, for its jobs; 0 = not known
	wake     chan struct{} // capacity 1
	asleep   bool          // it waits, so a transaction may run its request, see Reserve
	reserved chan struct{} // closed by Release; nil if no transaction runs its request
}

// Block calls read again and again, each time that w is woken, until read reports that it is done,
// or another transaction has set w.Answer. It returns nil also when wait has passed (0: read is
// called once; at most sojourn.MaxWait), and an error when read fails, ctx ends, or the store
// closes.
func (h *Hub) Block(ctx context.Context, w *Waiter, wait time.Duration, read func() (done bool, err error)) error {
	if wait <= 0 {
		_, err := read()
		return err
	}
	cancel := h.register(w)
	defer cancel()
	timer := time.NewTimer(min(wait, sojourn.MaxWait))
	defer timer.Stop()
	for {
		if done, err := read(); done || err != nil {
			return err
		}
		h.sleep(w)
		var err error
		over := false
		select {
		case <-w.wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			err = ctx.Err()
		case <-h.core.Done:
			err = groupcommit.ErrClosed
		}
		if h.wakeUp(w) {
			return nil
		}
		if over || err != nil {
			return err
		}
	}
}

// Publish wakes the calls that the events of a committed transaction concern: for each ready job
// one claim, for freed weight as many claims, and every Find of a job that became final.
func (h *Hub) Publish(t *txn.Tx) {
	h.signalOthers(&t.Events)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Events.Foreign {
		h.noteForeign()
	}
	for p, n := range t.Events.Ready {
		for _, w := range h.waiters {
			if !slices.Contains(w.Kinds, p.Kind) {
				continue
			}
			if n > 0 && slices.Contains(w.Queues, p.Queue) && w.signal() {
				n--
			}
			w.selected(p.Queue)
		}
	}
	for q, n := range t.Events.Freed { // returned weight may start any kind
		for _, w := range h.waiters {
			if n > 0 && w.IDs == nil && (q == sojourn.AllQueues || slices.Contains(w.Queues, q)) && w.signal() {
				n--
			}
			w.selected(q)
		}
	}
	for _, w := range h.waiters {
		if w.Events && t.Events.Followed {
			w.signal()
		}
	}
	for _, id := range t.Events.Final {
		for _, w := range h.waiters {
			if slices.Contains(w.IDs, id) {
				w.signal()
			}
		}
	}
	for _, p := range t.Events.Polls {
		for _, w := range h.waiters {
			if slices.Contains(w.Queues, p.Queue) && slices.Contains(w.Pollable, p.Kind) {
				h.opensBy(w, p.At)
			}
			if slices.Contains(w.Pollable, p.Kind) {
				w.selected(p.Queue)
			}
		}
	}
	h.dueBy(t.Events.Due)
}

// Aim replaces the queues of a claim, which is awake: no other transaction runs its request.
func (h *Hub) Aim(w *Waiter, queues []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.Queues, w.Request.Queues = queues, queues
}

// selected wakes a claim whose patterns select a queue that it does not look into yet. It does not
// count as the claim of a job, because it may be unable to take it.
func (w *Waiter) selected(queue string) {
	if w.Selects != nil && !slices.Contains(w.Queues, queue) && w.Selects(queue) {
		w.signal()
	}
}

// FoundNothing records what an empty claim has read: when the next job is due, and when a gate
// opens that holds back the jobs of w; 0 = none.
func (h *Hub) FoundNothing(w *Waiter, due, opens int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found(w, due, opens)
}

// WakeAll wakes every blocked call, after a change of which no details are known.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		w.signal()
	}
}

// Reserve selects blocked claims for the jobs that a transaction makes ready, so that it may run
// their requests: a job then starts in the transaction that stores it or its response, and not in
// the next one. A claim that is reserved does not end its wait before Release, which must be
// called.
func (h *Hub) Reserve(t *txn.Tx) (reserved []*Waiter) {
	if h.core.Cfg.Without.ClaimInEnqueue {
		return nil
	}
	room := maps.Clone(t.Events.Ready)
	for _, f := range t.Writes.Inserts {
		if f.Now.State == sojourn.Ready {
			room[txn.QueueKind{Queue: f.Now.Queue, Kind: f.Now.Kind}]++
		}
	}
	if len(room) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, n := range room {
		for _, w := range h.waiters {
			if n > 0 && w.asleep && w.reserved == nil && slices.Contains(w.Queues, p.Queue) && slices.Contains(w.Kinds, p.Kind) {
				w.reserved = make(chan struct{})
				reserved = append(reserved, w)
				n -= w.Request.Max
			}
		}
	}
	return reserved
}

// Release ends the reservation of claims, after the transaction. answers has one answer for each;
// nil if the transaction has failed.
func (h *Hub) Release(reserved []*Waiter, answers []ClaimAnswer) {
	if len(reserved) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range reserved {
		switch {
		case answers == nil:
			// It claims by itself. If the transaction was committed in spite of its error, the
			// repeat of the claim finds its jobs.
			w.signal()
		case len(answers[i].Jobs) > 0:
			w.Answer = &answers[i]
			w.signal()
		case answers[i].Drained || answers[i].Again:
			w.signal() // it claims by itself
		default:
			h.found(w, answers[i].Due, answers[i].Opens)
		}
		close(w.reserved)
		w.reserved = nil
	}
}

// register adds a call, before it reads the database for the first time: so it misses no change in
// between. cancel must be called.
func (h *Hub) register(w *Waiter) (cancel func()) {
	w.wake = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = append(h.waiters, w)
	if !h.running && !h.core.IsClosed() {
		h.running = true
		go h.poll()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i := slices.Index(h.waiters, w); i >= 0 {
			h.waiters = slices.Delete(h.waiters, i, i+1)
		}
	}
}

// sleep marks a claim as blocked, so that it may be reserved.
func (h *Hub) sleep(w *Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.asleep = w.Request != nil
}

// wakeUp ends the sleep of w and reports whether it has an answer. If a transaction is running its
// request, it waits for the end of that.
func (h *Hub) wakeUp(w *Waiter) bool {
	h.mu.Lock()
	w.asleep = false
	reserved := w.reserved
	h.mu.Unlock()
	if reserved != nil {
		<-reserved
	}
	return w.Answer != nil
}

// signal wakes the call, and reports whether it was not woken already.
func (w *Waiter) signal() bool {
	select {
	case w.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

// found is FoundNothing for a caller that holds mu. A time in the past means that another
// transaction had locked the row. The claim is repeated a poll later, and not at once.
func (h *Hub) found(w *Waiter, due, opens int64) {
	now := h.core.Clock.Estimate()
	again := now + txn.PollEvery.Microseconds()
	if 0 < due && due <= now {
		due = again
	}
	if 0 < opens && opens <= now {
		opens = again
	}
	h.dueBy(due)
	h.opensBy(w, opens)
}

// dueBy records that a job is due at us; 0 = none. An earlier time stays, because the transaction
// that has read us may have begun before that was written. The caller holds mu.
func (h *Hub) dueBy(us int64) {
	if us > 0 && (h.due == 0 || us < h.due) {
		h.due = us
		h.wakeBy(us)
	}
}

// opensBy records that a gate opens or a poll step is due for w at us; 0 = none. The caller holds
// mu.
func (h *Hub) opensBy(w *Waiter, us int64) {
	if us > 0 && (w.opens == 0 || us < w.opens) {
		w.opens = us
		h.wakeBy(us)
	}
}

// wakeBy wakes the poll loop if it would sleep beyond us. The caller holds mu.
func (h *Hub) wakeBy(us int64) {
	if us < h.sleeps {
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

// poll is the poll loop. It checks for commits of other processes every txn.Config.Poll, and sooner
// after a signal; and it wakes calls when known times are reached.
func (h *Hub) poll() {
	every := h.pollEvery()
	tick := time.NewTicker(every)
	defer tick.Stop()
	timer := time.NewTimer(every)
	defer timer.Stop()
	defer h.watch()()
	version, _ := h.core.DB.Version(context.Background()) // an error shows as a change below
	h.WakeAll()                                           // they may have read before the version
	for {
		next, ok := h.wakeDue(h.core.Clock.Estimate())
		if !ok {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C:
			continue
		case <-h.sooner:
			if h.takeForeign() {
				h.WakeAll()
				h.rest()
			}
			continue
		case <-tick.C:
		case <-h.core.Done:
		}
		if now := h.pollEvery(); now != every {
			every = now
			tick.Reset(every)
		}
		if v, err := h.core.DB.Version(context.Background()); err != nil || v != version {
			version = v
			h.WakeAll()
		}
	}
}

// wakeDue wakes the calls whose time has come, and returns how long the poll loop may sleep; false
// if no call waits.
func (h *Hub) wakeDue(now int64) (next time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiters) == 0 || h.core.IsClosed() {
		h.running = false
		return 0, false
	}
	h.sleeps = now + h.core.Cfg.Poll.Microseconds()
	if h.due > now {
		h.sleeps = min(h.sleeps, h.due)
	} else if h.due > 0 {
		h.due = 0 // the claim that is woken reads the next time
		h.wakeClaim()
	}
	for _, w := range h.waiters {
		if w.opens > now {
			h.sleeps = min(h.sleeps, w.opens)
		} else if w.opens > 0 {
			w.opens = 0
			w.signal()
		}
	}
	return time.Duration(h.sleeps-now) * time.Microsecond, true
}

// wakeClaim wakes one blocked Claim, which promotes due jobs and so wakes the others as far as
// there is work. The caller holds mu.
func (h *Hub) wakeClaim() {
	for _, w := range h.waiters {
		if w.IDs == nil && w.signal() {
			return
		}
	}
}
