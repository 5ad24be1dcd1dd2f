package overload

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

const (
	workers    = 20 // that each hold
	perWorker  = 10 // jobs at a time,
	heartbeats = 4  // extend them so often,
	beat       = 500 * time.Millisecond
	batch      = 1000 // jobs of a batch
	singles    = 200  // callers who enqueue one job at a time, without a pause
	readers    = 20
	most       = 2000 // batches on their way at a time
)

// lease is that of the workers. Where the machine does something else as well, it is so long that
// no pause of the machine ends it.
func lease() time.Duration {
	if os.Getenv("SOJOURN_OVERLOAD") == "" {
		return time.Minute
	}
	return 5 * time.Second
}

func setting(name string, standard time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(name)); err == nil {
		return d
	}
	return standard
}

// server is sojourn serve in a process of its own.
type server struct {
	url, token string
	pid        int
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := proctest.Output(cmd)
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func serve(t *testing.T) server {
	t.Helper()
	folder := t.TempDir()
	sojourn, store := filepath.Join(folder, "sojourn"), "sqlite:"+filepath.Join(folder, "jobs.db")
	run(t, "go", "build", "-o", sojourn, "../../cmd/sojourn")
	s := server{token: run(t, sojourn, "token", "create", "--store", store, "--name", "overload", "--verb", "admin")}
	cmd := exec.Command(sojourn, "serve", "--addr", "127.0.0.1:0", "--store", store)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = proctest.Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if s.url = regexp.MustCompile(`http://\S+`).FindString(line); s.url == "" {
		t.Fatalf("the server said %q", line)
	}
	s.pid = cmd.Process.Pid
	return s
}

// memory is the most that the server has held at a time, in MiB; 0 where the system does not say.
func (s server) memory() int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	if found == nil {
		return 0
	}
	kb, _ := strconv.Atoi(string(found[1]))
	return kb >> 10
}

var (
	one  = []byte(`{"kind":"flood","queue":"flood","args":{"n":1}}`)
	many = []byte(`{"jobs":[` + strings.Repeat(`{"kind":"flood","queue":"flood","args":{"text":"`+strings.Repeat("x", 60)+`"}},`, batch-1) + string(one) + `]}`)
)

// capacity is how many batches a second the server stores when it is not pressed.
func capacity(ctx context.Context, c *caller, acked *atomic.Int64) float64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var stored atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if a, err := c.send(context.WithoutCancel(ctx), http.MethodPost, "/v1/jobs/batch", many); err == nil && a.status == 200 {
					stored.Add(1)
				}
			}
		})
	}
	group.Wait()
	acked.Add(stored.Load() * batch)
	return float64(stored.Load()) / time.Since(began).Seconds()
}

// flood offers batches at a rate, whatever becomes of those before, until ctx ends. acked counts
// the jobs that are stored, unsure those that may be.
func flood(ctx context.Context, c *caller, rate float64, acked, unsure *atomic.Int64) {
	var group sync.WaitGroup
	defer group.Wait()
	enqueue := func(sort, path string, body []byte, jobs int64) {
		began := time.Now()
		a, err := c.send(context.WithoutCancel(ctx), http.MethodPost, path, body)
		c.tally.add(sort, a, err, time.Since(began))
		switch {
		case err != nil:
			unsure.Add(jobs)
		case a.status < 300:
			acked.Add(jobs)
		}
	}
	for range singles {
		group.Go(func() {
			for ctx.Err() == nil {
				enqueue("enqueue", "/v1/jobs", one, 1)
			}
		})
	}
	for range readers {
		group.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				a, err := c.send(context.WithoutCancel(ctx), http.MethodGet, "/v1/jobs?queue=flood&kind=flood&limit=200&newest=true", nil)
				c.tally.add("read", a, err, time.Since(began))
			}
		})
	}
	room := make(chan struct{}, most)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began, sent := time.Now(), 0.0; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; sent < rate*time.Since(began).Seconds(); sent++ {
			select {
			case room <- struct{}{}:
				group.Go(func() { enqueue("batch", "/v1/jobs/batch", many, batch); <-room })
			default:
				c.tally.fault("%d batches are on their way: the server neither stores nor refuses them", most)
			}
		}
	}
}

// insist sends a report until it is taken, as a worker does, and notes how long that took in all.
func (c *caller) insist(sort, path string, body []byte) answer {
	began := time.Now()
	for {
		sent := time.Now()
		a, err := c.send(context.Background(), http.MethodPost, path, body)
		if err == nil && a.status < 300 {
			c.tally.add(sort, a, nil, time.Since(began))
			return a
		}
		c.tally.add(sort, a, err, time.Since(sent))
		time.Sleep(max(a.retry, 50*time.Millisecond))
	}
}

// work claims jobs, holds them for some heartbeats and completes them, until ctx ends; those that
// it holds then it completes too.
func work(ctx context.Context, c *caller, name string, done *atomic.Int64) {
	for number := 1; ctx.Err() == nil; number++ {
		began := time.Now()
		a, err := c.send(context.Background(), http.MethodPost, "/v1/claim", fmt.Appendf(nil,
			`{"worker":%q,"number":%d,"queues":["work"],"kinds":["work"],"max":%d,"lease":%q}`, name, number, perWorker, lease()))
		c.tally.add("claim", a, err, time.Since(began))
		if err != nil || a.status >= 300 {
			time.Sleep(min(max(a.retry, 50*time.Millisecond), time.Second))
			continue
		}
		var claimed struct {
			Jobs []struct{ Lease json.RawMessage }
		}
		if err := json.Unmarshal(a.body, &claimed); err != nil || len(claimed.Jobs) == 0 {
			c.tally.fault("a claim answered %s", a.body)
			return
		}
		var leases, outcomes []string
		for _, j := range claimed.Jobs {
			leases = append(leases, string(j.Lease))
			outcomes = append(outcomes, `{"lease":`+string(j.Lease)+`,"type":"completed","result":"done"}`)
		}
		for range heartbeats {
			time.Sleep(beat)
			if a := c.insist("extend", "/v1/extend", []byte(`{"leases":[`+strings.Join(leases, ",")+`]}`)); !strings.Contains(string(a.body), `"lost":[]`) {
				c.tally.fault("an extension answered %s", a.body)
			}
		}
		a = c.insist("finish", "/v1/finish", []byte(`{"outcomes":[`+strings.Join(outcomes, ",")+`]}`))
		if n := strings.Count(string(a.body), `"applied"`); n != len(claimed.Jobs) {
			c.tally.fault("of %d outcomes %d were applied: %s", len(claimed.Jobs), n, a.body)
		}
		done.Add(int64(len(claimed.Jobs)))
	}
}

// stock stores jobs for the workers: more than they can do.
func stock(t *testing.T, c *caller, jobs int) {
	t.Helper()
	for jobs > 0 {
		n := min(jobs, batch)
		jobs -= n
		body := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"work","queue":"work"},`, n), ",") + `]}`
		if a, err := c.send(t.Context(), http.MethodPost, "/v1/jobs/batch", []byte(body)); err != nil || a.status != 200 {
			t.Fatalf("%d %s %v", a.status, a.body, err)
		}
	}
}

// TestOverload offers a server ten times the load that it can store.
func TestOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out a server under overload")
	}
	length := setting("SOJOURN_OVERLOAD", 3*time.Second)
	times, err := strconv.ParseFloat(os.Getenv("SOJOURN_OVERLOAD_TIMES"), 64)
	if err != nil {
		times = 10
	}
	s, tally := serve(t), newTally()
	calm, press := newCaller(s.url, s.token, tally), newCaller(s.url, s.token, tally)
	rounds := int(length/(heartbeats*beat)) + 2
	stock(t, calm, workers*perWorker*rounds)
	var acked, unsure, done atomic.Int64
	rate := capacity(t.Context(), calm, &acked)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { work(ctx, calm, fmt.Sprint("w", i), &done) })
	}
	group.Go(func() { flood(ctx, press, times*rate, &acked, &unsure) })
	group.Wait()
	t.Logf("%v at %.0f batches of %d a second, %g times the %.0f that it stored alone; the server held at most %d MiB", length, times*rate, batch, times, rate, s.memory())
	for _, sort := range []string{"extend", "finish", "claim", "enqueue", "batch", "read"} {
		t.Log(tally.line(sort))
	}
	judge(t, s, calm, tally)
	stored := count(t, calm)
	if stored < acked.Load() || stored > acked.Load()+unsure.Load() {
		t.Errorf("%d jobs are stored, %d were acknowledged and %d may be", stored, acked.Load(), unsure.Load())
	}
	if done.Load() < workers*perWorker {
		t.Errorf("only %d jobs were worked", done.Load())
	}
}

// judge says what an overloaded server owes.
func judge(t *testing.T, s server, c *caller, tally *tally) {
	t.Helper()
	for _, fault := range tally.faults {
		t.Error(fault)
	}
	for _, sort := range []string{"extend", "finish"} {
		if os.Getenv("SOJOURN_OVERLOAD") == "" { // a machine that does something else as well says nothing about time
			break
		}
		if p99 := tally.quantile(sort, 0.99); p99 > time.Second {
			t.Errorf("p99 of %s is %v", sort, p99)
		}
	}
	if tally.count["batch"]["503"] == 0 {
		t.Error("no batch was refused: that was no overload")
	}
	for sort, answers := range tally.count {
		for what, n := range answers {
			if what != "200" && what != "201" && what != "503" && what != "429" {
				t.Errorf("%d of %s were answered %s", n, sort, what)
			}
		}
	}
	if m := s.memory(); m > 1500 {
		t.Errorf("the server held %d MiB", m)
	}
}

// count is how many jobs of the flood are stored.
func count(t *testing.T, c *caller) int64 {
	t.Helper()
	a, err := c.send(t.Context(), http.MethodGet, "/v1/queues?name=flood", nil)
	var got struct {
		Queues []struct{ Counts map[string]int64 }
	}
	if err != nil || json.Unmarshal(a.body, &got) != nil || len(got.Queues) != 1 {
		t.Fatalf("%d %s %v", a.status, a.body, err)
	}
	return got.Queues[0].Counts["ready"]
}
