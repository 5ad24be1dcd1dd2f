// Package postgres measures Sojourn on PostgreSQL beside River and beside the raw limit of its own
// tables. It starts a server of its own from the installed binaries.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/sojourn-queue/sojourn/bench/peers"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

// We have two workers in one process, which share one store; each claims 1,000 jobs at most. River
// has the settings of its own benchmark command.
const (
	workers          = 2
	concurrency      = 1000
	riverWorkers     = 2000
	riverConnections = 32
)

const (
	synced    = "all that is acknowledged (fsync, synchronous_commit=on)"
	committed = "all that is committed (fsync, synchronous_commit=on)"
)

// settings of the server. The first two are its defaults, written down because everything depends
// on them. shared_buffers keeps the tables of all systems in memory, max_wal_size keeps checkpoints
// from falling into the middle of a measurement.
var settings = []string{"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"}

// Setup starts the server and makes the systems of the comparison.
func Setup(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
	server, err := pgtest.Start(settings...)
	if err != nil {
		return nil, nil, err
	}
	c := &cluster{Cluster: server}
	return []bench.Entry{
		{Name: "ours", Durability: synced, Run: bench.Measure(c.ours(false), c.ours(true), single, bulk)},
		{Name: "raw", Durability: committed, Run: bench.Limit(single, bulk, c.rawRun((*raw).life), c.rawRun((*raw).enqueue))},
		{Name: "raw_start", Durability: committed, Run: bench.Limit(single, bulk, c.rawRun((*raw).startedLife), c.rawRun((*raw).enqueue))},
		{Name: "river", Durability: synced, Run: bench.Measure(c.river, nil, single, bulk)},
	}, c.Stop, nil
}

// cluster is a server with a database for each measurement.
type cluster struct {
	*pgtest.Cluster
	databases atomic.Int64
}

// database makes an empty database, after a checkpoint, so that no run pays for the writes of
// another.
func (c *cluster) database(ctx context.Context) (address string, drop func() error, err error) {
	name := fmt.Sprint("bench_", c.databases.Add(1))
	if err := c.admin(ctx, "create database "+name, "checkpoint"); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error { return c.admin(context.WithoutCancel(ctx), "drop database "+name+" with (force)") }, nil
}

func (c *cluster) admin(ctx context.Context, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// ours is this module's own store in a database that goes with it.
func (c *cluster) ours(bare bool) bench.Open {
	return func(ctx context.Context) (bench.System, error) {
		address, drop, err := c.database(ctx)
		if err != nil {
			return nil, err
		}
		client, err := postgres.Open(address, postgres.AutoMigrate())
		if err != nil {
			return nil, errors.Join(err, drop())
		}
		return &bench.Sojourn{Client: client, Concurrency: concurrency, Workers: workers, Bare: bare, After: drop}, nil
	}
}

// river opens River with a pool of connections.
func (c *cluster) river(ctx context.Context) (bench.System, error) {
	address, drop, err := c.database(ctx)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.Join(err, drop())
	}
	config.MaxConns = riverConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, errors.Join(err, drop())
	}
	return peers.River(ctx, riverpgxv5.New(pool), riverWorkers, func() error {
		pool.Close()
		return drop()
	})
}
