package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

// started is a server in a process of its own.
type started struct {
	*testing.T
	cmd *exec.Cmd
	url string
	err string // file with its log
}

// serve starts a server on a free port of loopback.
func serve(t *testing.T, args ...string) *started {
	t.Helper()
	folder := t.TempDir()
	s := &started{T: t, err: filepath.Join(folder, "log")}
	s.cmd = exec.Command(sojournCommand(t), append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(s.err)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stderr = log
	if err := proctest.Start(s.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if s.url = regexp.MustCompile(`https?://\S+`).FindString(line); s.url == "" {
		t.Fatalf("the server said %q\n%s", line, s.log())
	}
	return s
}

func (s *started) log() string {
	b, _ := os.ReadFile(s.err)
	return string(b)
}

// send sends JSON and reads the answer.
func (s *started) send(method, path, body, token string) (int, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatal(err)
	}
	return got.StatusCode, string(b)
}

// command runs the command and returns its standard output.
func (s *started) command(args ...string) string {
	s.Helper()
	out, err := proctest.Output(exec.Command(sojournCommand(s.T), args...))
	if err != nil {
		s.Fatalf("%v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// TestServe starts a server, drains it in the middle of a long poll, and starts it again with a
// token in the store. Neither args nor tokens are in the log.
func TestServe(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	s := serve(t, "--store", store)
	ready := func() bool { status, _ := s.send("GET", "/readyz", "", ""); return status == 200 }
	for end := time.Now().Add(patience); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not ready\n%s", s.log())
		}
	}
	if status, body := s.send("POST", "/v1/jobs", `{"kind":"k","args":"hidden-args"}`, ""); status != 201 {
		t.Fatalf("enqueue: %d %s", status, body)
	}
	if out := s.command("job", "ls", "--store", s.url, "-o", "json"); !strings.Contains(out, `"kind":"k"`) {
		t.Errorf("job ls on the server: %s", out)
	}
	polled := make(chan string, 1)
	go func() {
		_, body := s.send("POST", "/v1/claim", `{"worker":"w","queues":["none"],"kinds":["k"],"max":1,"wait":"60s"}`, "")
		polled <- body
	}()
	for end := time.Now().Add(patience); !strings.Contains(metricsOf(s, ""), `route="POST /v1/jobs"`); { // the server answers others meanwhile
		if time.Now().After(end) {
			t.Fatal("no metrics")
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-polled; !strings.Contains(got, `"jobs":[]`) && !strings.Contains(got, "draining") {
		t.Errorf("the long poll answered %s", got)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, s.log())
	}
	if log := s.log(); strings.Contains(log, "hidden") || !strings.Contains(log, "stopped") {
		t.Errorf("the log:\n%s", log)
	}
	serveWithToken(t, store)
}

func metricsOf(s *started, token string) string {
	_, body := s.send("GET", "/metrics", "", token)
	return body
}

func serveWithToken(t *testing.T, store string) {
	t.Helper()
	var made struct{ ID, Token string }
	first := &started{T: t}
	if err := json.Unmarshal([]byte(first.command("token", "create", "--store", store, "--name", "a", "--verb", "admin", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--store", store, "--log", "json")
	if status, body := s.send("GET", "/v1/jobs/1", "", ""); status != 401 {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, body := s.send("GET", "/v1/jobs/1", "", made.Token); status != 200 || !strings.Contains(body, "hidden-args") {
		t.Errorf("with a token: %d %s", status, body)
	}
	t.Setenv("SOJOURN_TOKEN", made.Token)
	if out := s.command("job", "get", "1", "--store", s.url, "-o", "json"); !strings.Contains(out, `"kind":"k"`) {
		t.Errorf("job get with a token: %s", out)
	}
	s.command("token", "revoke", made.ID, "--store", store)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := s.send("GET", "/v1/jobs/1", "", made.Token); status == 401 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a revoked token still opens the door")
		}
	}
	if log := s.log(); strings.Contains(log, made.Token[4:]) || strings.Contains(log, "hidden") || !strings.Contains(log, made.ID) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestServeRefuses: off loopback a server without a token does not start, and says what to do.
func TestServeRefuses(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	for want, args := range map[string][]string{
		"sojourn token create": {"--addr", "0.0.0.0:0"}, "loopback": {"--pprof", "0.0.0.0:6060"}, "give --tls-cert and --tls-key together": {"--tls-cert", "x"},
	} {
		out, err := proctest.CombinedOutput(exec.Command(sojournCommand(t), append([]string{"serve", "--store", store}, args...)...))
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestQuickstartWithCurl runs docs/guides/curl.md as it stands (spec:H10).
func TestQuickstartWithCurl(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		proctest.LookPath(t, tool)
	}
	l, err := net.Listen("tcp", "127.0.0.1:7575")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("something listens on port 7575, which the page names: ", err)
	} else if err == nil {
		l.Close()
	}
	page, err := os.ReadFile("../../docs/guides/curl.md")
	if err != nil {
		t.Fatal(err)
	}
	script := ""
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script += block[1] + "echo\n"
	}
	cmd := proctest.Script(t, script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(sojournCommand(t))+":"+os.Getenv("PATH"), "no_proxy=127.0.0.1")
	out, err := proctest.CombinedOutput(cmd)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"ready":true`, `{"id":1,"state":"ready"}`, `"args":{"cents":1999}`, `"state":"awaiting"`, `"outcome":"applied"`, `"body":{"paid":true}`,
		`"result":"charged"`, `{"line":2,`, "send_mail", "thumbnail"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the page does not print %s:\n%s", want, out)
		}
	}
}
