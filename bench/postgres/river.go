package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// River's settings are those of its own benchmark command.
const (
	riverWorkers     = 2000
	riverCooldown    = 2 * time.Millisecond
	riverPoll        = 20 * time.Millisecond
	riverConnections = 32
	riverEvents      = 1_000_000 // events that may wait to be counted; River drops more
)

type riverArgs struct {
	Args []byte `json:"args"`
}

func (riverArgs) Kind() string { return bench.Kind }

type riverSystem struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	drop   func() error
}

func (c *cluster) river(ctx context.Context) (bench.System, error) {
	address, drop, err := c.database(ctx)
	if err != nil {
		return nil, err
	}
	s := &riverSystem{drop: drop}
	if err := s.open(ctx, address); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *riverSystem) open(ctx context.Context, address string) error {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return err
	}
	config.MaxConns = riverConnections
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	driver := riverpgxv5.New(s.pool)
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

func (s *riverSystem) Close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	return s.drop()
}
