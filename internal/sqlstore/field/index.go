package field

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonfield"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qBegin = `insert into sj_index (queue, paths, pass, finished_us, job, mark_us) values ($1, $2, 0, 0, 0, 0)
		on conflict (queue) do update set paths = excluded.paths, pass = 0, finished_us = 0, job = 0, mark_us = 0`
	qIndex   = `select queue, paths, pass, finished_us, job, mark_us from sj_index where queue = $1`
	qIndexes = `select queue, paths, pass, finished_us, job, mark_us from sj_index order by queue`
	qSetPass = `update sj_index set pass = $1, finished_us = $2, job = $3, mark_us = $4 where queue = $5`
	// QDrop forgets the index of a queue without jobs.
	QDrop      = `delete from sj_index where queue = $1`
	qDropRows  = `delete from sj_field where (path, value, job, queue) in (select path, value, job, queue from sj_field where queue = $1 order by path, value, job limit $2)`
	qFinals    = `select id, finished_us from sj_final where queue = $1 and state = $2 and (finished_us, id) > ($3, $4) order by finished_us, id limit $5`
	qNewFinals = `select finished_us from sj_final where queue = $1 and state = 7 and finished_us > $2 and finished_us <= $3 order by finished_us limit $4`
	qEnded     = `select id from sj_final where queue = $1 and state = 7 and finished_us > $2 and finished_us <= $3`
	qStillHere = `select id from sj_final where queue = $1 and id in (ints($2))`
	qMark      = `update sj_index set mark_us = $1 where queue = $2 and mark_us = $3 and pass = 10`
	// AnyResults finds whether a queue indexes results.
	AnyResults = `select count(*) from (select 1 from sj_index where mark_us > 0 limit 1) i`
)

// complete is the pass of an index that is built.
const complete = 10

// Lag is how far the index of results stays behind, in microseconds. A transaction that has read
// the clock before it has written a final row becomes visible within it, or is known as a writer.
const Lag = 10_000_000

// sliceRows is the number of jobs that are indexed in one transaction.
const sliceRows = 500

// Index is the row of a queue's index.
type Index struct {
	Queue    string
	Paths    []string
	pass     sojourn.State // of final jobs, 0 before and complete after those
	finished int64         // up to here and
	job      int64         // to this job they are read
	Mark     int64         // results of jobs that ended later are not indexed; 0: those of none are
}

func (x *Index) scan(r sqldb.Row) error {
	*x = Index{Queue: r.Text(0), Paths: split(r.Text(1)), pass: sojourn.State(r.Int(2)), finished: r.Int(3), job: r.Int(4), Mark: r.Int(5)}
	return nil
}

// Complete reports whether all jobs of the queue are indexed, but for results after the mark.
func (x *Index) Complete() bool { return x.pass == complete }

// Results reports whether one of the paths is of results.
func (x *Index) Results() bool {
	return slices.ContainsFunc(x.Paths, func(p string) bool { return jsonfield.Root(p) == jsonfield.Result })
}

// Paths are stored with a space between two, which no path has.
func join(paths []string) string { return strings.Join(paths, " ") }
func split(text string) []string { return strings.Fields(text) }

// Of reads the index of a queue; found is false if it has none.
func Of(t *txn.Tx, queue string) (x Index, found bool, err error) {
	err = t.Read(qIndex, func(r sqldb.Row) error { found = true; return x.scan(r) }, queue)
	return x, found, err
}

// All reads the indexes of all queues.
func All(t *txn.Tx) (all []Index, err error) {
	err = t.Read(qIndexes, func(r sqldb.Row) error {
		var x Index
		all = append(all, x)
		return all[len(all)-1].scan(r)
	})
	return all, err
}

// Begin makes the index of a queue incomplete, if a change of its settings changes it. The reindex
// that follows this change calls Set for its live jobs, then Build. was and now are their paths.
func Begin(t *txn.Tx, queue string, was, now []string) error {
	if slices.Equal(was, now) {
		return nil
	}
	_, err := t.Write(qBegin, queue, join(now))
	return err
}

// EnterFinals begins the pass through the final jobs of a queue, whose live jobs are indexed. It
// reports false if the queue has no index to build.
func EnterFinals(t *txn.Tx, queue string) (bool, error) {
	x, found, err := Of(t, queue)
	if err != nil || !found || x.Complete() {
		return false, err
	}
	mark := int64(0)
	if x.Results() {
		mark = max(t.Now-Lag, 1)
	}
	return true, x.save(t, sojourn.Completed, 0, 0, mark)
}

func (x *Index) save(t *txn.Tx, pass sojourn.State, finished, job, mark int64) error {
	_, err := t.Write(qSetPass, int64(pass), finished, job, mark, x.Queue)
	return err
}

// Begun reports whether Build has read final jobs of a queue. Before its first call all
// transactions must have ended that had written final rows when EnterFinals was committed.
func Begun(t *txn.Tx, queue string) (bool, error) {
	x, found, err := Of(t, queue)
	return !found || x.pass != sojourn.Completed || x.finished > 0, err
}

// Build indexes the next final jobs of a queue, or removes rows of an index without paths. It
// reports whether there are no more.
func Build(t *txn.Tx, queue string) (done bool, err error) {
	x, found, err := Of(t, queue)
	if err != nil || !found || x.Complete() {
		return true, err
	}
	if len(x.Paths) == 0 {
		n, err := t.Write(qDropRows, queue, sliceRows)
		if err == nil && n < sliceRows {
			_, err = t.Write(QDrop, queue)
		}
		return n < sliceRows, err
	}
	var ids sqldb.Ints
	finished, job := x.finished, x.job
	if err := t.Read(qFinals, func(r sqldb.Row) error {
		job, finished = r.Int(0), r.Int(1)
		ids = append(ids, job)
		return nil
	}, queue, int64(x.pass), x.finished, x.job, sliceRows); err != nil {
		return false, err
	}
	if err := x.setFinals(t, ids); err != nil {
		return false, err
	}
	switch {
	case len(ids) == sliceRows:
		return false, x.save(t, x.pass, finished, job, x.Mark)
	case x.pass < sojourn.Cancelled:
		return false, x.save(t, x.pass+1, 0, 0, x.Mark)
	}
	return true, x.save(t, complete, 0, 0, x.Mark)
}

// setFinals indexes final jobs, if they are still in the queue. It locks them, so that a redrive
// comes before or after it.
func (x *Index) setFinals(t *txn.Tx, ids sqldb.Ints) error {
	slices.Sort(ids)
	if err := t.Lock(txn.QLockFinal, ids); err != nil {
		return err
	}
	var here []int64
	if err := t.Read(qStillHere, func(r sqldb.Row) error { here = append(here, r.Int(0)); return nil }, x.Queue, ids); err != nil {
		return err
	}
	return Set(t, x.Queue, x.Paths, here...)
}

// Marks reads the queues that index results and are behind a time, and the marks to which Advance
// is to bring them. Before Advance, all transactions must have ended that had written final rows
// when that time was Lag ago.
func Marks(t *txn.Tx, to int64) (all []Index, err error) {
	read, err := All(t)
	for _, x := range read {
		switch {
		case err != nil || x.Mark == 0 || !x.Complete():
			continue
		case x.Mark > t.Now: // the clock was set back
			x.finished = to
		default:
			x.finished = to
			// The time of the last of the next jobs: jobs that ended at one time go together.
			last, n := int64(0), 0
			if err = t.Read(qNewFinals, func(r sqldb.Row) error { last, n = r.Int(0), n+1; return nil }, x.Queue, x.Mark, to, sliceRows); err != nil || n == 0 {
				continue
			}
			if n == sliceRows {
				x.finished = last
			}
		}
		all = append(all, x)
	}
	return all, err
}

// Advance indexes the results of the jobs that have ended up to a mark of Marks, unless another
// process has.
func (x *Index) Advance(t *txn.Tx) error {
	var ids sqldb.Ints
	if err := t.Read(qEnded, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, x.Queue, x.Mark, x.finished); err != nil {
		return err
	}
	now, found, err := Of(t, x.Queue)
	if err != nil || !found || !now.Complete() || now.Mark != x.Mark {
		return err
	}
	if err := now.setFinals(t, ids); err != nil {
		return err
	}
	n, err := t.Write(qMark, x.finished, x.Queue, x.Mark)
	if err == nil && n == 0 {
		err = txn.Raced("the index of queue " + x.Queue + " is changed by another process")
	}
	return err
}

// Check compares the rows of jobs in a slice of ids with their JSON, and reports each difference.
func Check(t *txn.Tx, after, to int64, wrong func(job int64, what string)) error {
	all, err := All(t)
	if err != nil || len(all) == 0 {
		return err
	}
	indexes := map[string]*Index{}
	for i := range all {
		if all[i].Complete() {
			indexes[all[i].Queue] = &all[i]
		}
	}
	rows := map[int64]map[string]string{}
	if err := t.Read(qRowsOf, func(r sqldb.Row) error {
		if rows[r.Int(0)] == nil {
			rows[r.Int(0)] = map[string]string{}
		}
		rows[r.Int(0)][r.Text(1)] = r.Text(2)
		return nil
	}, after, to); err != nil {
		return err
	}
	return t.Read(qToCheck, func(r sqldb.Row) error {
		x := indexes[r.Text(1)]
		if x == nil {
			return nil
		}
		s := jsonfield.Source{Args: r.Bytes(2), Meta: []byte(r.Text(3)), Result: r.Bytes(4)}
		has, ended := rows[r.Int(0)], r.Int(5)
		paths := x.Paths
		if ended > x.Mark { // the result is not indexed yet, but may be from an earlier generation
			paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return jsonfield.Root(p) == jsonfield.Result })
		}
		s.Values(paths, func(path, value string) {
			if has[path] != value {
				wrong(r.Int(0), "has "+value+" at "+path+", and the index has "+has[path])
			}
			delete(has, path)
		})
		for _, path := range paths {
			if v, more := has[path]; more {
				wrong(r.Int(0), "has nothing at "+path+", and the index has "+v)
			}
		}
		return nil
	}, after, to)
}

const (
	qRowsOf = `select d.job, d.path, d.value from sj_field d left join sj_live l on l.id = d.job left join sj_final f on f.id = d.job
		where $1 < d.job and d.job <= $2 and d.queue = coalesce(l.queue, f.queue)`
	qToCheck = `select j.id, coalesce(l.queue, f.queue, ''), j.args, j.meta, f.result, coalesce(f.finished_us, 0) from sj_job j
		left join sj_live l on l.id = j.id left join sj_final f on f.id = j.id where $1 < j.id and j.id <= $2 and exists (select 1 from sj_index i where i.queue = coalesce(l.queue, f.queue))`
)
