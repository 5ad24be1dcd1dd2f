package upkeep

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// idsSkipped is how many ids a restored store skips, and idsSkippedPerSecond how many more for
	// each second since its clock was last stored: far more than one database allocates.
	idsSkipped          = 10_000_000
	idsSkippedPerSecond = 1_000_000
	// epochsSkipped is more than the number of claims of a job in one generation.
	epochsSkipped = 1_000_000
)

const (
	qLiveEpochs    = `update sj_live set epoch = epoch + $1`
	qFinalEpochs   = `update sj_final set epoch = epoch + $1`
	qForgetWorkers = `delete from sj_worker where worker <> ''`
)

// BeginAnew checks a store that was restored from an older copy and advances its ids and epochs
// beyond all that were allocated since. next is the lowest id that is certainly free, as far as the
// caller knows. It returns the next id. No other process may use the store.
func (s *Maintainer) BeginAnew(ctx context.Context, next int64) (sojourn.ID, error) {
	found, err := s.reader.Check(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range found {
		if v.Check != query.CheckOverdue { // many jobs have become due since the copy was made
			return 0, &sojourn.Error{Code: sojourn.CodeInvalid, Field: "store", Index: -1,
				Message: fmt.Sprintf("sojourn doctor finds %q broken in the copy: %s. It was not put in place", v.Check, v.Detail)}
		}
	}
	err = s.core.DB.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.core.Begin(c)
		if err != nil {
			return err
		}
		for _, q := range []string{qLiveEpochs, qFinalEpochs} {
			if _, err := t.Write(q, epochsSkipped); err != nil {
				return err
			}
		}
		if _, err := t.Write(qForgetWorkers); err != nil {
			return err
		}
		var stored int64
		if err := t.Read(txn.QMeta, func(r sqldb.Row) error { stored = clock.ParseRecord(r.Text(0)).Mark; return nil }, clock.MetaName); err != nil {
			return err
		}
		id, err := t.NextID()
		if err != nil {
			return err
		}
		elapsed := int64(0)
		if stored > 0 {
			elapsed = max(0, t.Now-stored) / 1_000_000
		}
		next = max(next, id+idsSkipped+elapsed*idsSkippedPerSecond)
		_, err = t.Write(txn.QSetMeta, "next_id", strconv.FormatInt(next, 10))
		return err
	})
	return sojourn.ID(next), err
}
