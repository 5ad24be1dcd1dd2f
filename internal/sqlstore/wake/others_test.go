package wake

import (
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// TestHeard: a signal wakes the calls that it concerns. Any client of the database can send one, so
// a text that no store sends does no harm.
func TestHeard(t *testing.T) {
	for _, c := range []struct {
		name   string
		topics []string
		wakes  bool // the claim on queue "q"
		all    bool // the poll loop wakes all calls
	}{
		{"its queue", []string{topicQueue + "q"}, true, false},
		{"all queues", []string{topicQueue + "*"}, true, false},
		{"another queue", []string{topicQueue + "r"}, false, false},
		{"an ended job", []string{topicFinal + "1"}, false, false},
		{"an empty topic", []string{""}, false, false},
		{"an empty topic and its queue", []string{"", topicQueue + "q"}, true, false},
		{"a time that is none", []string{topicDue + "soon"}, false, false},
		{"anything", []string{topicAny}, false, true},
		{"not known", nil, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := NewHub(&txn.Core{DB: quiet{}, Clock: clock.Clock{}, Done: make(chan struct{})})
			w := &Waiter{wake: make(chan struct{}, 1)}
			w.Queues = []string{"q"}
			h.waiters = append(h.waiters, w)
			h.heard(c.topics)
			woken := false
			select {
			case <-w.wake:
				woken = true
			default:
			}
			if all := h.takeForeign(); woken != c.wakes || all != c.all {
				t.Errorf("the claim was woken: %v, all calls: %v; want %v, %v", woken, all, c.wakes, c.all)
			}
		})
	}
}
