package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// River's settings: those of its own benchmark command, with fewer workers, since one connection is
// all that SQLite gives them.
const (
	riverWorkers  = 500
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverEvents   = 1_000_000 // events that may wait to be counted; River drops more
)

type riverArgs struct {
	Args []byte `json:"args"`
}

func (riverArgs) Kind() string { return bench.Kind }

// riverSystem is River on SQLite with one connection, as its driver advises.
type riverSystem struct {
	db     *sql.DB
	client *river.Client[*sql.Tx]
	folder string
}

func openRiver(ctx context.Context) (bench.System, error) {
	db, folder, err := openFile()
	if err != nil {
		return nil, err
	}
	s := &riverSystem{db: db, folder: folder}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *riverSystem) open(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	driver := riversqlite.New(s.db)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[riverArgs]) error { return nil }))
	s.client, err = river.NewClient(driver, &river.Config{Logger: quiet, Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}}})
	return err
}

func (s *riverSystem) Enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		_, err := s.client.Insert(ctx, riverArgs{bench.Args(first)}, nil)
		return err
	}
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverArgs{bench.Args(first + i)}
	}
	_, err := s.client.InsertManyFast(ctx, jobs)
	return err
}

// Work counts River's own events, which come after the commit that completes the jobs.
func (s *riverSystem) Work(ctx context.Context, done func(int)) error {
	events, cancel := s.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer cancel()
	if err := s.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for {
		select {
		case <-events:
			done(1)
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			return s.client.StopAndCancel(ending)
		}
	}
}

func (s *riverSystem) Close() error { return errors.Join(s.db.Close(), os.RemoveAll(s.folder)) }
