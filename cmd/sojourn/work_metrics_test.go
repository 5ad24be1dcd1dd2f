//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// A worker serves its metrics, and logs JSON with --log json: also each failed attempt, once.
func TestWorkMetricsAndLog(t *testing.T) {
	w := newWorkshop(t)
	w.enqueue("--max-attempts", "1")
	cmd := exec.Command(w.sojourn, "work", "--kind", "k", "--store", w.store, "--metrics", "127.0.0.1:0", "--log", "json", "--exec", w.program("exit 1"))
	cmd.Dir = w.folder
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	addr, failures := "", 0
	for lines := bufio.NewScanner(logs); failures == 0 && lines.Scan(); {
		var line struct {
			Level, Msg, Addr, Kind, Reason string
			Job, Attempt                   int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%q is not JSON: %v", lines.Text(), err)
		}
		if line.Msg == "metrics" {
			addr = line.Addr
		}
		if line.Kind == "k" && line.Job > 0 {
			failures++
			if line.Level != "ERROR" || line.Attempt != 1 || line.Reason == "" {
				t.Errorf("the log has %s", lines.Text())
			}
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	w.until("the metrics show the end", func() bool {
		response, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		b, _ := io.ReadAll(response.Body)
		return strings.Contains(string(b), `sojourn_worker_ended_total{kind="k",outcome="error",queue="default",reason=`) && strings.Contains(string(b), "sojourn_build_info{")
	})
	for _, args := range [][]string{{"--log", "xml"}, {"--metrics", "7575"}} {
		if code, out := w.run(append([]string{"work", "--kind", "k", "--exec", "true"}, args...)...); code != 2 || !strings.Contains(out, args[1]) {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}
