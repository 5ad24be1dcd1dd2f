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

// Hub wakes blocked calls. Its hints come from this process's commits, from the clock (a job is
// due), and, for other processes on the same database, from polling the database's version every
// txn.Config.Poll. A lost or wrong hint does no harm: a Claim that is woken reads the database, and
// the poll of the version finds changes without a hint.
type Hub struct {
	core *txn.Core

	mu      sync.Mutex // guards the fields below
	waiters []*Waiter  // in order of arrival
	running bool       // the poll loop runs; only while a call waits, so that an idle store does nothing at all
	due     int64      // earliest wake_at known, microseconds; 0 = none
	sleeps  int64      // when the poll loop checks the times again, microseconds; 0 = at once
	sooner  chan struct{}
}

// Waiter is a blocked Claim (places) or Find (ids).
type Waiter struct {
	Queues, Kinds []string
	Pollable      []string // kinds
	IDs           []sojourn.ID
	opens         int64         // when a gate that holds its jobs back opens, or a poll step is due, microseconds; 0 = not known
	wake          chan struct{} // capacity 1

	Request *driver.ClaimRequest // of a Claim
	resting bool                 // it is asleep, so a transaction may run its request; see lend
	lent    chan struct{}        // closed when the transaction that runs its request is over; nil if none does
	Given   *ClaimAnswer         // the result of that transaction, if it found jobs
}

func NewHub(c *txn.Core) *Hub { return &Hub{core: c, sooner: make(chan struct{}, 1)} }

// wait registers w; cancel must be called. Register before reading the database, so that no change
// is missed in between.
func (h *Hub) wait(w *Waiter) (cancel func()) {
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

// Publish publishes the events of a transaction.
func (h *Hub) Publish(t *txn.Tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, n := range t.Ready {
		for _, w := range h.waiters {
			if n > 0 && slices.Contains(w.Queues, p.Queue) && slices.Contains(w.Kinds, p.Kind) && w.signal() {
				n--
			}
		}
	}
	for q, n := range t.Freed { // returned weight may start any kind
		for _, w := range h.waiters {
			if n > 0 && w.IDs == nil && (q == sojourn.AllQueues || slices.Contains(w.Queues, q)) && w.signal() {
				n--
			}
		}
	}
	for _, id := range t.Final {
		for _, w := range h.waiters {
			if slices.Contains(w.IDs, id) {
				w.signal()
			}
		}
	}
	for _, p := range t.Polls {
		for _, w := range h.waiters {
			if slices.Contains(w.Queues, p.Queue) && slices.Contains(w.Pollable, p.Kind) {
				h.opensBy(w, p.At)
			}
		}
	}
	h.dueBy(t.Due)
}

// dueBy records that a job is due at a time; 0 = none. An earlier time stays, because the
// transaction that has read this one may have begun before it was written. h.mu is held.
func (h *Hub) dueBy(us int64) {
	if us > 0 && (h.due == 0 || us < h.due) {
		h.due = us
		h.wakeBy(us)
	}
}

// wakeBy wakes the poll loop if it would sleep beyond a time. h.mu is held.
func (h *Hub) wakeBy(us int64) {
	if us < h.sleeps {
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

// Lend picks blocked claims for the jobs that a transaction makes ready, so that it may run their
// requests: a job then starts in the transaction that stores it or its response, and not in the
// next one. settle gives the claims back.
func (h *Hub) Lend(t *txn.Tx) (lent []*Waiter) {
	if h.core.Cfg.Without.ClaimInEnqueue {
		return nil
	}
	room := maps.Clone(t.Ready)
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
			if n > 0 && w.resting && w.lent == nil && slices.Contains(w.Queues, p.Queue) && slices.Contains(w.Kinds, p.Kind) {
				w.lent = make(chan struct{})
				lent = append(lent, w)
				n -= w.Request.Max
			}
		}
	}
	return lent
}

// Settle gives back the claims that a transaction was lent. answers are nil if it has failed.
func (h *Hub) Settle(lent []*Waiter, answers []ClaimAnswer) {
	if len(lent) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range lent {
		switch {
		case answers == nil:
			w.signal() // it claims by itself: a transaction that reported a failure may have been committed, and then its number finds its jobs
		case len(answers[i].Jobs) > 0:
			w.Given = &answers[i]
			w.signal()
		case answers[i].Drained || answers[i].Again:
			w.signal() // it claims by itself
		default:
			h.found(w, answers[i].Due, answers[i].Opens)
		}
		close(w.lent)
		w.lent = nil
	}
}

func (h *Hub) rest(w *Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.resting = w.Request != nil
}

// rise ends the wait of w and reports whether it was given jobs. If a transaction is running its
// request, it waits for that.
func (h *Hub) rise(w *Waiter) bool {
	h.mu.Lock()
	w.resting = false
	lent := w.lent
	h.mu.Unlock()
	if lent != nil {
		<-lent
	}
	return w.Given != nil
}

// signal reports whether the waiter was still asleep.
func (w *Waiter) signal() bool {
	select {
	case w.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		w.signal()
	}
}

// FoundNothing records the results of an empty claim: when the next job is due, and when a gate
// opens that holds back the jobs of w; 0 = none.
func (h *Hub) FoundNothing(w *Waiter, due, opens int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found(w, due, opens)
}

// found is foundNothing with h.mu held. A time in the past means that another transaction had
// locked the row, so that the claim could do nothing: the next claim tries a moment later.
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

// opensBy is dueBy for a gate, or for a poll step. h.mu is held.
func (h *Hub) opensBy(w *Waiter, us int64) {
	if us > 0 && (w.opens == 0 || us < w.opens) {
		w.opens = us
		h.wakeBy(us)
	}
}

// poll runs while a call waits. It checks for commits of other processes every txn.Config.Poll, and
// wakes calls when known times are reached.
func (h *Hub) poll() {
	tick := time.NewTicker(h.core.Cfg.Poll)
	defer tick.Stop()
	timer := time.NewTimer(h.core.Cfg.Poll)
	defer timer.Stop()
	version, _ := h.core.DB.Version(context.Background()) // an error shows as a change below
	h.WakeAll()                                           // calls that read the database before this version was read may have missed its changes
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
			continue
		case <-tick.C:
		case <-h.core.Done:
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
// there is work. h.mu is held.
func (h *Hub) wakeClaim() {
	for _, w := range h.waiters {
		if w.IDs == nil && w.signal() {
			return
		}
	}
}

// Block calls look until it reports that it is satisfied, or wait has passed, or ctx ends, or the
// store closes.
func (h *Hub) Block(ctx context.Context, w *Waiter, wait time.Duration, look func() (bool, error)) error {
	if wait <= 0 {
		_, err := look()
		return err
	}
	cancel := h.wait(w)
	defer cancel()
	timer := time.NewTimer(min(wait, sojourn.MaxWait))
	defer timer.Stop()
	for {
		if ok, err := look(); ok || err != nil {
			return err
		}
		h.rest(w)
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
		if h.rise(w) {
			return nil
		}
		if over || err != nil {
			return err
		}
	}
}
