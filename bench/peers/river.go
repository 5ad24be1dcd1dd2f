package peers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// River's settings are those of its own benchmark command.
const (
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverEvents   = 1_000_000 // events that may wait to be counted; River drops more
)

type riverArgs struct {
	Args []byte `json:"args"`
}

func (riverArgs) Kind() string { return bench.Kind }

// riverSystem is River on one of its drivers.
type riverSystem[Tx any] struct {
	client *river.Client[Tx]
	after  func() error
}

// River opens River on an empty database, with so many workers. Close calls after, and so does
// River itself if it fails.
func River[Tx any](ctx context.Context, driver riverdriver.Driver[Tx], workers int, after func() error) (bench.System, error) {
	s := &riverSystem[Tx]{after: after}
	if err := s.open(ctx, driver, workers); err != nil {
		return nil, errors.Join(err, after())
	}
	return s, nil
}

func (s *riverSystem[Tx]) open(ctx context.Context, driver riverdriver.Driver[Tx], count int) error {
	quiet := slog.New(slog.DiscardHandler)
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
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: count}}})
	return err
}

// Enqueue implements bench.System.
func (s *riverSystem[Tx]) Enqueue(ctx context.Context, first, n int) error {
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
func (s *riverSystem[Tx]) Work(ctx context.Context, done func(int)) error {
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

// Close implements bench.System.
func (s *riverSystem[Tx]) Close() error { return s.after() }
