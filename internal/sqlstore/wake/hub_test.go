package wake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// quiet is a database in which no other process writes.
type quiet struct{ sqldb.DB }

func (quiet) Version(context.Context) (int64, error) { return 1, nil }

// TestTimersOfWaitingClaims: spec:P3, spec:O7. A job scheduled by this process wakes a claim at its
// time, however long the poll loop would have slept. Time is driven: a claim is woken within 100 ms
// of it or not at all.
func TestTimersOfWaitingClaims(t *testing.T) {
	soon := func(at int64) *txn.Tx { return &txn.Tx{Events: txn.Events{Due: at}} }
	for _, c := range []struct {
		name  string
		poll  time.Duration
		after time.Duration // after the poll loop has gone to sleep
		tell  func(h *Hub, w *Waiter, at int64)
	}{
		{"a job that is due before the next poll", time.Second, 300 * time.Millisecond, func(h *Hub, _ *Waiter, at int64) { h.Publish(soon(at)) }},
		{"a job that is due after it", time.Second, 2300 * time.Millisecond, func(h *Hub, _ *Waiter, at int64) { h.Publish(soon(at)) }},
		{"a poll that never comes", time.Hour, time.Minute, func(h *Hub, _ *Waiter, at int64) { h.Publish(soon(at)) }},
		{"a job before another one", time.Second, 200 * time.Millisecond, func(h *Hub, _ *Waiter, at int64) {
			h.Publish(soon(at + 600_000))
			h.Publish(soon(at))
		}},
		{"an empty claim that began before the job was stored", time.Second, 200 * time.Millisecond, func(h *Hub, w *Waiter, at int64) {
			h.Publish(soon(at))
			h.FoundNothing(w, 0, 0)
		}},
		{"the due time of an empty claim", time.Second, 200 * time.Millisecond, func(h *Hub, w *Waiter, at int64) { h.FoundNothing(w, at, 0) }},
		{"a gate that opens", time.Second, 200 * time.Millisecond, func(h *Hub, w *Waiter, at int64) { h.FoundNothing(w, 0, at) }},
		{"a poll step", time.Second, 200 * time.Millisecond, func(h *Hub, _ *Waiter, at int64) {
			h.Publish(&txn.Tx{Events: txn.Events{Polls: []txn.Poll{{QueueKind: txn.QueueKind{Queue: "q", Kind: "k"}, At: at}}}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &txn.Core{DB: quiet{}, Cfg: txn.Config{Poll: c.poll}, Clock: clock.Clock{Source: clock.Source{Wall: time.Now, Driven: true}}, Done: make(chan struct{})}
				h := NewHub(store)
				w := &Waiter{Queues: []string{"q"}, Kinds: []string{"k"}, Pollable: []string{"k"}, Request: &driver.ClaimRequest{}}
				cancel := h.register(w)
				<-w.wake // the poll loop has read the version
				synctest.Wait()
				at := time.Now().Add(c.after)
				c.tell(h, w, at.UnixMicro())
				select {
				case <-w.wake:
					if late := time.Since(at); late < 0 || late > 100*time.Millisecond {
						t.Errorf("woken %v after its time", late)
					}
				case <-time.After(c.after + time.Minute):
					t.Error("not woken")
				}
				cancel()
				store.Close()
			})
		})
	}
}

// TestLockedRowsDoNotSpin: a claim that cannot handle due jobs, because another transaction has
// locked them, is not repeated at once.
func TestLockedRowsDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &txn.Core{DB: quiet{}, Cfg: txn.Config{Poll: time.Second}, Clock: clock.Clock{Source: clock.Source{Wall: time.Now, Driven: true}}, Done: make(chan struct{})}
		h := NewHub(store)
		w := &Waiter{Queues: []string{"q"}, Kinds: []string{"k"}, Request: &driver.ClaimRequest{}}
		cancel := h.register(w)
		<-w.wake
		synctest.Wait()
		due, began := time.Now().UnixMicro(), time.Now()
		for range 10 {
			h.FoundNothing(w, due, 0)
			<-w.wake
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("ten claims in %v", took)
		}
		cancel()
		store.Close()
	})
}
