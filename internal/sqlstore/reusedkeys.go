package sqlstore

import "github.com/sojourn-queue/sojourn/internal/sqldb"

// lockReused locks the rows of keys that final jobs have left, in order, and checks that they are
// still free.
func (e *enqueue) lockReused(keys []kindKey) error {
	if !e.concurrent() {
		return nil
	}
	for _, k := range keys {
		free := true
		err := e.query(qLockKey, func(r sqldb.Row) error {
			free = r.Int(1) == 0 && r.Int(2) <= e.now || e.ending != nil && r.Int(0) == int64(e.ending.ID)
			return nil
		}, k.kind, k.key)
		if err == nil && !free {
			err = raced("a key was taken meanwhile")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
