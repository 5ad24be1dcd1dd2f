// Package field keeps the rows by which jobs are found by values of their JSON. Each queue indexes
// the paths that its settings declare (sojourn.QueueSettings.Index); sj_field has a row for each
// value, sj_index a row for each queue with an index. Values of args and meta are written by the
// transaction that stores or changes the job, those of results by the sweep.
//
// A row counts only while its job is in the queue. So a job that leaves a queue keeps its rows, and
// no step of a job reads the settings of the queue that it leaves. They are replaced when the job
// enters a queue with an index, and go with the job (docs/decisions/076).
package field

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonfield"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qAdd = `insert into sj_field (job, queue, path, value) rows($1 bigint, $2 text, $3 text, $4 text) on conflict (queue, path, value, job) do nothing`
	// QForget removes all rows of a job.
	QForget = `delete from sj_field where job = $1`
	// AnyRows finds whether there are rows.
	AnyRows   = `select count(*) from (select 1 from sj_field where job > 0 limit 1) d`
	qForget   = `delete from sj_field where job in (ints($1))`
	qContents = `select j.id, j.args, j.meta, f.result from sj_job j left join sj_final f on f.id = j.id where j.id in (ints($1))`
)

// Rows collects rows. The zero value has none.
type Rows struct{ columns *jobrow.Columns }

// Add adds the values of a job at those paths. With no paths it costs nothing.
func (r *Rows) Add(queue string, paths []string, id sojourn.ID, s jsonfield.Source) {
	if len(paths) == 0 {
		return
	}
	s.Values(paths, func(path, value string) {
		if r.columns == nil {
			r.columns = jobrow.NewColumns(len(paths), 0, 3, 0)
		}
		r.columns.Row(int64(id)).Strings(queue, path, value)
	})
}

// Write adds the rows to the write set.
func (r *Rows) Write(t *txn.Tx) {
	if r.columns != nil {
		t.AddColumns(qAdd, 0, "", r.columns)
	}
}

// SourceOf is the JSON of a job that is stored now. Its meta are given as they are stored. The
// content type does not matter: bytes that are not JSON have no values.
func SourceOf(j *sojourn.Job, meta string) jsonfield.Source {
	return jsonfield.Source{Args: j.Args, Meta: []byte(meta)}
}

// Set replaces the rows of jobs by those of a queue in which they are. The jobs are locked, or
// nobody else knows them yet. It writes nothing if the queue has no index.
func Set(t *txn.Tx, queue string, paths []string, ids ...int64) error {
	if len(paths) == 0 || len(ids) == 0 {
		return nil
	}
	if _, err := t.Write(qForget, sqldb.Ints(ids)); err != nil {
		return err
	}
	rows, err := read(t, queue, paths, ids)
	if err == nil {
		rows.Write(t)
	}
	return err
}

// read collects the rows of jobs.
func read(t *txn.Tx, queue string, paths []string, ids sqldb.Ints) (rows Rows, err error) {
	err = t.Read(qContents, func(r sqldb.Row) error {
		rows.Add(queue, paths, sojourn.ID(r.Int(0)), jsonfield.Source{Args: r.Bytes(1), Meta: []byte(r.Text(2)), Result: r.Bytes(3)})
		return nil
	}, ids)
	return rows, err
}

// Moved is Set for a job that has entered another queue, whose settings were read to save its row.
func Moved(t *txn.Tx, l *jobrow.Row) error {
	return Set(t, l.Queue, t.Loaded.Queues[l.Queue].Index, int64(l.ID))
}
