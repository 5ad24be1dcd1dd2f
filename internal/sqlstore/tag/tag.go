// Package tag keeps the rows by which jobs are found by their tags. The list of a job's tags is in
// sj_job; sj_tag has one row for each of them, with the time at which the job got it. A row is
// written and removed by the transaction that changes the list.
package tag

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// qAdd skips a row that exists: a job that has a tag already keeps the time at which it got it.
	qAdd = `insert into sj_tag (job, tagged_us, tag) rows($1 bigint, $2 bigint, $3 text) on conflict (tag, job) do nothing`
	// qKeep removes all rows of a job but those of some tags.
	qKeep = `delete from sj_tag where job = $1 and tag not in (texts($2))`
	// QForget removes all rows of a job.
	QForget = `delete from sj_tag where job = $1`
)

// Rows collects the rows of new jobs. The zero value has none.
type Rows struct{ columns *jobrow.Columns }

// Add adds the tags of a new job.
func (r *Rows) Add(t *txn.Tx, id sojourn.ID, tags []string) {
	if len(tags) > 0 && r.columns == nil {
		r.columns = jobrow.NewColumns(len(tags), 1, 1, 0)
	}
	for _, tag := range tags {
		r.columns.Row(int64(id)).Ints(t.Now).Strings(tag)
	}
}

// Write adds the rows to the write set.
func (r *Rows) Write(t *txn.Tx) {
	if r.columns != nil {
		t.AddColumns(qAdd, 0, "", r.columns)
	}
}

// Set gives a job exactly these tags.
func Set(t *txn.Tx, id sojourn.ID, tags []string) error {
	if _, err := t.Write(qKeep, int64(id), sqldb.Texts(tags)); err != nil {
		return err
	}
	var rows Rows
	rows.Add(t, id, tags)
	rows.Write(t)
	return nil
}
