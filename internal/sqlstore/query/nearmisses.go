package query

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/nearkey"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qNearJobs      = `select key, job from sj_key where kind = $1 and key in (texts($2)) and live = 1 order by key limit $3`
	qNearEarly     = `select key, seq from sj_response where kind = $1 and key in (texts($2)) and outcome = 2 and job = 0 order by seq desc limit $3`
	qNearUnmatched = `select key, seq from sj_response where kind = $1 and key in (texts($2)) and outcome > 2 and outcome = 6 order by seq desc limit $3`
)

// NearMisses looks up the keys that differ little from key; see sojourn.Store.
func (s *Reader) NearMisses(ctx context.Context, kind, key string) (out []sojourn.NearMiss, err error) {
	if err := sojourn.ValidName("kind", kind); err != nil {
		return nil, err
	}
	if err := sojourn.ValidKey("key", key); err != nil {
		return nil, err
	}
	near := sqldb.Texts(nearkey.Similar(key))
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		if err := t.Read(qNearJobs, func(r sqldb.Row) error {
			out = append(out, sojourn.NearMiss{Key: r.Text(0), Job: sojourn.ID(r.Int(1))})
			return nil
		}, kind, near, sojourn.MaxNearMisses); err != nil {
			return err
		}
		for _, q := range []string{qNearEarly, qNearUnmatched} {
			if err := t.Read(q, func(r sqldb.Row) error {
				out = append(out, sojourn.NearMiss{Key: r.Text(0), Seq: r.Int(1)})
				return nil
			}, kind, near, sojourn.MaxNearMisses); err != nil {
				return err
			}
		}
		return nil
	})
	return out[:min(len(out), sojourn.MaxNearMisses)], err
}
