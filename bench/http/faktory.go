package http

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	faktory "github.com/contribsys/faktory/client"
	faktoryserver "github.com/contribsys/faktory/server"
	"github.com/contribsys/faktory/storage"
	"github.com/contribsys/faktory/util"
	"github.com/redis/go-redis/v9"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

const (
	faktoryConns = 64 // connections that push, and as many that fetch, run and acknowledge
	fsyncEnv     = "SOJOURN_BENCH_FSYNC"
)

// serveFaktory is Faktory's own server on a Redis of its own, in a temporary folder.
func serveFaktory() error {
	util.InitLogger("error")
	folder, err := os.MkdirTemp("", "sojourn-bench-faktory-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "redis.sock")
	stop, err := storage.Boot(folder, socket)
	if err != nil {
		return err
	}
	defer stop()
	if err := durable(socket, os.Getenv(fsyncEnv)); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at := l.Addr().String()
	l.Close() // its server takes an address only
	s, err := faktoryserver.NewServer(&faktoryserver.ServerOptions{Binding: at, StorageDirectory: folder, RedisSock: socket, ConfigDirectory: folder,
		Environment: "development", PoolSize: faktoryserver.DefaultMaxPoolSize})
	if err != nil {
		return err
	}
	if err := s.Boot(); err != nil {
		return err
	}
	go s.Run()
	fmt.Println(at)
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Stop(nil)
	return nil
}

// durable makes Redis persist each acknowledged write. Faktory's default is snapshots, which lose
// up to two minutes.
func durable(socket, fsync string) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	ctx := context.Background()
	return errors.Join(c.ConfigSet(ctx, "appendfsync", fsync).Err(), c.ConfigSet(ctx, "appendonly", "yes").Err(), c.ConfigSet(ctx, "save", "").Err())
}

// faktorySystem is Faktory, with its own client. Its worker library cannot be had from the module
// proxy, so these loops fetch, run and acknowledge.
type faktorySystem struct {
	process *process
	at      *faktory.Server
	pushers chan *faktory.Client
}

func openFaktory(fsync string) bench.Open {
	return func(context.Context) (bench.System, error) {
		p, err := start(childFaktory, fsyncEnv+"="+fsync)
		if err != nil {
			return nil, err
		}
		s := &faktorySystem{process: p, at: &faktory.Server{Network: "tcp", Address: p.words[0], Timeout: time.Minute}, pushers: make(chan *faktory.Client, faktoryConns)}
		for range faktoryConns {
			c, err := faktory.Dial(s.at, "")
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
			s.pushers <- c
		}
		return s, nil
	}
}

// Enqueue implements bench.System.
func (s *faktorySystem) Enqueue(_ context.Context, first, n int) error {
	c := <-s.pushers
	defer func() { s.pushers <- c }()
	if n == 1 {
		return c.Push(faktoryJob(first))
	}
	jobs := make([]*faktory.Job, n)
	for i := range jobs {
		jobs[i] = faktoryJob(first + i)
	}
	refused, err := c.PushBulk(jobs)
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("%d jobs were refused", len(refused))
	}
	return err
}

// faktoryJob has args of the same length: base64, because its jobs are JSON.
func faktoryJob(number int) *faktory.Job {
	j := faktory.NewJob(bench.Kind, base64.StdEncoding.EncodeToString(bench.Args(number)))
	j.Queue = bench.Queue
	return j
}

// Work implements bench.System.
func (s *faktorySystem) Work(ctx context.Context, done func(int)) error {
	faktory.RandomProcessWid = "bench" // all connections belong to one worker
	var all sync.WaitGroup
	errs := make([]error, faktoryConns)
	for i := range errs {
		all.Go(func() { errs[i] = s.fetch(ctx, done) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *faktorySystem) fetch(ctx context.Context, done func(int)) error {
	c, err := faktory.Dial(s.at, "")
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		j, err := c.Fetch(bench.Queue) // waits up to 2 s
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		if err := c.Ack(j.Jid); err != nil {
			return err
		}
		done(1)
	}
	return nil
}

// Close implements bench.System.
func (s *faktorySystem) Close() error {
	for len(s.pushers) > 0 {
		_ = (<-s.pushers).Close()
	}
	return s.process.stop()
}
