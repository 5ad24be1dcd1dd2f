package sqlstore

import (
	"cmp"
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	qHistory = `select ` + historyColumns + ` from sj_history where job = $1 and seq > $2
		union all select ` + lastColumns + ` from sj_final where id = $1 and outcome <> '' and history > $2 order by seq limit $3`
	qLog = `select at_us, attempt, level, text, dropped from sj_log where job = $1 order by seq`
)

// History returns the history of a job; see driver.Store.
func (s *Store) History(ctx context.Context, id sojourn.ID, f sojourn.HistoryFilter) (out []sojourn.Attempt, err error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(t *tx) error {
		out = nil
		last := f.After
		return t.ofJob(id, qHistory, func(r sqldb.Row) error {
			a := scanHistory(r)
			a.Dropped, last = a.Seq-last-1, a.Seq
			out = append(out, a)
			return nil
		}, int64(f.After), cmp.Or(f.Limit, 100))
	})
	return out, err
}

// Log returns a job's own log; see driver.Store.
func (s *Store) Log(ctx context.Context, id sojourn.ID) (out []sojourn.LogLine, err error) {
	err = s.view(ctx, func(t *tx) error {
		out = nil
		return t.ofJob(id, qLog, func(r sqldb.Row) error {
			out = append(out, sojourn.LogLine{At: at(r.Int(0)), Attempt: int32(r.Int(1)), Level: r.Text(2), Text: r.Text(3), Dropped: r.Int(4)})
			return nil
		})
	})
	return out, err
}

// ofJob runs a query about a job that must exist.
func (t *tx) ofJob(id sojourn.ID, q string, each func(sqldb.Row) error, more ...any) error {
	n, err := t.num(`select count(*) from sj_job where id = $1`, int64(id))
	if err == nil && n == 0 {
		err = sojourn.NotFound("no job has the id %d", id)
	}
	if err != nil {
		return err
	}
	return t.query(q, each, append([]any{int64(id)}, more...)...)
}
