package crash

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/internal/sdkbuild"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

const (
	childRemote = "remote"             // works over HTTP until SIGTERM
	ledgerEnv   = "SOJOURN_CRASH_RUNS" // file in which workers log the jobs that they run
	drainWithin = 90 * time.Second     // longer than a lease of the default length
	sameMoment  = 2 * time.Millisecond // resolution of the clocks of the languages
)

var remote = sojourn.Kind[int]{Name: "work", Policy: patient}

// workRemotely is an ordinary worker in Go, with the URL of the server.
func workRemotely(ctx context.Context, url string) error {
	c, err := httpapi.Dial(url, httpapi.Token(os.Getenv("SOJOURN_TOKEN")))
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.OpenFile(os.Getenv(ledgerEnv), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := worker.New(c, worker.Options{Concurrency: 4})
	worker.Handle(w, remote, func(_ context.Context, job *sojourn.Job, ms int) error {
		fmt.Fprintf(f, "begin %d %d go\n", job.ID, time.Now().UnixNano())
		time.Sleep(time.Duration(ms) * time.Millisecond) // the work
		_, err := fmt.Fprintf(f, "end %d %d go\n", job.ID, time.Now().UnixNano())
		return err
	})
	return w.Run(ctx)
}

// site is a server that is killed again and again, always at the same address.
type site struct {
	*testing.T
	program, store, at, token string
	cmd                       *exec.Cmd
}

func (s *site) url() string { return "http://" + s.at }

func newSite(t *testing.T, file string) *site {
	t.Helper()
	s := &site{T: t, program: filepath.Join(t.TempDir(), "sojourn"), store: "sqlite:" + file}
	if out, err := exec.Command("go", "build", "-o", s.program, "../../cmd/sojourn").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(s.program, "token", "create", "--store", s.store, "--name", "crash", "--verb", "enqueue,work,read").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(out))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.at = l.Addr().String()
	_ = l.Close()
	return s
}

// start returns when the server listens.
func (s *site) start() {
	s.Helper()
	s.cmd = exec.Command(s.program, "serve", "--store", s.store, "--addr", s.at)
	var log strings.Builder
	s.cmd.Stderr = &log
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = proctest.Start(s.cmd)
	}
	if err != nil {
		s.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.Contains(line, s.at) {
		_ = s.cmd.Wait()
		s.Fatalf("the server said %q\n%s", line, log.String())
	}
}

func (s *site) kill() {
	_ = s.cmd.Process.Kill() // SIGKILL
	_ = s.cmd.Wait()
}

// workers starts one in each language that is here. Where CI is true all must be.
func (s *site) workers(runs string) (all map[string]*exec.Cmd) {
	s.Helper()
	all = map[string]*exec.Cmd{"go": exec.Command(os.Args[0]),
		"exec": exec.Command(s.program, "work", "--store", s.url(), "--kind", remote.Name, "--concurrency", "4", "--exec", "testdata/worker.sh", "--env", "LEDGER")}
	sdk := filepath.Join(filepath.Dir(runs), "typescript")
	for name, command := range map[string][]string{"python": {"python3", "testdata/worker.py"}, "typescript": {"node", "testdata/worker.mjs"}} {
		path, err := exec.LookPath(command[0])
		if err == nil && name == "typescript" {
			err = sdkbuild.TypeScript("../../sdk/typescript", sdk)
		}
		switch {
		case err == nil:
			all[name] = exec.Command(path, command[1], s.url(), runs, filepath.Join(sdk, "dist", "index.js"))
		case os.Getenv("CI") == "true":
			s.Fatal(err)
		default:
			s.Logf("no worker in %s: %v", name, err)
		}
	}
	for name, cmd := range all {
		cmd.Env = append(os.Environ(), "SOJOURN_CRASH_CHILD="+childRemote, "SOJOURN_CRASH_FILE="+s.url(), ledgerEnv+"="+runs, "LEDGER="+runs,
			"SOJOURN_TOKEN="+s.token, "PYTHONPATH=../../sdk/python", "PYTHONDONTWRITEBYTECODE=1")
		log, err := os.Create(filepath.Join(filepath.Dir(runs), name+".log"))
		if err == nil {
			cmd.Stdout, cmd.Stderr = log, log
			err = proctest.Start(cmd)
			_ = log.Close()
		}
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	return all
}

// length is how long a job takes, in ms. Some are longer than a server needs to come back.
func length() int {
	if rand.IntN(10) == 0 {
		return 300 + rand.IntN(1200)
	}
	return rand.IntN(30)
}

// produceRemotely enqueues until ctx ends. A call whose outcome is not known is repeated with the
// same job.
func (s *site) produceRemotely(ctx context.Context, l *ledger) {
	c, err := httpapi.Dial(s.url(), httpapi.Token(s.token))
	if err != nil {
		s.Error(err)
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		id, err := c.Store().IDs(context.WithoutCancel(ctx), 1)
		job := remote.New(length())
		job.ID = id
		for err == nil {
			if _, failed := c.Enqueue(context.WithoutCancel(ctx), job); failed == nil {
				l.mu.Lock()
				l.acked[id] = true
				l.mu.Unlock()
				break
			} else if code := sojourn.ErrorCode(failed); code != sojourn.CodeUnknown && code != sojourn.CodeUnavailable {
				s.Errorf("enqueue: %v", failed)
				return
			}
			if ctx.Err() != nil {
				return
			}
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // as callers come
	}
}

// TestKillServe kills a server with kill -9 under workers in four languages and producers that
// reach it over HTTP, starts it again, and so on (spec:A15, spec:H7, inv:A1). What it had
// acknowledged is stored, every job is completed, and no job ran twice at the same time.
func TestKillServe(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what builds the command")
	}
	cycles, err := strconv.Atoi(os.Getenv("SOJOURN_CRASH_SERVE_CYCLES"))
	if err != nil {
		cycles = 3
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	file, runs := filepath.Join(folder, "jobs.db"), filepath.Join(folder, "runs")
	s, l := newSite(t, file), newLedger()
	s.start()
	all := s.workers(runs)
	ctx, cancel := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	for range 4 {
		producers.Go(func() { s.produceRemotely(ctx, l) })
	}
	for range cycles {
		time.Sleep(time.Duration(100+random.IntN(1400)) * time.Millisecond) // until the next kill
		s.kill()
		s.start()
	}
	time.Sleep(time.Second) // with the server that stays
	cancel()
	producers.Wait()
	s.drain()
	for name, cmd := range all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			log, _ := os.ReadFile(filepath.Join(folder, name+".log"))
			t.Errorf("the worker in %s ended with %v\n%s", name, err, log)
		}
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	r := l.audit(t, file)
	ran, overlapping := l.heard(t, file, runs)
	t.Logf("%d kill -9 cycles, %d jobs acknowledged: %d lost, %d stuck; runs %v: %d overlap, %d unexplained", cycles, len(l.acked), r.lost, r.stuck, ran, overlapping, r.unexplained)
	if r != (remains{}) || overlapping > 0 {
		t.Errorf("%+v, %d overlap", r, overlapping)
	}
	for name := range all {
		if ran[name] == 0 {
			t.Errorf("the worker in %s ran nothing", name)
		}
	}
	if len(l.acked) < 10*cycles {
		t.Errorf("only %d jobs were acknowledged: the test shows nothing", len(l.acked))
	}
}

// drain waits until no job is live any more.
func (s *site) drain() {
	s.Helper()
	c, err := httpapi.Dial(s.url(), httpapi.Token(s.token))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.Context(), drainWithin)
	defer cancel()
	began := time.Now()
	untilNothingLives(ctx, c)
	if ctx.Err() != nil {
		s.Errorf("jobs are live %v after the last kill", drainWithin)
	}
	s.Logf("drained after %v", time.Since(began).Round(time.Millisecond))
}

// run is one run of a handler.
type run struct {
	job        sojourn.ID
	began, end int64 // ns; 0 if it did not end
}

// heard reads what the workers have written: runs by worker, and how many began while another of
// the same job had not ended. Each must have an attempt in the history.
func (l *ledger) heard(t *testing.T, file, path string) (ran map[string]int, overlapping int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran = map[string]int{}
	runs := map[sojourn.ID][]run{}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		id, err := strconv.ParseInt(words[1], 10, 64)
		at, bad := strconv.ParseInt(words[2], 10, 64)
		if len(words) != 4 || err != nil || bad != nil {
			t.Fatalf("a worker wrote %q", line)
		}
		of := runs[sojourn.ID(id)]
		if words[0] == "begin" {
			ran[words[3]]++
			runs[sojourn.ID(id)] = append(of, run{sojourn.ID(id), at, 0})
			continue
		}
		for i := range of {
			if of[i].end == 0 {
				of[i].end = at
				break
			}
		}
	}
	c, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for id, of := range runs {
		slices.SortFunc(of, func(a, b run) int { return cmp.Compare(a.began, b.began) })
		for i := 1; i < len(of); i++ {
			if of[i-1].end == 0 || of[i].began < of[i-1].end-sameMoment.Nanoseconds() {
				overlapping++
				t.Logf("job %d ran at the same time twice: %v", id, of)
			}
		}
		history, err := c.Jobs().History(t.Context(), id)
		if err != nil || len(history) < len(of) {
			t.Errorf("job %d ran %d times and has %d attempts, %v", id, len(of), len(history), err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.acked)) {
		if len(runs[id]) == 0 {
			t.Errorf("job %d was acknowledged and never ran", id)
		}
	}
	return ran, overlapping
}
