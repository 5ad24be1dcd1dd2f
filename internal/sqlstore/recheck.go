package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// lookAgain attaches early responses to the live jobs of their keys. A call that stores a response
// for a key without a job, or registers a key of a wait, checks again in a second transaction after
// its commit: then at least one of two sees the other (rules:G2; one check by one of the two is not
// enough). If the process dies between the transactions, a sweep does it.
func (s *operator) lookAgain(ctx context.Context, keys []kindKey) {
	if len(keys) == 0 {
		return
	}
	var done *tx
	err := s.core.db.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.core.timed(c)
		if err != nil {
			return err
		}
		done = t
		if err := t.attachEarly(keys); err != nil {
			return err
		}
		return t.end()
	})
	if err == nil {
		s.hub.tell(done)
	}
}
