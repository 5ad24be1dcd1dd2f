package upkeep

import (
	"context"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Recheck attaches early responses to the live jobs of their keys. A call that stores a response
// for a key without a job, or registers a key of a wait, checks again in a second transaction after
// its commit: then at least one of two sees the other (rules:G2; one check by one of the two is not
// enough). If the process dies between the transactions, a sweep does it.
func (s *Maintainer) Recheck(ctx context.Context, keys []txn.KindKey) {
	if len(keys) == 0 {
		return
	}
	var done *txn.Tx
	err := s.core.DB.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.core.Begin(c)
		if err != nil {
			return err
		}
		done = t
		if err := lifecycle.AttachEarly(t, keys); err != nil {
			return err
		}
		return t.End()
	})
	if err == nil {
		s.hub.Publish(done)
	}
}
