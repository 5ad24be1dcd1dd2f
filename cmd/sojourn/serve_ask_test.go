package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// receive starts "sojourn webhook" on a free port of loopback and returns its URL.
func receive(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(sojournCommand(t), append([]string{"webhook", "--listen", "127.0.0.1:0"}, args...)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(log).ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("the receiver said %q", line)
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return "http://" + addr
}

// browse sends a request as a browser without JavaScript does, and follows to the page.
func browse(t *testing.T, link string, form url.Values) (int, string) {
	t.Helper()
	got, err := http.Get(link)
	if form != nil {
		got.Body.Close()
		got, err = http.PostForm(link, form)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(b)
}

// TestServeQuestions: "serve" and "webhook" serve the page of one link (spec:H13), without an
// access token where the API needs one. No link is in a log.
func TestServeQuestions(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	made := madeFor(t, store, "create", "--name", "worker", "--verb", "enqueue", "--verb", "work", "--verb", "respond")
	s := serve(t, "--store", store, "--log", "json")
	if status, body := s.send("POST", "/v1/jobs", `{"kind":"k"}`, made.Token); status != 201 {
		t.Fatalf("enqueue: %d %s", status, body)
	}
	_, body := s.send("POST", "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["k"],"max":1,"capacity":9}`, made.Token)
	var claimed struct {
		Jobs []struct {
			Lease json.RawMessage
			Job   struct{ Token string }
		}
	}
	if err := json.Unmarshal([]byte(body), &claimed); err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("claim: %s", body)
	}
	token := claimed.Jobs[0].Job.Token
	question := `{"title":"Go?","choices":[{"value":"y","label":"Yes, go"},{"value":"n"}]}`
	finish := func(question string) string {
		_, body := s.send("POST", "/v1/finish", `{"outcomes":[{"lease":`+string(claimed.Jobs[0].Lease)+`,"type":"await","ask":`+question+`}]}`, made.Token)
		return body
	}
	if got := finish(`{"title":"Go?"}`); !strings.Contains(got, `"refused"`) || !strings.Contains(got, "ask.choices") {
		t.Fatalf("a question without choices: %s", got)
	}
	if got := finish(question); !strings.Contains(got, `"awaiting"`) {
		t.Fatalf("finish: %s", got)
	}
	pages := []string{s.url + "/ask/" + token, receive(t, "--store", store) + "/ask/" + token}
	var form url.Values
	for _, link := range pages {
		status, page := browse(t, link, nil)
		field := regexp.MustCompile(`name="form" value="([^"]*)"`).FindStringSubmatch(page)
		if status != 200 || field == nil || !strings.Contains(page, "Yes, go") {
			t.Fatalf("%d %s", status, page)
		}
		form = url.Values{"form": {field[1]}, "choice": {"y"}}
	}
	if status, body := s.send("POST", "/v1/responses/ask", `{"token":"`+token+`"}`, made.Token); status != 200 || !strings.Contains(body, `"state":"open"`) {
		t.Errorf("the API says %d %s", status, body)
	}
	if status, _ := s.send("POST", "/v1/responses/ask", `{"token":"`+token+`"}`, ""); status != 401 {
		t.Errorf("the API without a token says %d", status)
	}
	for _, link := range []string{pages[1], pages[0], pages[1]} { // two processes, one answer
		if status, page := browse(t, link, form); status != 200 || !strings.Contains(page, "<strong>Yes, go</strong>") {
			t.Errorf("%d %s", status, page)
		}
	}
	if got := s.command("inbox", "ls", "--store", store, "-o", "json"); strings.Count(got, `"seq":`) != 1 {
		t.Errorf("the inbox: %s", got)
	}
	if status, _ := browse(t, receive(t, "--store", store, "--no-links")+"/ask/"+token, nil); status != 404 {
		t.Errorf("without links: %d", status)
	}
	if log := s.log(); strings.Contains(log, token) {
		t.Errorf("the log has the link:\n%s", log)
	}
}
