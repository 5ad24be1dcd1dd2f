// Package events keeps followers, and reads and deletes the events that transactions have stored
// for them; see the public package event and docs/decisions/067-events.md. Package txn writes the
// events.
package events

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/store/event"
)

// Columns are the columns of an event, in the order of scan.
const Columns = `xid, id, job, at_us, from_state, state, generation, attempt, queue, kind, key, tags`

// Statements that PostgreSQL has texts of its own for. Where one transaction writes at a time, xid
// is 0 and all events can be read.
const (
	// TextPage reads up to $3 events after a position.
	TextPage = `select ` + Columns + ` from sj_event where $1 >= 0 and id > $2 order by id limit $3`
	// TextStart reads the position of a new follower: all transactions that see it store their
	// events after this position.
	TextStart = `select 0, coalesce(max(id), 0) from sj_event`
	// TextAhead returns a row if the database is a copy that has not come to transaction $1 yet.
	// $2 is 1.
	TextAhead = `select 1 where $1 < 0 limit $2`
)

const (
	followerColumns = `owner, name, filter, xid, id, gap, created_us, seen_us`
	qOne            = `select ` + followerColumns + ` from sj_follower where owner = $1 and name = $2`
	qAll            = `select ` + followerColumns + ` from sj_follower where (owner = $1 or $2 = 1) order by owner, name`
	qCount          = `select count(*) from sj_follower where owner = $1`
	qInsert         = `insert into sj_follower (owner, name, filter, xid, id, gap, created_us, seen_us) values ($1, $2, $3, $4, $5, 0, $6, $6)`
	qDelete         = `delete from sj_follower where owner = $1 and name = $2`
	// qNewest makes transactions with one snapshot fail that are older than the follower: they lock
	// this row, which every store has.
	qNewest = `update sj_meta set value = value where name = 'instance'`
	qLag    = `select count(*), coalesce(min(at_us), 0) from (select at_us from sj_event where (xid, id) > ($1, $2) order by xid, id limit $3) e`
	qStored = `select count(*) from sj_event where xid = $1 and id = $2`
	qAck    = `update sj_follower set xid = $3, id = $4, gap = 0, seen_us = $5 where owner = $1 and name = $2 and (xid, id) <= ($3, $4)`
	qSeen   = `update sj_follower set seen_us = $3 where owner = $1 and name = $2`
	// qRestart begins again after the database was replaced by an older copy.
	qRestart = `update sj_follower set xid = $3, id = $4, gap = 1 where owner = $1 and name = $2`
	qForeign = `delete from sj_event where xid >= $1`
)

const (
	seenEvery = 3600 * 1_000_000 // microseconds
	// scanned bounds the events that one read compares with its filter.
	scanned = 10 * sojourn.MaxFind
)

// Follower keeps the followers of one store. Safe for concurrent use.
type Follower struct {
	core     *txn.Core
	upkeep   *upkeep.Maintainer
	hub      *wake.Hub
	followOp *txn.Op[follower, answer]
	deleteOp *txn.Op[follower, txn.Refusal]
	ackOp    *txn.Op[ack, txn.Refusal]
	sweepOp  *txn.Op[int, bool]
}

// New makes the Follower of a store; m knows the transactions that have written jobs.
func New(c *txn.Core, h *wake.Hub, m *upkeep.Maintainer) *Follower {
	return &Follower{core: c, upkeep: m, hub: h, followOp: txn.EachOp("follow", groupcommit.Finish, follow), deleteOp: txn.EachOp("unfollow", groupcommit.Finish, unfollow),
		ackOp: txn.EachOp("acknowledge events", groupcommit.Finish, acknowledge), sweepOp: txn.EachOp("sweep events", groupcommit.Enqueue, sweep)}
}

// follower is a row of sj_follower.
type follower struct {
	owner, name   string
	filter        event.Filter
	text          string // the filter, as stored
	xid, id       int64
	gap           bool
	created, seen int64          // microseconds
	caller        *access.Caller // who makes it
}

func scanFollower(r sqldb.Row) (*follower, error) {
	f := &follower{owner: r.Text(0), name: r.Text(1), text: r.Text(2), xid: r.Int(3), id: r.Int(4), gap: r.Int(5) > 0, created: r.Int(6), seen: r.Int(7)}
	return f, json.Unmarshal([]byte(f.text), &f.filter)
}

func read(t *txn.Tx, owner, name string) (f *follower, err error) {
	err = t.Read(qOne, func(r sqldb.Row) (err error) { f, err = scanFollower(r); return err }, owner, name)
	return f, err
}

func notFound(name string) error { return sojourn.NotFound("there is no follower %.64q", name) }

// status shows a follower. The lag of a caller who may not read all jobs counts only those of the
// next events that the follower gets: the others tell how busy other queues are.
func (f *follower) status(t *txn.Tx, c *access.Caller) (event.Status, error) {
	out := event.Status{Name: f.name, Owner: f.owner, Filter: f.filter, Position: event.PositionOf(f.xid, f.id), Gap: f.gap, CreatedAt: jobrow.Time(f.created), SeenAt: jobrow.Time(f.seen)}
	oldest := int64(0)
	note := func(n, at int64) {
		if out.Lag += n; n > 0 && (oldest == 0 || at < oldest) {
			oldest = at
			out.Behind = max(time.Duration(t.Now-at)*time.Microsecond, 0).Seconds()
		}
	}
	if !c.Allows(access.VerbRead, "", "") {
		err := t.Read(TextPage, func(r sqldb.Row) error {
			e, err := scan(r)
			if err == nil && matches(f.filter, &e, c) {
				note(1, r.Int(3))
			}
			return err
		}, f.xid, f.id, sojourn.MaxFind)
		return out, err
	}
	err := t.Read(qLag, func(r sqldb.Row) error {
		note(r.Int(0), r.Int(1))
		return nil
	}, f.xid, f.id, event.MaxLag)
	return out, err
}

// answer is a follower, or the refusal of a call, which was found before any write.
type answer struct {
	status event.Status
	txn.Refusal
}

// Follow makes a follower; see event.Store. A transaction that did not see it has written jobs
// before it checked that there is no follower, so it is among those that Follow waits for.
func (s *Follower) Follow(ctx context.Context, name string, filter event.Filter) (event.Status, error) {
	c := access.CallerOf(ctx)
	if err := sojourn.ValidName("follower", name); err != nil {
		return event.Status{}, err
	}
	if err := filter.Validate(); err != nil {
		return event.Status{}, err
	}
	if (filter.Queue != "" || filter.Kind != "") && !c.Allows(access.VerbRead, filter.Queue, filter.Kind) {
		return event.Status{}, &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to read all jobs of that queue and kind"}
	}
	text, err := jobrow.JSONText(filter)
	if err != nil {
		return event.Status{}, err
	}
	a, err := txn.Do(ctx, s.core, s.followOp, 1, follower{owner: c.Owner(), name: name, filter: filter, text: text, caller: c})
	if err == nil {
		err = a.Err
	}
	if err != nil {
		return event.Status{}, err
	}
	ended, err := s.upkeep.WaitForWriters(ctx)
	if err == nil && !ended {
		err = &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true,
			Message: "a transaction that has changed jobs is still open; its transitions may not be stored for the follower: repeat the call"}
	}
	return a.status, err
}

func follow(t *txn.Tx, f follower) (answer, error) {
	was, err := read(t, f.owner, f.name)
	if err != nil {
		return answer{}, err
	}
	if was == nil {
		n, err := t.ReadInt(qCount, f.owner)
		if err != nil {
			return answer{}, err
		}
		if n >= event.MaxFollowers {
			return answer{Refusal: txn.Refusal{Err: sojourn.Conflict("there are %d followers already, as many as there may be; delete one first", n)}}, nil
		}
		if err := t.Read(TextStart, func(r sqldb.Row) error { f.xid, f.id = r.Int(0), r.Int(1); return nil }); err != nil {
			return answer{}, err
		}
		if _, err := t.Write(qNewest); err != nil {
			return answer{}, err
		}
		if _, err := t.Write(qInsert, f.owner, f.name, f.text, f.xid, f.id, t.Now); err != nil {
			return answer{}, err // a unique violation, if another process was first, runs the transaction again
		}
		f.created, f.seen, was = t.Now, t.Now, &f
	}
	if was.text != f.text {
		return answer{Refusal: txn.Refusal{Err: sojourn.Conflict("follower %s has another filter; delete it first, or use another name", f.name)}}, nil
	}
	t.Core.SetFollowed(true)
	t.Transitions.On = true
	out, err := was.status(t, f.caller)
	return answer{status: out}, err
}

// Unfollow deletes a follower; see event.Store. The sweep deletes its events.
func (s *Follower) Unfollow(ctx context.Context, name string) error {
	a, err := txn.Do(ctx, s.core, s.deleteOp, 1, follower{owner: access.CallerOf(ctx).Owner(), name: name})
	if err == nil {
		err = a.Err
	}
	return err
}

func unfollow(t *txn.Tx, f follower) (txn.Refusal, error) {
	n, err := t.Write(qDelete, f.owner, f.name)
	if err != nil {
		return txn.Refusal{}, err
	}
	if n == 0 {
		return txn.Refusal{Err: notFound(f.name)}, nil
	}
	t.Events.After = append(t.Events.After, func() { t.Core.SetFollowed(false) }) // the next transaction checks
	return txn.Refusal{}, nil
}

// Followers lists followers; see event.Store.
func (s *Follower) Followers(ctx context.Context) (out []event.Status, err error) {
	c := access.CallerOf(ctx)
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		var found []*follower
		if err := t.Read(qAll, func(r sqldb.Row) error {
			f, err := scanFollower(r)
			found = append(found, f)
			return err
		}, c.Owner(), jobrow.Bit(c == nil)); err != nil {
			return err
		}
		for _, f := range found {
			status, err := f.status(t, c)
			if err != nil {
				return err
			}
			out = append(out, status)
		}
		return nil
	})
	return out, err
}

// matches reports whether a follower gets an event, by the grants of its reader.
func matches(f event.Filter, e *event.Event, c *access.Caller) bool {
	return (f.Queue == "" || f.Queue == e.Queue) && (f.Kind == "" || f.Kind == e.Kind) && (f.Key == "" || f.Key == e.Key) &&
		(f.Tag == "" || slices.Contains(e.Tags, f.Tag)) && (len(f.States) == 0 || slices.Contains(f.States, e.State)) && c.Allows(access.VerbRead, e.Queue, e.Kind)
}
