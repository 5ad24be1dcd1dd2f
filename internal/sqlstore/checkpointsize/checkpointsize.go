// Package checkpointsize stores and reads the sizes of checkpoints at the ends of steps. Each
// belongs to an entry of a job's history and has its number, as the details of errors do. They are
// apart from the history, because few jobs have a checkpoint: a step of a job without data has no
// statement of this package.
package checkpointsize

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// qAdd measures the checkpoint in the database: the transaction has not read it.
	qAdd  = `insert into sj_checkpoint (job, seq, bytes) select d.job, cast($2 as bigint), length(d.checkpoint) from sj_data d where d.job = $1 and length(d.checkpoint) > 0`
	qTrim = `delete from sj_checkpoint where job = $1 and seq > 1 and seq <= $2`
	qOf   = `select seq, bytes from sj_checkpoint where job = $1 and seq > $2 and seq <= $3`
	// QForget deletes the sizes of a job that is deleted.
	QForget = `delete from sj_checkpoint where job = $1`
)

// Note adds the size of the checkpoint to the newest entry of a job's history, in the write set.
// The bound is that of the history, sojourn.MaxHistory.
func Note(t *txn.Tx, l *jobrow.Row) {
	t.Add(qAdd, 0, "", int64(l.ID), int64(l.History))
	if old := int64(l.History) - sojourn.MaxHistory; old > 1 {
		t.Add(qTrim, 0, "", int64(l.ID), old)
	}
}

// OfHistory sets the sizes of consecutive entries of one job's history.
func OfHistory(t *txn.Tx, id sojourn.ID, entries []sojourn.HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	sizes := map[int32]int64{}
	err := t.Read(qOf, func(r sqldb.Row) error { sizes[int32(r.Int(0))] = r.Int(1); return nil },
		int64(id), int64(entries[0].Seq)-1, int64(entries[len(entries)-1].Seq))
	for i := range entries {
		entries[i].CheckpointBytes = sizes[entries[i].Seq]
	}
	return err
}
