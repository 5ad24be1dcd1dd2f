package benchcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store"
)

// The environment of a worker process: its queue and its store. Arguments could be read by other
// users, and an address may have a password.
const (
	envQueue = "SOJOURN_BENCH_QUEUE"
	envStore = "SOJOURN_BENCH_STORE"
)

// endLimit bounds the end of a worker process, which has nothing left to do.
const endLimit = 10 * time.Second

// elsewhere starts this program once more, as a worker. address names the store of a client.
func (a *app) elsewhere(address func(ctx context.Context, c *sojourn.Client) (string, error)) bench.Elsewhere {
	return func(ctx context.Context, c *sojourn.Client, queue string) (io.ReadCloser, error) {
		url, err := address(ctx, c)
		if err != nil {
			return nil, err
		}
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(program, "bench")
		cmd.Args[0] = os.Args[0]
		cmd.Env = append(os.Environ(), envQueue+"="+queue, envStore+"="+url)
		if a.Token != "" {
			cmd.Env = append(cmd.Env, "SOJOURN_TOKEN="+a.Token)
		}
		cmd.Stderr = a.Err
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return &process{out, in, cmd}, nil
	}
}

// process is a worker process, which ends when its input does: also if this process is killed.
type process struct {
	io.Reader
	in  io.Closer
	cmd *exec.Cmd
}

// Close ends the process. It may be called again.
func (p *process) Close() error {
	if p.in.Close() != nil {
		return nil // it was closed before
	}
	kill := time.AfterFunc(endLimit, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return p.cmd.Wait()
}

// isWorker reports whether this process was started by elsewhere.
func isWorker() bool { return os.Getenv(envQueue) != "" }

// work is what a worker process does.
func (a *app) work(ctx context.Context) error {
	a.Store = os.Getenv(envStore)
	bench.SetGC()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, a.In)
		cancel()
	}()
	return a.Using(func(c *sojourn.Client) error {
		err := bench.RunWorker(ctx, c, os.Getenv(envQueue), a.Out)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}, store.MustExist())
}

// fileOf is the address of a file that newFile has made.
func fileOf(ctx context.Context, c *sojourn.Client) (string, error) {
	s, err := c.Store().Status(ctx)
	if err == nil && s.Store != "sqlite" {
		err = errors.New("the store is no file")
	}
	return "sqlite:" + s.Location, err
}
