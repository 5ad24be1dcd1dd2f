// Package jobevent collects the transitions of jobs in one transaction, for the followers of events
// (docs/decisions/067-events.md). It knows no database.
package jobevent

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Statements of package txn.
const (
	// TextAdd adds a transition, unless the last follower is gone. SQLite has this text, PostgreSQL
	// one of its own.
	TextAdd = `insert into sj_event (xid, job, at_us, from_state, state, generation, attempt, queue, kind, key, tags)
		select 0, $1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce((select tags from sj_job where id = $1), '') where exists (select 1 from sj_follower)`
	// TextUnfollowed changes a row if nobody follows. On SQLite only a change counts; PostgreSQL,
	// where it would lock the row, has a text of its own that reads.
	TextUnfollowed = `update sj_meta set value = value where name = 'instance' and not exists (select 1 from sj_follower)`
	AnyFollower    = `select count(*) from (select 1 from sj_follower limit 1) f`
	LockFollower   = `select 1 from sj_meta where name = 'instance' for share` // only PostgreSQL has it

	// Raced says why a transaction is repeated that has not written its transitions.
	Raced = "somebody follows the events now"
)

// Changes are the transitions of a transaction that are not written yet. The zero value is empty.
type Changes struct {
	On   bool // there may be followers: transitions are collected, and not only noticed
	Seen bool // there was a transition
	rows []transition
}

// transition is one change of state of a job.
type transition struct {
	job              sojourn.ID
	at               int64 // microseconds
	from, to         sojourn.State
	generation       int32
	attempt          int32
	queue, kind, key string
}

// Stored notes a new or redriven job. Of one that a claim of the same transaction has started it
// notes both transitions.
func (c *Changes) Stored(l *jobrow.Row, started bool) {
	c.Seen = true
	if !c.On {
		return
	}
	first := l.State
	if started {
		first = sojourn.Ready
	}
	c.add(l, 0, first)
	if started {
		c.rows[len(c.rows)-1].attempt = 0
		c.add(l, sojourn.Ready, l.State)
	}
}

// Moved notes a transition of a row at a time in microseconds: was became l. The same state with
// another epoch is one too.
func (c *Changes) Moved(was, l *jobrow.Row, at int64) {
	if was.State == l.State && was.Epoch == l.Epoch {
		return
	}
	c.Seen = true
	if c.On {
		c.add(l, was.State, l.State)
		c.rows[len(c.rows)-1].at = at
	}
}

// Started notes a ready row that a claim has started.
func (c *Changes) Started(l *jobrow.Row) {
	c.Seen = true
	if c.On {
		c.add(l, sojourn.Ready, l.State)
	}
}

func (c *Changes) add(l *jobrow.Row, from, to sojourn.State) {
	c.rows = append(c.rows, transition{l.ID, l.UpdatedAt, from, to, l.Generation, l.Attempt, l.Queue, l.Kind, l.Key})
}

// Take empties the changes and returns their rows: job, time, state before, state, generation,
// attempt, queue, kind and key. It is nil if there are none.
func (c *Changes) Take() *jobrow.Columns {
	rows := c.rows
	*c = Changes{On: c.On}
	if len(rows) == 0 {
		return nil
	}
	out := jobrow.NewColumns(len(rows), 5, 3, 0)
	for _, r := range rows {
		out.Row(int64(r.job)).Ints(r.at, int64(r.from), int64(r.to), int64(r.generation), int64(r.attempt)).Strings(r.queue, r.kind, r.key)
	}
	return out
}
