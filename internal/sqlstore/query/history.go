package query

import (
	"cmp"
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checkpointsize"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/joblog"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qHistory = `select ` + jobview.HistoryColumns + ` from sj_history where job = $1 and seq > $2
		union all select ` + jobview.LastColumns + ` from sj_final where id = $1 and outcome <> '' and history > $2 order by seq limit $3`
)

// History returns the history of a job; see driver.Store.
func (s *Reader) History(ctx context.Context, id sojourn.ID, after int32, limit int) (out []sojourn.HistoryEntry, err error) {
	if after < 0 {
		return nil, sojourn.Invalid("after", "%d is negative", after)
	}
	if err := sojourn.ValidLimit(limit); err != nil {
		return nil, err
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		last := after
		if err := ofJob(t, id, qHistory, func(r sqldb.Row) error {
			a := jobview.ScanHistory(r)
			a.Dropped, last = a.Seq-last-1, a.Seq
			out = append(out, a)
			return nil
		}, int64(after), cmp.Or(limit, 100)); err != nil {
			return err
		}
		if err := checkpointsize.OfHistory(t, id, out); err != nil {
			return err
		}
		return errordetail.OfHistory(t, id, out)
	})
	return out, err
}

// Log returns a job's own log; see driver.Store.
func (s *Reader) Log(ctx context.Context, id sojourn.ID) (out []sojourn.LogLine, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		return ofJob(t, id, joblog.Query, func(r sqldb.Row) error { out = append(out, joblog.Scan(r)); return nil })
	})
	return out, err
}

// ofJob runs a query about a job that must exist.
func ofJob(t *txn.Tx, id sojourn.ID, q string, each func(sqldb.Row) error, more ...any) error {
	n, err := t.ReadInt(`select count(*) from sj_job where id = $1`, int64(id))
	if err == nil && n == 0 {
		err = sojourn.NotFound("no job has the id %d", id)
	}
	if err != nil {
		return err
	}
	return t.Read(q, each, append([]any{int64(id)}, more...)...)
}
