//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// workshop is a store with programs that work its jobs off.
type workshop struct {
	*testing.T
	folder, store string
	sojourn       string
	alive         *os.File // see stubborn
}

func newWorkshop(t *testing.T) *workshop {
	w := &workshop{T: t, folder: t.TempDir(), sojourn: sojournCommand(t)}
	w.store = "sqlite:" + filepath.Join(w.folder, "jobs.db")
	return w
}

// program writes a script and returns its path.
func (w *workshop) program(text string) string {
	w.Helper()
	path := filepath.Join(w.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+text), 0o700); err != nil {
		w.Fatal(err)
	}
	return path
}

// run runs the command and returns its exit code and its combined output.
func (w *workshop) run(args ...string) (int, string) {
	w.Helper()
	cmd := exec.Command(w.sojourn, append(args, "--store", w.store)...)
	cmd.Dir = w.folder
	out, err := proctest.CombinedOutput(cmd)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		w.Fatal(err)
	}
	return 0, string(out)
}

func (w *workshop) enqueue(args ...string) {
	w.Helper()
	if code, out := w.run(append([]string{"enqueue", "k"}, args...)...); code != 0 {
		w.Fatalf("enqueue: %d %s", code, out)
	}
}

// worker starts a worker in a process of its own, and kills it at the end of the test.
func (w *workshop) worker(args ...string) *exec.Cmd {
	w.Helper()
	log, err := os.Create(filepath.Join(w.TempDir(), "log"))
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(w.sojourn, append([]string{"work", "--kind", "k", "--store", w.store}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.folder, log, log
	if err := proctest.Start(cmd); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b, err := os.ReadFile(log.Name()); err == nil && w.Failed() {
			w.Logf("a worker said:\n%s", b)
		}
	})
	return cmd
}

// job is a job as the command shows it.
func (w *workshop) job(id int) (j struct {
	State, Reason, Error       string
	Attempt, Failures, Crashes int
	Result, Checkpoint         []byte
}) {
	w.Helper()
	cmd := exec.Command(w.sojourn, "job", "get", strconv.Itoa(id), "-o", "json", "--store", w.store)
	out, err := proctest.Output(cmd)
	if err == nil {
		err = jsonv2.Unmarshal(out, &j, jsonform.Plain, jsonv2.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		w.Fatalf("job get: %v %s", err, out)
	}
	return j
}

// until waits for something that must happen.
func (w *workshop) until(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("it never came to this: %s", what)
		}
	}
}

// pids reads the numbers that a script has written into a file of the folder, once there are n or
// more: on a busy machine a lease may end early, and the script runs again.
func (w *workshop) pids(file string, n int) (pids []int) {
	w.Helper()
	w.until(file+" is written", func() bool {
		b, _ := os.ReadFile(filepath.Join(w.folder, file))
		pids = nil
		for line := range strings.Lines(string(b)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n
	})
	if file == "pids" {
		w.Cleanup(func() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // after a failure they would stay
			}
		})
	}
	return pids
}

// stubborn is a program whose child ignores SIGTERM. Both outlive every test unless they are
// killed. They write their process ids to the file pids, and hold the writing end of a named pipe
// as long as they live.
func (w *workshop) stubborn() string {
	w.Helper()
	pipe := filepath.Join(w.folder, "alive")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		w.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // first: opening the other end waits for it
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { reader.Close() })
	w.alive = reader
	return w.program(`exec 9>"` + pipe + `"
bash -c 'trap "" TERM; echo $$ >>"$0/pids"; while :; do sleep 1; done' ` + w.folder + ` &
echo $$ >>` + w.folder + `/pids
wait
`)
}

// allGone waits until both processes of the stubborn program are dead. The kernel closes the pipe
// when a process dies, also where no init collects the dead, as in many containers.
func (w *workshop) allGone() {
	w.Helper()
	if err := w.alive.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	if _, err := w.alive.Read(make([]byte, 1)); err != io.EOF {
		w.Fatalf("a process of the program lives on: %v", err)
	}
}

// TestSojournWorkLife (spec:H10): a job waits for its answer between two runs, over a file and over
// a server alike.
func TestSojournWorkLife(t *testing.T) {
	for _, over := range []string{"file", "server"} {
		t.Run(over, func(t *testing.T) {
			w := newWorkshop(t)
			if over == "server" {
				w.store = serve(t, "--store", w.store).url
			}
			program := w.program(`if [ -z "$SOJOURN_RESPONSE" ]; then echo '{"within": "1h"}' >"$SOJOURN_AWAIT"; exit 77; fi
cp "$SOJOURN_RESPONSE" "$SOJOURN_RESULT"; [ -f "$0" ] && [ "$1" = "an arg" ] && echo "done with $SOJOURN_KEY"`)
			w.enqueue("--key", "order-42", "--args", `{"cents":1999}`)
			if code, out := w.run("work", "--kind", "none", "--once", "--exec", program); code != 3 || !strings.Contains(out, "no job of these kinds is ready") {
				t.Errorf("nothing to do: %d %s", code, out)
			}
			run := []string{"work", "--kind", "k", "--once", "-o", "json", "--store", w.store, "--", program, "an arg"}
			once := func() string {
				out, err := proctest.CombinedOutput(exec.Command(w.sojourn, run...))
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
				return string(out)
			}
			if out := once(); !strings.Contains(out, `"state":"awaiting"`) {
				t.Errorf("the first run: %s", out)
			}
			w.run("respond", "k", "order-42", "--body", `{"paid":true}`)
			if out := once(); !strings.Contains(out, `"state":"completed"`) {
				t.Errorf("the second run: %s", out)
			}
			if j := w.job(1); j.State != "completed" || string(j.Result) != `{"paid":true}` || j.Attempt != 1 {
				t.Errorf("%+v", j)
			}
			if _, out := w.run("job", "log", "1"); !strings.Contains(out, "done with order-42") {
				t.Errorf("the log: %s", out)
			}
		})
	}
}

// TestSojournWorkWithAToken: over a server the verb work for the kind is enough.
func TestSojournWorkWithAToken(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	var made struct{ Token string }
	code, out := w.run("token", "create", "--name", "w", "--verb", "work", "--kind", "k", "-o", "json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 {
		t.Fatal(err, out)
	}
	file := w.store
	w.store = serve(t, "--store", file).url
	t.Setenv("SOJOURN_TOKEN", made.Token)
	cmd := w.worker("--exec", w.program(`[ -z "$SOJOURN_TOKEN" ]`))
	t.Setenv("SOJOURN_TOKEN", "")
	w.store = file
	w.until("the job is completed", func() bool { return w.job(1).State == "completed" })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if log, err := os.ReadFile(cmd.Stdout.(*os.File).Name()); err != nil || strings.Contains(string(log), "WARN") || strings.Contains(string(log), made.Token) {
		t.Errorf("the worker said: %v\n%s", err, log)
	}
}

// TestSojournWorkRefuses: a wrong command line ends before a job is claimed.
func TestSojournWorkRefuses(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	for want, args := range map[string][]string{
		"name at least one": {"--exec", "/bin/true"}, "name a program": {"--kind", "k"}, "not both": {"--kind", "k", "--exec", "/bin/true", "--", "true"},
		"after --": {"--kind", "k", "/bin/true"}, "./NAME": {"--kind", "k", "--exec", "no-such-program"}, "no such file": {"--kind", "k", "--exec", "./none"},
		"is named twice": {"--kind", "k", "--kind", "k", "--exec", "/bin/true"}, "is not set": {"--kind", "k", "--exec", "/bin/true", "--env", "NO_SUCH_NAME"},
		"name of a variable": {"--kind", "k", "--exec", "/bin/true", "--env", "A=b"}, "lease": {"--kind", "k", "--exec", "/bin/true", "--lease", "1ms"},
		"concurrency": {"--kind", "k", "--exec", "/bin/true", "--concurrency", "-1"}, "A-Z": {"--kind", "a b", "--exec", "/bin/true"},
	} {
		if code, out := w.run(append([]string{"work"}, args...)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	if j := w.job(1); j.State != "ready" || j.Attempt != 0 {
		t.Errorf("%+v", j)
	}
}

// TestSojournWorkEndsTheGroup (spec:W6): whatever ends a run ends all that it has started, also
// what ignores SIGTERM.
func TestSojournWorkEndsTheGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		end    func(w *workshop, worker *exec.Cmd)
		state  string
		reason string
	}{
		{"cancelled", []string{"--lease", "1s"}, func(w *workshop, _ *exec.Cmd) { w.run("job", "cancel", "1") }, "cancelled", ""},
		{"timeout", []string{"--timeout", "3s"}, func(*workshop, *exec.Cmd) {}, "scheduled", "run_timeout"},
		{"drained", []string{"--grace", "50ms"}, func(w *workshop, worker *exec.Cmd) {
			_ = worker.Process.Signal(syscall.SIGTERM)
			if err := worker.Wait(); err != nil {
				w.Errorf("the worker ended with %v", err)
			}
		}, "ready", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t)
			w.enqueue()
			worker := w.worker(append(c.args, "--exec", w.stubborn())...)
			w.pids("pids", 2)
			c.end(w, worker)
			w.allGone()
			w.until("the job is "+c.state, func() bool { return w.job(1).State == c.state })
			if j := w.job(1); j.Reason != c.reason || c.state == "ready" && j.Failures+j.Crashes != 0 {
				t.Errorf("%+v", j)
			}
		})
	}
}

// TestSojournWorkLosesItsLease: a worker that stands still loses its job to another. When it goes
// on, its program is killed, and what that has done counts for nothing.
func TestSojournWorkLosesItsLease(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	still := w.worker("--lease", "1s", "--exec", w.stubborn())
	w.pids("pids", 2)
	if err := still.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.worker("--lease", "1s", "--exec", w.program(`echo other >"$SOJOURN_RESULT"`))
	w.until("another worker completes the job", func() bool { return w.job(1).State == "completed" })
	if err := still.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.allGone()
	if j := w.job(1); string(j.Result) != "other\n" || j.Crashes < 1 {
		t.Errorf("%+v", j)
	}
}

// TestSojournWorkGrace: after SIGTERM a running program may finish within the grace period. Then it
// gets SIGTERM itself, and its exit code and files decide the outcome.
func TestSojournWorkGrace(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	worker := w.worker("--exec", w.program(`echo $$ >>`+w.folder+`/pids; while [ ! -e `+w.folder+`/go ]; do sleep 0.05; done; echo whole >"$SOJOURN_RESULT"`))
	w.pids("pids", 1)
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(w.folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if j := w.job(1); j.State != "completed" || string(j.Result) != "whole\n" {
		t.Errorf("within the grace: %+v", j)
	}
	w.enqueue()
	worker = w.worker("--grace", "0", "--exec", w.program(`trap 'echo 1h >"$SOJOURN_RETRY_AFTER"; echo 2 >"$SOJOURN_CHECKPOINT"; exit 75' TERM
echo $$ >>`+w.folder+`/second; while :; do sleep 0.05; done`))
	w.pids("second", 1)
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if j := w.job(2); j.State != "scheduled" || string(j.Checkpoint) != "2" || j.Failures+j.Crashes != 0 {
		t.Errorf("by its own word: %+v", j)
	}
}

// TestSojournWorkCheckpoint: a checkpoint that was moved to its place outlives kill -9, and the
// next run has it.
func TestSojournWorkCheckpoint(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	program := w.program(`if [ -s "$SOJOURN_CHECKPOINT" ]; then cp "$SOJOURN_CHECKPOINT" "$SOJOURN_RESULT"; exit 0; fi
echo 7 >new; mv new "$SOJOURN_CHECKPOINT"; while :; do sleep 1; done`)
	// On a busy machine a short lease would end again and again, until the job fails. The second
	// worker need not wait for the end of the lease: it sees that its owner is dead.
	first := w.worker("--lease", "20s", "--exec", program)
	w.until("the checkpoint is stored", func() bool { return string(w.job(1).Checkpoint) == "7" })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.worker("--lease", "1s", "--exec", program)
	w.until("the job is completed", func() bool { return w.job(1).State == "completed" })
	if j := w.job(1); string(j.Result) != "7" || j.Attempt != 2 {
		t.Errorf("%+v", j)
	}
}

// TestSojournWorkIsKilled: with kill -9 of its worker all that its program has started dies too,
// nothing stays in the temporary folder, and the job runs elsewhere.
func TestSojournWorkIsKilled(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	first := w.worker("--lease", "1s", "--exec", w.stubborn())
	w.pids("pids", 2)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.allGone()
	w.until("the folder of the run is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(temporary, "sojourn-work-*"))
		return err == nil && len(left) == 0
	})
	w.worker("--lease", "1s", "--exec", w.program(`[ "$SOJOURN_ATTEMPT" -ge 2 ]`))
	w.until("the job is completed", func() bool { return w.job(1).State == "completed" })
	if j := w.job(1); j.Attempt < 2 || j.Crashes < 1 {
		t.Errorf("%+v", j)
	}
}

// TestSojournWorkConcurrency (spec:W6): never more than N at a time, and N if there is work for
// them.
func TestSojournWorkConcurrency(t *testing.T) {
	w := newWorkshop(t)
	for range 9 {
		w.enqueue()
	}
	// Each takes a place, says how many are taken, and waits until three are, so that the test
	// needs three at a time.
	program := w.program(`cd ` + w.folder + ` && mkdir -p places && mkdir places/$SOJOURN_ID && ls places | wc -l >>seen
for i in $(seq 1000); do [ $(wc -l <seen) -ge 3 ] && break; sleep 0.02; done
sleep 0.05; rmdir places/$SOJOURN_ID`)
	w.worker("--concurrency", "3", "--exec", program)
	w.until("all are completed", func() bool {
		_, out := w.run("job", "ls", "--state", "completed", "-o", "json")
		return strings.Count(out, "\n") == 9
	})
	most := 0
	for _, n := range w.pids("seen", 9) {
		most = max(most, n)
	}
	if most != 3 {
		t.Errorf("%d ran at a time, want 3", most)
	}
}

// TestSojournWorkHTTP: a request goes out with a link, and the answer to the link, which another
// process takes, completes the job.
func TestSojournWorkHTTP(t *testing.T) {
	w := newWorkshop(t)
	webhook := exec.Command(w.sojourn, "webhook", "--listen", "127.0.0.1:0", "--store", w.store)
	said, err := webhook.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	links := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		links <- r.Header.Get("Sojourn-Respond-Url")
		rw.WriteHeader(http.StatusAccepted)
	}))
	defer receiver.Close()
	_, port, _ := net.SplitHostPort(receiver.Listener.Addr().String())
	if code, out := w.run("enqueue", "http", "--args", `{"url": "`+receiver.URL+`/charges", "body": {"cents": 1999}, "await": true, "within": "1h"}`); code != 0 {
		t.Fatal(out)
	}
	if code, out := w.run("work", "--http", "--once", "--allow-http", "--allow-port", port); code != 0 || !strings.Contains(out, "http_refused") {
		t.Fatalf("loopback is not allowed, and yet: %d %s", code, out)
	}
	w.run("job", "redrive", "1")
	if err := proctest.Start(webhook); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = webhook.Process.Kill(); _ = webhook.Wait() }()
	line, _ := bufio.NewReader(said).ReadString('\n')
	address := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	work := []string{"work", "--http", "--once", "--allow-http", "--allow-port", port, "--allow-cidr", "127.0.0.1/32", "--respond-url", "http://" + address}
	if code, out := w.run(work...); code != 0 || !strings.Contains(out, "awaiting") {
		t.Fatalf("%d %s", code, out)
	}
	answer, err := http.Post(<-links, "application/json", strings.NewReader(`{"paid":true}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if code, out := w.run(work...); code != 0 || !strings.Contains(out, "completed") || len(links) > 0 {
		t.Errorf("%d %s, %d more requests", code, out, len(links))
	}
	if j := w.job(1); answer.StatusCode != 200 || !strings.Contains(string(j.Result), `"status":202`) || !strings.Contains(string(j.Result), `"body":{"paid":true}`) {
		t.Errorf("%d %+v %s", answer.StatusCode, j, j.Result)
	}
	for want, args := range map[string][]string{
		"give --http too": {"--kind", "k", "--exec", "/bin/true", "--allow-http"}, "not a network": {"--http", "--allow-cidr", "10.0.0.1"}, "not a port": {"--http", "--allow-port", "70000"},
		"out of range": {"--http", "--http-timeout", "1h"}, "named twice": {"--http", "--kind", "http", "--exec", "/bin/true"}, "name a program": {"--http", "--kind", "k"},
	} {
		if code, out := w.run(append([]string{"work"}, args...)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
}
