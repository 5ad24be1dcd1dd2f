package events

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/store/event"
)

// ReadEvents acknowledges and reads events; see event.Store.
func (s *Follower) ReadEvents(ctx context.Context, r event.Read) (page event.Page, err error) {
	if err := sojourn.ValidLimit(r.Limit); err != nil {
		return page, err
	}
	if r.Limit == 0 {
		r.Limit = 100
	}
	if r.Wait < 0 {
		return page, sojourn.Invalid("wait", "%v is negative", r.Wait)
	}
	a := ack{owner: access.CallerOf(ctx).Owner(), name: r.Follower}
	if r.Ack != "" {
		if a.xid, a.id, err = r.Ack.Parse(); err != nil {
			return page, err
		}
	}
	a.on = r.Ack != ""
	after := position{}
	if r.After != "" {
		if after.xid, after.id, err = r.After.Parse(); err != nil {
			return page, err
		}
	}
	if err := s.prepare(ctx, a); err != nil {
		return page, err
	}
	// On PostgreSQL the end of any other transaction can make events readable, without a wake-up.
	for waited := time.Duration(0); ; waited += readEvery {
		var done bool
		if page, done, err = s.await(ctx, a, after, r.Limit, min(r.Wait-waited, readEvery)); err != nil || done || waited+readEvery >= min(r.Wait, sojourn.MaxWait) {
			return page, err
		}
	}
}

// readEvery is the longest time between two reads of a call that waits.
const readEvery = time.Second

// await reads a page, and waits for the next event if there is none. done: the page has events, or
// so many were passed over that the caller must say where to go on.
func (s *Follower) await(ctx context.Context, a ack, after position, limit int, wait time.Duration) (page event.Page, done bool, err error) {
	err = s.hub.Block(ctx, &wake.Waiter{IDs: []sojourn.ID{}, Events: true}, wait, func() (bool, error) {
		err := s.core.View(ctx, func(t *txn.Tx) error {
			f, err := read(t, a.owner, a.name)
			if err == nil && f == nil {
				err = notFound(a.name)
			}
			if err != nil {
				return err
			}
			page, done, err = pageOf(t, f, after, limit, access.CallerOf(ctx))
			if d, ok := t.Conn.(sqldb.DurableReader); ok && len(page.Events) > 0 {
				d.ReadDurably() // a reported event must not be undone
			}
			return err
		})
		return done, err
	})
	return page, done, err
}

// position is a place in the events.
type position struct{ xid, id int64 }

func (p position) before(q position) bool { return p.xid < q.xid || p.xid == q.xid && p.id < q.id }

// pageOf reads the events after the position of a follower, or after a later one. full: there may
// be more behind those that do not match its filter. Who has read beyond the follower's position
// has got what a gap stands for.
func pageOf(t *txn.Tx, f *follower, after position, limit int, c *access.Caller) (page event.Page, full bool, err error) {
	xid, id := f.xid, f.id
	if beyond := (position{xid, id}).before(after); beyond {
		n, err := t.ReadInt(qStored, after.xid, after.id)
		if err != nil {
			return page, false, err
		}
		if n == 0 {
			return page, false, noEvent("after", after.xid, after.id)
		}
		xid, id = after.xid, after.id
	} else if f.gap {
		page.Events = append(page.Events, event.Event{Type: event.Gap, Position: event.PositionOf(xid, id)})
	}
	for n := 0; len(page.Events) < limit && n < scanned; {
		some := 0
		if err := t.Read(TextPage, func(r sqldb.Row) error {
			some++
			if len(page.Events) == limit {
				return nil
			}
			e, err := scan(r)
			if err == nil && matches(f.filter, &e, c) {
				page.Events = append(page.Events, e)
			}
			xid, id = r.Int(0), r.Int(1)
			return err
		}, xid, id, sojourn.MaxFind); err != nil {
			return page, false, err
		}
		if n += some; some < sojourn.MaxFind {
			break
		}
		full = n >= scanned
	}
	page.Next = event.PositionOf(xid, id)
	return page, full || len(page.Events) > 0, nil
}

// scan reads a row of Columns.
func scan(r sqldb.Row) (event.Event, error) {
	e := event.Event{Type: event.Transition, Position: event.PositionOf(r.Int(0), r.Int(1)), Job: sojourn.ID(r.Int(2)), At: jobrow.Time(r.Int(3)), From: sojourn.State(r.Int(4)),
		State: sojourn.State(r.Int(5)), Generation: int32(r.Int(6)), Attempt: int32(r.Int(7)), Queue: r.Text(8), Kind: r.Text(9), Key: r.Text(10)}
	if tags := r.Text(11); tags != "" {
		if err := json.Unmarshal([]byte(tags), &e.Tags); err != nil {
			return e, fmt.Errorf("tags of an event of job %d: %w", e.Job, err)
		}
	}
	return e, nil
}

// ack is an acknowledgement of a follower.
type ack struct {
	owner, name string
	xid, id     int64
	on          bool // it has a position
}

// prepare writes what a read needs to write: an acknowledgement, that the follower was used, or
// that it begins again in a copy of the database. Most reads of an idle store need none.
func (s *Follower) prepare(ctx context.Context, a ack) error {
	due := false
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		f, err := read(t, a.owner, a.name)
		if err != nil {
			return err
		}
		if f == nil {
			return notFound(a.name)
		}
		due = a.on && (f.xid != a.xid || f.id != a.id || f.gap) || t.Now-f.seen >= seenEvery
		if !due {
			due, err = isAhead(t, f)
		}
		return err
	}); err != nil || !due {
		return err
	}
	r, err := txn.Do(ctx, s.core, s.ackOp, 1, a)
	if err == nil {
		err = r.Err
	}
	return err
}

// isAhead reports whether the follower has a position that this database has not come to.
func isAhead(t *txn.Tx, f *follower) (ahead bool, err error) {
	err = t.Read(TextAhead, func(sqldb.Row) error { ahead = true; return nil }, f.xid, 1)
	return ahead, err
}

func acknowledge(t *txn.Tx, a ack) (txn.Refusal, error) {
	f, err := read(t, a.owner, a.name)
	if err != nil {
		return txn.Refusal{}, err
	}
	if f == nil {
		return txn.Refusal{Err: notFound(a.name)}, nil
	}
	if ahead, err := isAhead(t, f); err != nil {
		return txn.Refusal{}, err
	} else if ahead {
		return txn.Refusal{}, restart(t, f)
	}
	if !a.on || a.xid < f.xid || a.xid == f.xid && a.id < f.id {
		_, err := t.Write(qSeen, a.owner, a.name, t.Now)
		return txn.Refusal{}, err
	}
	if a.xid != f.xid || a.id != f.id {
		n, err := t.ReadInt(qStored, a.xid, a.id)
		if err != nil {
			return txn.Refusal{}, err
		}
		if n == 0 {
			return txn.Refusal{Err: noEvent("ack", a.xid, a.id)}, nil
		}
	}
	_, err = t.Write(qAck, a.owner, a.name, a.xid, a.id, t.Now)
	return txn.Refusal{}, err
}

func noEvent(field string, xid, id int64) error {
	return sojourn.Invalid(field, "there is no event at %s in this store; leave it out to go on after the last acknowledged event", event.PositionOf(xid, id))
}

// restart lets a follower begin again at the present, after a gap. Events of the server that the
// copy comes from have higher transaction ids than this server has given.
func restart(t *txn.Tx, f *follower) error {
	if _, err := t.Write(qForeign, f.xid); err != nil {
		return err
	}
	var xid, id int64
	if err := t.Read(TextStart, func(r sqldb.Row) error { xid, id = r.Int(0), r.Int(1); return nil }); err != nil {
		return err
	}
	_, err := t.Write(qRestart, f.owner, f.name, xid, id)
	return err
}
