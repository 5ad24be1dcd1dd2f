package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite" // the driver "sqlite", the same translation of SQLite that our store uses

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// goqiteReceivers receive, run and delete, one message at a time, as goqite's API has it.
const goqiteReceivers = 8

// goqitePoll is how long an idle receiver rests.
const goqitePoll = time.Millisecond

// goqiteSystem is goqite on one connection, as its README advises.
type goqiteSystem struct {
	db     *sql.DB
	queue  *goqite.Queue
	folder string
}

// openFile makes an empty database in a folder of its own, with our store's settings of durability
// and cache size.
func openFile() (db *sql.DB, folder string, err error) {
	if folder, err = os.MkdirTemp("", "sojourn-bench-"); err != nil {
		return nil, "", err
	}
	db, err = sql.Open("sqlite", "file:"+filepath.Join(folder, "peer.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(full)"+
		"&_pragma=busy_timeout(10000)&_pragma=temp_store(memory)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(folder))
	}
	db.SetMaxOpenConns(1)
	return db, folder, nil
}

//go:embed goqite.sql
var goqiteSchema string

func openGoqite(ctx context.Context) (bench.System, error) {
	db, folder, err := openFile()
	if err != nil {
		return nil, err
	}
	s := &goqiteSystem{db: db, folder: folder}
	if _, err := db.ExecContext(ctx, goqiteSchema); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.queue = goqite.New(goqite.NewOpts{DB: db, Name: bench.Queue, Timeout: time.Minute})
	return s, nil
}

func (s *goqiteSystem) Enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		return s.queue.Send(ctx, goqite.Message{Body: bench.Args(first)})
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for i := range n {
		if err := s.queue.SendTx(ctx, tx, goqite.Message{Body: bench.Args(first + i)}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *goqiteSystem) Work(ctx context.Context, done func(int)) error {
	var all sync.WaitGroup
	errs := make([]error, goqiteReceivers)
	for i := range goqiteReceivers {
		all.Go(func() { errs[i] = s.receive(ctx, done) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *goqiteSystem) receive(ctx context.Context, done func(int)) error {
	for ctx.Err() == nil {
		m, err := s.queue.ReceiveAndWait(ctx, goqitePoll)
		if err != nil {
			return err
		}
		if err := s.queue.Delete(ctx, m.ID); err != nil {
			return err
		}
		done(1)
	}
	return nil
}

func (s *goqiteSystem) Close() error { return errors.Join(s.db.Close(), os.RemoveAll(s.folder)) }
