package enqueue

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// lockReused locks the rows of keys that final jobs have left, in order, and checks that they are
// still free.
func (e *Batch) lockReused(keys []txn.KindKey) error {
	if !e.Concurrent() {
		return nil
	}
	for _, k := range keys {
		free := true
		err := e.Read(lifecycle.QLockKey, func(r sqldb.Row) error {
			free = r.Int(1) == 0 && r.Int(2) <= e.Now || e.Ending != nil && r.Int(0) == int64(e.Ending.ID)
			return nil
		}, k.Kind, k.Key)
		if err == nil && !free {
			err = txn.Raced("a key was taken meanwhile")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
