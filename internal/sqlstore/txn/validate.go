package txn

import (
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
)

// Validators validate the cached reads of a transaction, in its last message. First runs before the
// writes. Last checks settings after the writes, because a later reindexing waits for these writes
// (see AssumeSettings); a transaction that only ends steps has none.
type Validators struct{ First, Last Statement }

// StaleCache is what Raced says when a validator fails.
const StaleCache = "a cached read is stale"

// OfQueues reports whether there are validators of queues.
func (q *Validators) OfQueues() bool { return q != nil && q.Last.Wanted > 0 }

// Validators. Each returns a row, or QValidateQueues one for each queue, if what was cached holds.
const (
	// TextValidate is the validator of enqueues, for Dialect.Over: the clock lies between two
	// times, no job is due at another, queues have no ready jobs of kinds, a named worker is not
	// drained and has the last claim of that number, and no settings hold all queues back.
	TextValidate = `select 1 where the clock is between $1 and $2, nothing is due at $3, and nothing is ready in (texts($4)) of (texts($5)) for $6 after $7`
	// TextValidateClock is the validator of a transaction that only ends steps, for Dialect.Over.
	TextValidateClock = `select 1 where the clock is between $1 and $2`
	// QValidateQueues validates queues: settings, state of their gates, layout, and that neither a
	// pause nor a gate holds them back.
	QValidateQueues = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.settings = each($2 text) and q.flow = each($3 text)
	and q.shape = each($4 bigint) and q.paused + q.gated = 0`
)

// UseCachedRows takes the rows of a group from the row cache and predicts its clock, and reports
// whether it could: all calls must be finishes whose rows are cached. They need no other reads, so
// the clock is all that is validated. A failure disables nothing, because it is no evidence about
// queues.
func (t *Tx) UseCachedRows(group []Call) bool {
	if len(group) == 0 || slices.ContainsFunc(group, func(c Call) bool { return !c.leased() }) || !t.cachedLeases(group) {
		return false
	}
	now, ok := t.Core.Predict()
	if ok {
		t.Reading = now
		from, to := t.Core.ClockBounds(now.Now)
		t.Cache.Validators = &Validators{First: Statement{sqldb.Statement{Text: TextValidateClock, Args: []any{from, to}, Wanted: 1}, StaleCache}}
	}
	return ok
}

// ClockBounds returns the bounds of the server's clock for a predicted time, in microseconds. A
// driven clock has none.
func (s *Core) ClockBounds(now int64) (from, to int64) {
	if s.Cfg.Driven {
		return math.MinInt64, math.MaxInt64
	}
	return now - clock.Tolerance.Microseconds(), now + clock.Tolerance.Microseconds()
}

// Validators of assumed settings: the column shape is the layout of a queue.
const (
	qSameShapes = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.shape = each($2 bigint)`
	qShapes     = `select name, shape from sj_queue where name in (texts($1))`
)

// AssumeSettings records that the transaction writes rows by settings of a queue that it has read
// without a lock. layout is that of the QueueRow. The end of the transaction validates it after
// these writes: if the settings have changed, the transaction is repeated. If not, the reindexing
// after a later change waits for these writes (docs/decisions/037).
func (t *Tx) AssumeSettings(queue string, layout int64) {
	if !t.Concurrent() {
		return
	}
	if t.Queues.assumed == nil {
		t.Queues.assumed = map[string]int64{}
	}
	if t.Optimistic && t.Core.Spoils("assumed layout") {
		layout++
	}
	t.Queues.assumed[queue] = layout
}

// verifyAssumed validates the assumed settings, where the commit is not a message of statements.
func (t *Tx) verifyAssumed() error {
	if len(t.Queues.assumed) == 0 || !t.Wrote {
		return nil
	}
	names := make(sqldb.Texts, 0, len(t.Queues.assumed))
	for name := range t.Queues.assumed {
		names = append(names, name)
	}
	if err := t.Read(qShapes, func(r sqldb.Row) error {
		if layout, ok := t.Queues.assumed[r.Text(0)]; ok && layout == r.Int(1) {
			delete(t.Queues.assumed, r.Text(0))
		}
		return nil
	}, names); err != nil {
		return err
	}
	for name := range t.Queues.assumed {
		return Raced("the settings of queue " + name + " have changed meanwhile")
	}
	return nil
}

// stillAssumed returns a validator of the assumed settings, for the last message.
func (t *Tx) stillAssumed() []Statement {
	if len(t.Queues.assumed) == 0 {
		return nil
	}
	var names sqldb.Texts
	var layouts sqldb.Ints
	for name, layout := range t.Queues.assumed {
		names, layouts = append(names, name), append(layouts, layout)
	}
	return []Statement{{sqldb.Statement{Text: qSameShapes, Rows: []sqldb.Column{names, layouts}, Wanted: int64(len(names))}, "settings have changed meanwhile"}}
}
