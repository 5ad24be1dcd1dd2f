package upkeep

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// TextWriters lists the open transactions that have written live or final rows, for Dialect.Over.
const TextWriters = `select the name of each transaction that has written sj_live or sj_final`

const (
	// writersTime bounds how long a change of settings waits for transactions that have written by
	// the settings before. One of them may be the application's own.
	writersTime = 2 * time.Second
	// writersPause is the first pause between two checks; each pause is twice the one before.
	writersPause = 2 * time.Millisecond
)

// writersEnded waits until these transactions have ended, and reports whether they have. It blocks
// no other call: a lock that excludes them would also block all later writers.
func (s *Maintainer) writersEnded(ctx context.Context, writers sqldb.Texts) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writersTime)
	defer cancel()
	for pause := writersPause; ; pause *= 2 {
		var still sqldb.Texts
		err := s.core.View(ctx, func(t *txn.Tx) (err error) {
			still, err = writersOfLive(t)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			return false, err
		case !slices.ContainsFunc(still, func(w string) bool { return slices.Contains(writers, w) }):
			return true, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// WaitForWriters waits until all transactions that have written live or final rows have ended, and
// reports whether they have within two seconds.
func (s *Maintainer) WaitForWriters(ctx context.Context) (bool, error) {
	var writers sqldb.Texts
	if !s.core.DB.Dialect().Concurrent {
		return true, nil
	}
	if err := s.core.View(ctx, func(t *txn.Tx) (err error) {
		writers, err = writersOfLive(t)
		return err
	}); err != nil {
		return false, err
	}
	return s.writersEnded(ctx, writers)
}

func writersOfLive(t *txn.Tx) (names sqldb.Texts, err error) {
	err = t.Read(TextWriters, func(r sqldb.Row) error { names = append(names, r.Text(0)); return nil })
	return names, err
}
