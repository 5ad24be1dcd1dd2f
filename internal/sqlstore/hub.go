package sqlstore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// hub wakes blocked calls. Its hints come from this process's commits, from the clock (a job is
// due), and, for other processes on the same database, from polling the database's version every
// Config.Poll. A lost or wrong hint does no harm: a Claim that is woken reads the database, and the
// poll of the version finds changes without a hint.
type hub struct {
	core *core

	mu      sync.Mutex // guards the fields below
	waiters []*waiter  // in order of arrival
	running bool       // the poll loop runs; only while a call waits, so that an idle store does nothing at all
	due     int64      // earliest wake_at known, microseconds; 0 = none
	sleeps  int64      // when the poll loop checks the times again, microseconds; 0 = at once
	sooner  chan struct{}
}

// waiter is a blocked Claim (places) or Find (ids).
type waiter struct {
	queues, kinds []string
	pollable      []string // kinds
	ids           []sojourn.ID
	opens         int64         // when a gate that holds its jobs back opens, or a poll step is due, microseconds; 0 = not known
	wake          chan struct{} // capacity 1

	request *driver.ClaimRequest // of a Claim
	resting bool                 // it is asleep, so a transaction may run its request; see lend
	lent    chan struct{}        // closed when the transaction that runs its request is over; nil if none does
	given   *claimAnswer         // the result of that transaction, if it found jobs
}

func newHub(c *core) *hub { return &hub{core: c, sooner: make(chan struct{}, 1)} }

// wait registers w; cancel must be called. Register before reading the database, so that no change
// is missed in between.
func (h *hub) wait(w *waiter) (cancel func()) {
	w.wake = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = append(h.waiters, w)
	if !h.running && !h.core.isClosed() {
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

// tell publishes the events of a transaction.
func (h *hub) tell(t *tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, n := range t.ready {
		for _, w := range h.waiters {
			if n > 0 && slices.Contains(w.queues, p.queue) && slices.Contains(w.kinds, p.kind) && w.signal() {
				n--
			}
		}
	}
	for q, n := range t.freed { // returned weight may start any kind
		for _, w := range h.waiters {
			if n > 0 && w.ids == nil && (q == sojourn.AllQueues || slices.Contains(w.queues, q)) && w.signal() {
				n--
			}
		}
	}
	for _, id := range t.final {
		for _, w := range h.waiters {
			if slices.Contains(w.ids, id) {
				w.signal()
			}
		}
	}
	for _, p := range t.polls {
		for _, w := range h.waiters {
			if slices.Contains(w.queues, p.queue) && slices.Contains(w.pollable, p.kind) {
				h.opensBy(w, p.at)
			}
		}
	}
	h.dueBy(t.due)
}

// dueBy records that a job is due at a time; 0 = none. An earlier time stays, because the
// transaction that has read this one may have begun before it was written. h.mu is held.
func (h *hub) dueBy(us int64) {
	if us > 0 && (h.due == 0 || us < h.due) {
		h.due = us
		h.wakeBy(us)
	}
}

// wakeBy wakes the poll loop if it would sleep beyond a time. h.mu is held.
func (h *hub) wakeBy(us int64) {
	if us < h.sleeps {
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

// lend picks blocked claims for the jobs that a transaction makes ready, so that it may run their
// requests: a job then starts in the transaction that stores it or its response, and not in the
// next one. settle gives the claims back.
func (h *hub) lend(t *tx) (lent []*waiter) {
	room := maps.Clone(t.ready)
	for _, f := range t.pending.fresh {
		if f.now.State == sojourn.Ready {
			room[place{f.now.queue, f.now.kind}]++
		}
	}
	if len(room) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, n := range room {
		for _, w := range h.waiters {
			if n > 0 && w.resting && w.lent == nil && slices.Contains(w.queues, p.queue) && slices.Contains(w.kinds, p.kind) {
				w.lent = make(chan struct{})
				lent = append(lent, w)
				n -= w.request.Max
			}
		}
	}
	return lent
}

// settle gives back the claims that a transaction was lent. answers are nil if it has failed.
func (h *hub) settle(lent []*waiter, answers []claimAnswer) {
	if len(lent) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range lent {
		switch {
		case answers == nil:
			w.signal() // it claims by itself: a transaction that reported a failure may have been committed, and then its number finds its jobs
		case len(answers[i].jobs) > 0:
			w.given = &answers[i]
			w.signal()
		case answers[i].drained || answers[i].again:
			w.signal() // it claims by itself
		default:
			h.found(w, answers[i].due, answers[i].opens)
		}
		close(w.lent)
		w.lent = nil
	}
}

func (h *hub) rest(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.resting = w.request != nil
}

// rise ends the wait of w and reports whether it was given jobs. If a transaction is running its
// request, it waits for that.
func (h *hub) rise(w *waiter) bool {
	h.mu.Lock()
	w.resting = false
	lent := w.lent
	h.mu.Unlock()
	if lent != nil {
		<-lent
	}
	return w.given != nil
}

// signal reports whether the waiter was still asleep.
func (w *waiter) signal() bool {
	select {
	case w.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		w.signal()
	}
}

// foundNothing records the results of an empty claim: when the next job is due, and when a gate
// opens that holds back the jobs of w; 0 = none.
func (h *hub) foundNothing(w *waiter, due, opens int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found(w, due, opens)
}

// found is foundNothing with h.mu held. A time in the past means that another transaction had
// locked the row, so that the claim could do nothing: the next claim tries a moment later.
func (h *hub) found(w *waiter, due, opens int64) {
	now := h.core.clock.estimate()
	again := now + pollEvery.Microseconds()
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
func (h *hub) opensBy(w *waiter, us int64) {
	if us > 0 && (w.opens == 0 || us < w.opens) {
		w.opens = us
		h.wakeBy(us)
	}
}

// poll runs while a call waits. It checks for commits of other processes every Config.Poll, and
// wakes calls when known times are reached.
func (h *hub) poll() {
	tick := time.NewTicker(h.core.cfg.Poll)
	defer tick.Stop()
	timer := time.NewTimer(h.core.cfg.Poll)
	defer timer.Stop()
	version, _ := h.core.db.Version(context.Background()) // an error shows as a change below
	h.wakeAll()                                           // calls that read the database before this version was read may have missed its changes
	for {
		next, ok := h.wakeDue(h.core.clock.estimate())
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
		case <-h.core.done:
		}
		if v, err := h.core.db.Version(context.Background()); err != nil || v != version {
			version = v
			h.wakeAll()
		}
	}
}

// wakeDue wakes the calls whose time has come, and returns how long the poll loop may sleep; false
// if no call waits.
func (h *hub) wakeDue(now int64) (next time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiters) == 0 || h.core.isClosed() {
		h.running = false
		return 0, false
	}
	h.sleeps = now + h.core.cfg.Poll.Microseconds()
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
func (h *hub) wakeClaim() {
	for _, w := range h.waiters {
		if w.ids == nil && w.signal() {
			return
		}
	}
}

// block calls look until it reports that it is satisfied, or wait has passed, or ctx ends, or the
// store closes.
func (h *hub) block(ctx context.Context, w *waiter, wait time.Duration, look func() (bool, error)) error {
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
		case <-h.core.done:
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
