// Package errordetail stores and reads the JSON details of errors. Each belongs to an entry of a
// job's history and has its number, also if the entry is the last one of a final job, which stands
// in sj_final. A transaction without details has no statement of this package.
package errordetail

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qAdd  = `insert into sj_error_detail (job, seq, detail) rows($1 bigint, $2 bigint, $3 bytea)`
	qTrim = `delete from sj_error_detail where job = $1 and seq > 1 and seq <= $2`
)

// QForget deletes the details of a job that is deleted.
const QForget = `delete from sj_error_detail where job = $1`

// Add adds the detail of the newest entry of a job's history to the write set. Details have the
// bound of the history, sojourn.MaxHistory.
func Add(t *txn.Tx, l *jobrow.Row, detail []byte) {
	s := jobrow.NewColumns(1, 1, 0, 1)
	s.Row(int64(l.ID)).Ints(int64(l.History)).Bytes(detail)
	t.AddColumns(qAdd, 0, "", s)
	if old := int64(l.History) - sojourn.MaxHistory; old > 1 {
		t.Add(qTrim, 0, "", int64(l.ID), old)
	}
}

const (
	qOfHistory = `select seq, detail from sj_error_detail where job = $1 and seq > $2 and seq <= $3`
	qOfFinal   = `select d.job, d.detail from sj_final f join sj_error_detail d on d.job = f.id and d.seq = f.history where f.id in (ints($1)) and f.outcome <> ''`
	qOfLive    = `select job, detail from sj_error_detail /*, each*/ where job = each($1 bigint) and seq = each($2 bigint)`
	qOfGroup   = `select d.detail from sj_error_detail d where d.job = $1 and d.seq = coalesce((select max(seq) from sj_history where job = $1 and failure = $2), 0)
		union all select d.detail from sj_final f join sj_error_detail d on d.job = f.id and d.seq = f.history where f.id = $1 and f.failure = $2`
)

// OfHistory sets the details of consecutive entries of one job's history.
func OfHistory(t *txn.Tx, id sojourn.ID, entries []sojourn.HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	details := map[int32][]byte{}
	err := t.Read(qOfHistory, func(r sqldb.Row) error { details[int32(r.Int(0))] = r.Bytes(1); return nil },
		int64(id), int64(entries[0].Seq)-1, int64(entries[len(entries)-1].Seq))
	for i := range entries {
		entries[i].ErrorDetail = details[entries[i].Seq]
	}
	return err
}

// OfJobs sets the details of the last errors of jobs. seqs has the number of the entry with the
// last error of each job that is not final.
func OfJobs(t *txn.Tx, jobs map[sojourn.ID]*sojourn.Job, seqs map[sojourn.ID]int64) error {
	var final, live, entries sqldb.Ints
	for id, j := range jobs {
		if seq := seqs[id]; seq > 0 {
			live, entries = append(live, int64(id)), append(entries, seq)
		} else if j.State.Final() {
			final = append(final, int64(id))
		}
	}
	set := func(r sqldb.Row) error { jobs[sojourn.ID(r.Int(0))].ErrorDetail = r.Bytes(1); return nil }
	if len(final) > 0 {
		if err := t.Read(qOfFinal, set, final); err != nil {
			return err
		}
	}
	if len(live) == 0 {
		return nil
	}
	return t.ReadEach(qOfLive, set, live, entries)
}

// OfGroup returns the detail of the last error of a job with one cause: a failure group.
func OfGroup(t *txn.Tx, job, group int64) (detail []byte, err error) {
	err = t.Read(qOfGroup, func(r sqldb.Row) error { detail = r.Bytes(0); return nil }, job, group)
	return detail, err
}
