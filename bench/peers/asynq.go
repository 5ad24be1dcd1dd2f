package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// Asynq's settings. An idle processor of its default sleeps for a second, in which it would look
// slower than it is.
const (
	asynqConcurrency = 64
	asynqIdle        = 5 * time.Millisecond
	// asynqLook is how often the count of finished tasks is read.
	asynqLook = 5 * time.Millisecond
	// redisPatience bounds the start of the server.
	redisPatience = 10 * time.Second
)

// redisServer is a server of its own in a temporary folder, reached by a Unix socket.
type redisServer struct {
	folder  string
	process *exec.Cmd
}

func (r *redisServer) socket() string { return filepath.Join(r.folder, "redis.sock") }

func startRedis(ctx context.Context, fsync string) (*redisServer, error) {
	folder, err := os.MkdirTemp("", "sojourn-bench-redis-")
	if err != nil {
		return nil, err
	}
	r := &redisServer{folder: folder}
	// The interrupt of a terminal is for this program, which then ends the server in order.
	r.process = exec.Command("redis-server", "--port", "0", "--unixsocket", r.socket(), "--dir", folder, "--save", "",
		"--appendonly", "yes", "--appendfsync", fsync, "--daemonize", "no", "--loglevel", "warning")
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.process.Stdout, r.process.Stderr = io.Discard, os.Stderr
	if err := r.process.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: install redis-server, or leave asynq out with -only", err), os.RemoveAll(folder))
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket(), MaxRetries: -1})
	defer c.Close()
	for c.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(errors.New("redis-server does not answer"), r.stop())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return r, nil
}

func (r *redisServer) stop() error {
	r.process.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	timer := time.AfterFunc(redisPatience, func() { r.process.Process.Kill() })
	go func() { r.process.Wait(); close(ended) }()
	<-ended
	timer.Stop()
	return os.RemoveAll(r.folder)
}

// asynqSystem is Asynq on a Redis of its own.
type asynqSystem struct {
	redis  *redisServer
	at     asynq.RedisClientOpt
	client *asynq.Client
}

// asynqOn opens Asynq on a Redis of its own, which syncs as fsync says: always or everysec.
func asynqOn(fsync string) bench.Open {
	return func(ctx context.Context) (bench.System, error) {
		r, err := startRedis(ctx, fsync)
		if err != nil {
			return nil, err
		}
		at := asynq.RedisClientOpt{Network: "unix", Addr: r.socket(), PoolSize: 2 * asynqConcurrency}
		return &asynqSystem{redis: r, at: at, client: asynq.NewClient(at)}, nil
	}
}

// Enqueue implements bench.System. Asynq has no call for many.
func (s *asynqSystem) Enqueue(ctx context.Context, first, n int) error {
	for i := range n {
		if _, err := s.client.EnqueueContext(ctx, asynq.NewTask(bench.Kind, bench.Args(first+i))); err != nil {
			return err
		}
	}
	return nil
}

// Work counts what Redis has counted: the script that ends a task raises the number.
func (s *asynqSystem) Work(ctx context.Context, done func(int)) error {
	srv := asynq.NewServer(s.at, asynq.Config{Concurrency: asynqConcurrency, TaskCheckInterval: asynqIdle, Logger: silent{}, LogLevel: asynq.FatalLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc(bench.Kind, func(context.Context, *asynq.Task) error { return nil })
	if err := srv.Start(mux); err != nil {
		return err
	}
	defer srv.Shutdown()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.redis.socket()})
	defer c.Close()
	tick := time.NewTicker(asynqLook)
	defer tick.Stop()
	for seen := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n, err := c.Get(ctx, "asynq:{default}:processed").Int()
		if err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil {
			return err
		}
		if n > seen {
			done(n - seen)
			seen = n
		}
	}
}

// Close implements bench.System.
func (s *asynqSystem) Close() error { return errors.Join(s.client.Close(), s.redis.stop()) }

// silent is a logger that says nothing.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}
