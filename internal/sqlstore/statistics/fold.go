// Package statistics folds and reads what package jobstat has counted; see the public package
// statistics and docs/decisions/066-statistics.md. Package txn writes the changes.
package statistics

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// foldRows bounds the changes that one transaction adds up. A process folds after it has added
	// as many, and so bounds what a read decodes.
	foldRows = 1000
	// foldMost bounds the transactions of one sweep.
	foldMost = 20
	// forgetRows bounds the rows that one transaction deletes.
	forgetRows = 1000
)

// TextTake takes up to $1 changes. SQLite has this text, PostgreSQL one of its own.
const TextTake = `delete from sj_stat_change where rowid in (select rowid from sj_stat_change limit $1) returning day, events`

// AnyDue reads whether a sweep has something to do, with Oldest as $2 and $3.
const AnyDue = `(select count(*) from (select 1 from sj_stat_change limit 1) s) + (select count(*) from (select 1 from sj_stat where day < $2 limit 1) s)
		+ (select count(*) from (select 1 from sj_stat_histogram where day < $3 limit 1) s)`

const (
	qLock = `insert into sj_meta (name, value) values ('statistics', '') on conflict (name) do update set value = excluded.value`

	qStored     = `select s.day, s.queue, s.kind, s.data from sj_stat s /*, each*/ where s.day = each($1 bigint) and s.queue = each($2 text) and s.kind = each($3 text)`
	qHistograms = `select s.day, s.queue, s.kind, s.data from sj_stat_histogram s /*, each*/ where s.day = each($1 bigint) and s.queue = each($2 text) and s.kind = each($3 text)`
	qSet        = `insert into sj_stat (day, queue, kind, data) rows($1 bigint, $2 text, $3 text, $4 bytea) on conflict (day, queue, kind) do update set data = excluded.data`
	qSetShape   = `insert into sj_stat_histogram (day, queue, kind, data) rows($1 bigint, $2 text, $3 text, $4 bytea) on conflict (day, queue, kind) do update set data = excluded.data`

	qAnyOld      = `select (select count(*) from (select 1 from sj_stat where day < $1 limit 1) s) + (select count(*) from (select 1 from sj_stat_histogram where day < $2 limit 1) s)`
	qForget      = `delete from sj_stat where (day, queue, kind) in (select day, queue, kind from sj_stat where day < $1 order by day, queue, kind limit $2)`
	qForgetShape = `delete from sj_stat_histogram where (day, queue, kind) in (select day, queue, kind from sj_stat_histogram where day < $1 order by day, queue, kind limit $2)`
)

// Recorder folds and reads the statistics of a store. Safe for concurrent use.
type Recorder struct {
	core     *txn.Core
	foldOp   *txn.Op[int, bool]
	forgetOp *txn.Op[int, bool]
	added    atomic.Int64 // rows of this process since its last fold
	busy     atomic.Bool
}

// New makes the recorder of a store.
func New(c *txn.Core) *Recorder {
	return &Recorder{core: c, foldOp: txn.EachOp("fold statistics", groupcommit.Enqueue, fold), forgetOp: txn.EachOp("forget statistics", groupcommit.Enqueue, forget)}
}

// Oldest are the first days that are kept: of statistics and of histograms.
func Oldest(t *txn.Tx) ([]any, error) {
	today := jobstat.DayOf(t.Now)
	set, err := storeconfig.Read(t)
	days, histograms := set.Days(&t.Core.Cfg)
	return []any{today + 1 - int64(days), today + 1 - int64(histograms)}, err
}

// SweepStatistics adds up the changes that it finds, and deletes old days, in transactions of their
// own.
func (s *Recorder) SweepStatistics(ctx context.Context) error {
	if err := s.repeat(ctx, s.foldOp, foldRows); err != nil {
		return err
	}
	old := int64(0)
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		oldest, err := Oldest(t)
		if err == nil {
			old, err = t.ReadInt(qAnyOld, oldest...)
		}
		return err
	}); err != nil || old == 0 {
		return err
	}
	return s.repeat(ctx, s.forgetOp, forgetRows)
}

// repeat runs an op until it has nothing more to do, but not for ever.
func (s *Recorder) repeat(ctx context.Context, op *txn.Op[int, bool], rows int) error {
	for range foldMost {
		if more, err := txn.DoAlone(ctx, s.core, op, rows); err != nil || !more {
			return err
		}
	}
	return nil
}

// Note counts the rows that a committed transaction has added, and may start a fold in the
// background. If that fails, a sweep folds.
func (s *Recorder) Note(rows int) {
	if rows == 0 || s.added.Add(int64(rows)) < foldRows || s.busy.Swap(true) {
		return
	}
	s.added.Store(0)
	go func() {
		defer s.busy.Store(false)
		_, _ = txn.DoAlone(context.Background(), s.core, s.foldOp, 2*foldRows)
	}()
}

// lock makes transactions wait for each other that change sj_stat.
func lock(t *txn.Tx) error {
	if !t.Concurrent() {
		return nil
	}
	_, err := t.Write(qLock)
	return err
}

// fold adds up to limit changes up, and reports whether there may be more.
func fold(t *txn.Tx, limit int) (more bool, err error) {
	if err := lock(t); err != nil {
		return false, err
	}
	all := records{}
	n := 0
	if err := t.Read(TextTake, func(r sqldb.Row) error {
		n++
		return all.addEvents(r.Int(0), r.Bytes(1), nil)
	}, limit); err != nil || n == 0 {
		return false, err
	}
	t.Wrote = true
	t.Events.Dead += n
	keys := slices.SortedFunc(maps.Keys(all), jobstat.Key.Compare)
	days, queues, kinds := make(sqldb.Ints, len(keys)), make(sqldb.Texts, len(keys)), make(sqldb.Texts, len(keys))
	for i, k := range keys {
		days[i], queues[i], kinds[i] = k.Day, k.Queue, k.Kind
	}
	if err := t.ReadEach(qStored, all.scan((*jobstat.Record).AddData), days, queues, kinds); err != nil {
		return false, err
	}
	if err := t.ReadEach(qHistograms, all.scan((*jobstat.Record).AddHistograms), days, queues, kinds); err != nil {
		return false, err
	}
	data, shapes := jobrow.NewColumns(len(keys), 0, 2, 1), jobrow.NewColumns(len(keys), 0, 2, 1)
	for _, k := range keys {
		data.Row(k.Day).Strings(k.Queue, k.Kind).Bytes(all[k].Data())
		shapes.Row(k.Day).Strings(k.Queue, k.Kind).Bytes(all[k].Histograms())
	}
	t.AddColumns(qSet, 0, "", data)
	t.AddColumns(qSetShape, 0, "", shapes)
	return n == limit, nil
}

// forget deletes days that are kept no longer, and reports whether there may be more.
func forget(t *txn.Tx, limit int) (more bool, err error) {
	if err := lock(t); err != nil {
		return false, err
	}
	oldest, err := Oldest(t)
	if err != nil {
		return false, err
	}
	for i, q := range []string{qForget, qForgetShape} {
		n, err := t.Write(q, oldest[i], limit)
		if err != nil {
			return false, err
		}
		more = more || n == int64(limit)
	}
	return more, nil
}

// records are the statistics of several keys.
type records map[jobstat.Key]*jobstat.Record

// of returns the record of a key.
func (all records) of(k jobstat.Key) *jobstat.Record {
	r := all[k]
	if r == nil {
		r = &jobstat.Record{}
		all[k] = r
	}
	return r
}

// addEvents adds the changes of one transaction. key chooses where they belong; nil: to their own
// key.
func (all records) addEvents(day int64, events []byte, key func(jobstat.Key) (jobstat.Key, bool)) error {
	return jobstat.AddEvents(events, func(queue, kind string) *jobstat.Record {
		k, ok := jobstat.Key{Day: day, Queue: queue, Kind: kind}, true
		if key != nil {
			k, ok = key(k)
		}
		if !ok {
			return nil
		}
		return all.of(k)
	})
}

// scan returns a function that adds stored data of known keys.
func (all records) scan(add func(*jobstat.Record, []byte) error) func(sqldb.Row) error {
	return func(r sqldb.Row) error {
		return add(all.of(jobstat.Key{Day: r.Int(0), Queue: r.Text(1), Kind: r.Text(2)}), r.Bytes(3))
	}
}
