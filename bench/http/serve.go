package http

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// The modes of the child process.
const (
	childEnv     = "SOJOURN_BENCH_CHILD"
	childServes  = "serve"
	childEmpty   = "empty"
	childFaktory = "faktory"
)

// stopTime is how long a server may take to end.
const stopTime = 10 * time.Second

// process is this program once more, as a server. It ends when its standard input does, so also
// when this process is killed.
type process struct {
	cmd   *exec.Cmd
	input io.Closer
	words []string // of the line that it printed when it was up
}

func start(kind string, environment ...string) (*process, error) {
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), childEnv+"="+kind), environment...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if p.words = strings.Fields(line); err != nil || len(p.words) == 0 {
		return nil, errors.Join(fmt.Errorf("the %s server did not start", kind), p.stop())
	}
	return p, nil
}

func (p *process) stop() error {
	_ = p.input.Close()
	timer := time.AfterFunc(stopTime, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	return p.cmd.Wait()
}

// IsChild reports whether this process is to be a server. [Child] then runs it.
func IsChild() bool { return os.Getenv(childEnv) != "" }

// Child runs the server of this process until its standard input ends. An error ends the process.
func Child() {
	if err := child(os.Getenv(childEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(kind string) error {
	if kind == childFaktory {
		return serveFaktory()
	}
	folder, err := os.MkdirTemp("", "sojourn-bench-")
	if err != nil {
		return err
	}
	return errors.Join(serve(filepath.Join(folder, "jobs.db"), kind == childEmpty), os.RemoveAll(folder))
}

// serve runs the server of sojourn serve, with its log in a file.
func serve(file string, empty bool) error {
	c, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	tokens := c.Store().(access.Keeper)
	t, bearer := server.NewToken("bench", time.Hour, []access.Grant{{Verbs: []access.Verb{access.VerbEnqueue, access.VerbWork, access.VerbRead}}})
	if err := tokens.SetAccessToken(ctx, t); err != nil {
		return err
	}
	store := driver.Of(c)
	if empty {
		store = &nothing{Store: store, Keeper: tokens}
	}
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	s, err := server.New(ctx, store, server.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go h.Serve(l)
	sweeping, stop := context.WithCancel(ctx)
	defer stop()
	go s.Sweep(sweeping)
	fmt.Println("http://"+l.Addr().String(), bearer)
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Drain()
	return h.Close()
}

// nothing is a store that acknowledges jobs which it does not store.
type nothing struct {
	driver.Store
	access.Keeper
	ids atomic.Int64
}

// IDs implements sojourn.Store.
func (n *nothing) IDs(_ context.Context, count int) (sojourn.ID, error) {
	return sojourn.ID(n.ids.Add(int64(count)) - int64(count) + 1), nil
}

// Enqueue implements sojourn.Store.
func (n *nothing) Enqueue(_ context.Context, jobs []sojourn.Job, _ bool) ([]sojourn.Enqueued, error) {
	out := make([]sojourn.Enqueued, len(jobs))
	for i := range jobs {
		out[i] = sojourn.Enqueued{ID: jobs[i].ID, State: sojourn.Ready}
	}
	return out, nil
}

// each sends one request for each job, on a connection of each producer's own, as programs without
// our client do.
type each struct {
	*process
	http *http.Client
}

func requests(kind string) bench.Open {
	return func(context.Context) (bench.System, error) {
		p, err := start(kind)
		if err != nil {
			return nil, err
		}
		return &each{p, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, MaxIdleConns: 1000}}}, nil
	}
}

// Enqueue implements bench.System.
func (e *each) Enqueue(ctx context.Context, first, n int) error {
	for i := range n {
		body := `{"kind":"` + bench.Kind + `","queue":"` + bench.Queue +
			`","content_type":"application/octet-stream","args":{"$base64":"` + base64.StdEncoding.EncodeToString(bench.Args(first+i)) + `"}}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.words[0]+"/v1/jobs", strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+e.words[1])
		got, err := e.http.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, got.Body)
		if got.Body.Close(); err == nil && got.StatusCode != http.StatusCreated {
			err = fmt.Errorf("answered %s", got.Status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Work implements bench.System and does nothing.
func (e *each) Work(context.Context, func(int)) error { return errors.ErrUnsupported }

// Close implements bench.System.
func (e *each) Close() error { return e.stop() }

// served is a server in a process of its own, reached as programs do.
func served(kind string, bare bool) bench.Open {
	return func(context.Context) (bench.System, error) {
		p, err := start(kind)
		if err != nil {
			return nil, err
		}
		c, err := httpapi.Dial(p.words[0], httpapi.Token(p.words[1]))
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
		return &bench.Sojourn{Client: c, Bare: bare, After: p.stop}, nil
	}
}
