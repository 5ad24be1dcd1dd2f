//go:build unix

package execjob_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/execjob"
)

var kind = sojourn.Kind[[]byte]{Name: "k", Codec: sojourn.Bytes, Key: func([]byte) string { return "order-42" }}

// script writes a program and gives its options.
func script(t *testing.T, text string) execjob.Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return execjob.Options{Command: []string{path}}
}

// handled is a queue whose kind k is worked off by a program.
func handled(t *testing.T, o execjob.Options, options ...sojourntest.Option) *sojourntest.Harness {
	t.Helper()
	h := sojourntest.New(t, options...)
	handle(t, h, kind, o)
	return h
}

// handle runs a program for a kind, and checks for leftover files at the end.
func handle(t *testing.T, h *sojourntest.Harness, k sojourn.Kind[[]byte], o execjob.Options) {
	t.Helper()
	o.Folder = t.TempDir()
	p, err := execjob.New(o)
	if err != nil {
		t.Fatal(err)
	}
	sojourntest.Handle(h, k, p.Run)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(o.Folder); err != nil || len(left) > 0 {
			t.Errorf("left in the folder of runs: %v, %v", left, err)
		}
	})
}

// TestExitStatus: a program runs for each job, in a process of its own, and its exit status decides
// what becomes of the job (spec:W7).
func TestExitStatus(t *testing.T) {
	h := sojourntest.New(t)
	for i, c := range []struct {
		name, script  string
		state         sojourn.State
		reason, error string // parts
	}{
		{"0", `exit 0`, sojourn.Completed, "", ""},
		{"1", `echo first >&2; echo the bank is closed >&2; exit 1`, sojourn.Scheduled, "exit_1", "exit status 1: first\nthe bank is closed"},
		{"2", `exit 2`, sojourn.Scheduled, "exit_2", "exit status 2"},
		{"65", `echo no such order >&2; exit 65`, sojourn.Failed, "exit_65", "no such order"},
		{"65 with a detail", `printf '{"line": 3}' >"$SOJOURN_ERROR_DETAIL"; exit 65`, sojourn.Failed, "exit_65", ""},
		{"1 with a detail", `printf 'no JSON' >"$SOJOURN_ERROR_DETAIL"; exit 1`, sojourn.Scheduled, "exit_1", ""},
		{"75", `exit 75`, sojourn.Scheduled, "", ""},
		{"75 with a time", `echo 10s >"$SOJOURN_RETRY_AFTER"; exit 75`, sojourn.Scheduled, "", ""},
		{"75 with nonsense", `echo soon >"$SOJOURN_RETRY_AFTER"; exit 75`, sojourn.Scheduled, "exec_output", `retry_after: "soon" is not a duration`},
		{"75 with less than nothing", `echo -1s >"$SOJOURN_RETRY_AFTER"; exit 75`, sojourn.Scheduled, "exec_output", `retry_after: "-1s" is not a duration`},
		{"77", `exit 77`, sojourn.Awaiting, "", ""},
		{"77 with a wait", `echo '{"within": "6h", "keys": ["a", "b"], "mode": "all", "beat": "5m"}' >"$SOJOURN_AWAIT"; exit 77`, sojourn.Awaiting, "", ""},
		{"77 with another field", `echo '{"withn": "6h"}' >"$SOJOURN_AWAIT"; exit 77`, sojourn.Scheduled, "exec_output", `unknown field "withn"`},
		{"77 with no JSON", `echo 6h >"$SOJOURN_AWAIT"; exit 77`, sojourn.Scheduled, "exec_output", `the file await`},
		{"77 with no duration", `echo '{"within": "6"}' >"$SOJOURN_AWAIT"; exit 77`, sojourn.Scheduled, "exec_output", `the file await: "6" is not a duration`},
		{"77 with a bad key", `printf '{"keys": ["\\u0001"]}' >"$SOJOURN_AWAIT"; exit 77`, sojourn.Scheduled, "invalid", "wait.keys"},
		{"a signal", `kill -9 $$`, sojourn.Scheduled, "exec_signal", "signal: killed"},
		{"a result that is a pipe", `mkfifo "$SOJOURN_RESULT"`, sojourn.Scheduled, "exec_output", "the file result: is no regular file"},
		{"a result that is a link", `ln -s /etc/hostname "$SOJOURN_RESULT"`, sojourn.Scheduled, "exec_output", "is no regular file"},
		{"a result that is too large", `head -c 300000 /dev/zero >"$SOJOURN_RESULT"`, sojourn.Scheduled, "too_large", "262144"},
		{"input that is not read", `exec <&-; exit 0`, sojourn.Completed, "", ""},
		{"the last attempt", `exit 9`, sojourn.Failed, "exit_9", "exit status 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := sojourn.Kind[[]byte]{Name: fmt.Sprint("k", i), Codec: sojourn.Bytes}
			handle(t, h, kind, script(t, c.script))
			var options []sojourn.Option
			if c.state == sojourn.Failed && !strings.HasPrefix(c.name, "65") {
				options = append(options, sojourn.WithPolicy(sojourn.Policy{MaxAttempts: 1}))
			}
			id := h.Enqueue(kind.New([]byte(`{}`), options...))
			h.Step()
			job := h.Job(id)
			if job.State != c.state || job.Reason != c.reason || !strings.Contains(job.Error, c.error) || c.reason == "" && job.Failures != 0 {
				t.Errorf("%v, reason %q, %d failures, error %q", job.State, job.Reason, job.Failures, job.Error)
			}
			wake := job.WakeAt.Sub(h.Now())
			switch c.name {
			case "75":
				if wake != execjob.DefaultRetryAfter {
					t.Errorf("runs again after %v", wake)
				}
			case "75 with a time":
				if wake != 10*time.Second {
					t.Errorf("runs again after %v", wake)
				}
			case "65 with a detail", "1 with a detail":
				if want := map[string]string{"65 with a detail": `{"line":3}`, "1 with a detail": `"no JSON"`}[c.name]; string(job.ErrorDetail) != want {
					t.Errorf("the detail is %s, want %s", job.ErrorDetail, want)
				}
			case "77 with a wait":
				if a := job.Waiting; a == nil || a.Mode != sojourn.WaitAll || fmt.Sprint(a.Keys) != "[a b]" || a.Until.Sub(h.Now()) != 6*time.Hour || a.Beat.Sub(h.Now()) != 5*time.Minute {
					t.Errorf("awaits %+v", job.Waiting)
				}
			}
		})
	}
}

// TestWhatAProgramSees: the job as JSON, its bytes as files, an answer and a checkpoint in the next
// run; the environment is a short list.
func TestWhatAProgramSees(t *testing.T) {
	t.Setenv("SOJOURN_TOKEN", "secret-token")
	t.Setenv("SOJOURN_URL", "postgres://user:secret-word@db/x")
	o := script(t, `
if [ -z "$SOJOURN_RESPONSE" ]; then
	[ -s "$SOJOURN_CHECKPOINT" ] && exit 3
	printf 'asked' >"$SOJOURN_CHECKPOINT"
	exit 77
fi
{ printf '{"job":'; cat; printf ',"env":"'; env | base64 -w0; printf '","args":"'; base64 -w0 "$SOJOURN_ARGS"; printf '","response":"'
  base64 -w0 "$SOJOURN_RESPONSE"; printf '","checkpoint":"'; cat "$SOJOURN_CHECKPOINT"; printf '"}'; } >"$SOJOURN_RESULT"`)
	o.Env = []string{"WANTED=yes", "SOJOURN_ARGS=mine"}
	h := handled(t, o, sojourntest.WithWorker(worker.Options{RespondURL: "https://shop.example/in"}))
	for i, args := range []string{`{"a":  1.0e400, "b": "<&>"}`, "\xff\x00 no text", `{"$base64":"eA=="}`, ""} {
		id := h.Enqueue(kind.New([]byte(args), sojourn.Tags("t"), sojourn.Meta("trace", "1")))
		h.Step()
		if job := h.Job(id); job.State != sojourn.Awaiting || string(job.Checkpoint) != "asked" {
			t.Fatalf("%v %s, checkpoint %q", job.State, job.Error, job.Checkpoint)
		}
		h.Respond(sojourn.Response{Kind: "k", Key: "order-42", Body: []byte("\xfe"), Source: "bank", MessageID: fmt.Sprint("m", i)})
		h.Step()
		job := h.Job(id)
		var saw struct {
			Job struct {
				ID             int64
				Kind, Key      string
				Attempt        int
				Purpose        string
				IdempotencyKey string `json:"idempotency_key"`
				RespondURL     string `json:"respond_url"`
				Args           json.RawMessage
				Checkpoint     json.RawMessage
				Response       struct {
					Source string
					Body   json.RawMessage
				}
				Tags []string
			}
			Env, Args, Response []byte
			Checkpoint          string
		}
		if err := json.Unmarshal(job.Result, &saw); err != nil || job.ResultType != "application/json" {
			t.Fatalf("%v\n%s: %s", err, job.ResultType, job.Result)
		}
		if string(saw.Args) != args || string(saw.Response) != "\xfe" || saw.Checkpoint != "asked" {
			t.Errorf("files: args %q, response %q, checkpoint %q", saw.Args, saw.Response, saw.Checkpoint)
		}
		want := `{"$base64":"` + base64.StdEncoding.EncodeToString([]byte(args)) + `"}`
		if strings.Contains(args, "1.0e400") {
			want = `{"a":1.0e400,"b":"<&>"}`
		}
		j := saw.Job
		if got := string(j.Args); got != want && args != "" || args == "" && got != "" {
			t.Errorf("args %q are shown as %s", args, got)
		}
		if j.ID != int64(id) || j.Kind != "k" || j.Key != "order-42" || j.Attempt != 1 || j.Purpose != "resume" || j.IdempotencyKey != job.IdempotencyKey() ||
			!strings.HasPrefix(j.RespondURL, "https://shop.example/in/respond/") || string(j.Response.Body) != `{"$base64":"/g=="}` || j.Response.Source != "bank" ||
			string(j.Checkpoint) != `{"$base64":"YXNrZWQ="}` || len(j.Tags) != 1 {
			t.Errorf("job: %+v", j)
		}
		env := string(saw.Env)
		if strings.Contains(env, "secret") || !strings.Contains(env, "WANTED=yes\n") || strings.Contains(env, "=mine") || !strings.Contains(env, "PATH=") ||
			!strings.Contains(env, fmt.Sprintf("SOJOURN_ID=%d\n", id)) || !strings.Contains(env, "SOJOURN_RESPOND_URL="+j.RespondURL+"\n") {
			t.Errorf("environment:\n%s", env)
		}
	}
}

// TestResultTypes: text and bytes are no JSON.
func TestResultTypes(t *testing.T) {
	for text, want := range map[string]string{`{"ok":true}`: "application/json", "charged": "text/plain; charset=utf-8", `\377`: "application/octet-stream"} {
		h := handled(t, script(t, `printf '`+text+`' >"$SOJOURN_RESULT"`))
		id := h.Enqueue(kind.New(nil))
		h.Step()
		if job := h.Job(id); job.ResultType != want {
			t.Errorf("%s is %s %q, want %s", text, job.ResultType, job.Result, want)
		}
	}
}

// TestOutputIsTheLog: lines of both streams, cut as the log cuts them, the first and the newest; 5
// MB in one line and 100,000 lines need no room.
func TestOutputIsTheLog(t *testing.T) {
	h := handled(t, script(t, `echo first; printf '\377\000odd\n\n' ; printf 'no end' >&2; head -c 5000000 /dev/zero | tr '\0' x; echo; yes | head -n 100000; exit 1`))
	id := h.Enqueue(kind.New(nil))
	h.Step()
	log, err := h.Client.Store().Log(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	dropped := int64(0)
	for _, l := range log {
		dropped += l.Dropped
		if len(l.Text) > sojourn.MaxProgress {
			t.Errorf("a line of %d bytes", len(l.Text))
		}
	}
	if len(log) != sojourn.MaxLogLines || log[0].Text != "first" || log[0].Level != "INFO" || dropped < 99_000 {
		t.Errorf("%d lines, the first %+v, %d dropped", len(log), log[0], dropped)
	}
	last := log[len(log)-1] // a line without an end is logged when all has ended
	if last.Text != "no end" || last.Level != "WARN" {
		t.Errorf("the last line is %+v", last)
	}
	if job := h.Job(id); job.Error != "exit status 1: no end" {
		t.Errorf("error %q", job.Error)
	}
}

// TestTail: of a long standard error the text of the error has the end, from the beginning of a
// line on.
func TestTail(t *testing.T) {
	h := handled(t, script(t, `i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`))
	id := h.Enqueue(kind.New(nil))
	h.Step()
	text, ok := strings.CutPrefix(h.Job(id).Error, "exit status 1: line ")
	if !ok || !strings.HasSuffix(text, "line 1998\nline 1999") || len(text) > execjob.MaxTail {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
}

// TestRefusals: what cannot be run is refused before a job is claimed.
func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]execjob.Options{
		"name a program":       {},
		"not executable":       {Command: []string{plain}},
		"no such file":         {Command: []string{filepath.Join(folder, "none")}},
		"not in PATH":          {Command: []string{"no-such-program-of-sojourn"}},
		"cannot be run":        {Command: []string{folder}},
		"timeout: -1s is out ": {Command: []string{"/bin/sh"}, Timeout: -time.Second},
	} {
		if _, err := execjob.New(o); sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// TestProgramGoesMissing: one that has gone since the start, or that no system can run, is an error
// of the job.
func TestProgramGoesMissing(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"gone":    os.Remove,
		"no #!":   func(path string) error { return os.WriteFile(path, []byte("\x00\x01"), 0o700) },
		"no mode": func(path string) error { return os.Chmod(path, 0) },
	} {
		o := script(t, `exit 0`)
		h := handled(t, o)
		if err := change(o.Command[0]); err != nil {
			t.Fatal(err)
		}
		id := h.Enqueue(kind.New(nil))
		h.Step()
		if job := h.Job(id); job.State != sojourn.Scheduled || job.Reason != "exec_start" || !strings.Contains(job.Error, "could not be started") {
			t.Errorf("%s: %v %s %q", name, job.State, job.Reason, job.Error)
		}
	}
}

// TestNothingIsLeftBehind: what a program has started ends with it, and holds nothing up by keeping
// its output open.
func TestNothingIsLeftBehind(t *testing.T) {
	h := handled(t, script(t, `trap "" TERM; sleep 1000 & echo $! >"$SOJOURN_RESULT"`))
	id := h.Enqueue(kind.New(nil))
	h.Step()
	job := h.Job(id)
	pid, err := strconv.Atoi(strings.TrimSpace(string(job.Result)))
	if err != nil || job.State != sojourn.Completed {
		t.Fatalf("%v %s: %v", job.State, job.Error, err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if gone := syscall.Kill(pid, 0); errors.Is(gone, syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z") {
			break
		}
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child lives on")
		}
	}
}
