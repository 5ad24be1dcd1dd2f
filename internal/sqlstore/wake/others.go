package wake

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// The topics of signals: a queue with jobs that may start, a job that has ended, and the time at
// which a job is due. topicAny stands for all of them.
const (
	topicQueue = "q"
	topicFinal = "f"
	topicDue   = "d"
	topicAny   = "*"
)

// Polling while signals do not work, and the least time between two wake-ups of all calls because
// of other processes.
const (
	pollWithout = 200 * time.Millisecond
	restBetween = 2 * time.Millisecond
)

// maxFinals bounds the ended jobs that a signal names one by one.
const maxFinals = 50

// watch begins to listen to the signals of other processes, if the database has any.
func (h *Hub) watch() (stop func()) {
	if s, ok := h.core.DB.(sqldb.Signaler); ok && !h.core.Cfg.Without.Signals {
		return s.Watch(h.heard)
	}
	return func() {}
}

// pollEvery is how often the poll loop reads the version of the database.
func (h *Hub) pollEvery() time.Duration {
	if s, ok := h.core.DB.(sqldb.Signaler); ok && s.Signals() == "poll" {
		return min(h.core.Cfg.Poll, pollWithout)
	}
	return h.core.Cfg.Poll
}

// signalOthers tells other processes what the events of a committed transaction mean for them.
func (h *Hub) signalOthers(e *txn.Events) {
	s, ok := h.core.DB.(sqldb.Signaler)
	if !ok || h.core.Cfg.Without.Signals || len(e.Ready)+len(e.Freed)+len(e.Final)+len(e.Polls) == 0 && e.Due == 0 {
		return
	}
	var topics []string
	add := func(queue string) {
		if topic := topicQueue + queue; !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	for p := range e.Ready {
		add(p.Queue)
	}
	for queue := range e.Freed {
		add(queue)
	}
	for _, p := range e.Polls {
		e.Due = earliest(e.Due, p.At)
	}
	switch {
	case len(e.Final) > maxFinals:
		topics = append(topics, topicFinal)
	default:
		for _, id := range e.Final {
			topics = append(topics, topicFinal+id.String())
		}
	}
	if e.Due > 0 {
		topics = append(topics, topicDue+strconv.FormatInt(e.Due, 10))
	}
	s.Signal(topics)
}

func earliest(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// SignalAll tells other processes of a change of which no details are known.
func (h *Hub) SignalAll() {
	if s, ok := h.core.DB.(sqldb.Signaler); ok && !h.core.Cfg.Without.Signals {
		s.Signal([]string{topicAny})
	}
}

// heard wakes the calls that the signal of another process concerns.
func (h *Hub) heard(topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if topics == nil {
		h.noteForeign()
	}
	for _, topic := range topics {
		if topic == "" { // not of a store: any client of the database can notify
			continue
		}
		kind, rest := topic[:1], topic[1:]
		switch kind {
		case topicQueue:
			for _, w := range h.waiters {
				if w.IDs == nil && (rest == sojourn.AllQueues || slices.Contains(w.Queues, rest)) {
					w.signal()
				}
			}
		case topicFinal:
			for _, w := range h.waiters {
				if w.IDs != nil && (rest == "" || slices.ContainsFunc(w.IDs, func(id sojourn.ID) bool { return id.String() == rest })) {
					w.signal()
				}
			}
		case topicDue:
			if us, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64); err == nil {
				h.dueBy(us)
			}
		default:
			h.noteForeign()
		}
	}
}

// noteForeign has the poll loop wake all calls. The caller holds mu.
func (h *Hub) noteForeign() {
	h.foreign = true
	select {
	case h.sooner <- struct{}{}:
	default:
	}
}

func (h *Hub) takeForeign() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.foreign
	h.foreign = false
	return was
}

// rest keeps a busy process elsewhere from waking all calls without a pause.
func (h *Hub) rest() {
	timer := time.NewTimer(restBetween)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.core.Done:
	}
}
