package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// scenario is the file that every client and worker runs.
const scenario = "../../sdk/scenario.json"

// TestScenario runs the same steps with the client and the worker of each language against a server
// of its own: spec:H7, spec:H10, spec:P11, inv:F5, tr:M1, tr:R1, tr:R5, tr:L5, tr:F5,
// tr:F8, tr:O1.
func TestScenario(t *testing.T) {
	text, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Steps []scenarioStep }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, through := range []struct {
		name string
		url  func(t *testing.T, server string) string
	}{
		{"", func(_ *testing.T, server string) string { return server }},
		{" through losses", lossy}, // inv:A3: calls are repeated where that is safe
	} {
		t.Run("go"+through.name, func(t *testing.T) {
			t.Parallel()
			url, token := serveScenario(t)
			runScenario(t, through.url(t, url), token, all.Steps)
		})
		for _, language := range sdkLanguages {
			t.Run(language+through.name, func(t *testing.T) {
				t.Parallel()
				command := sdkProgram(t, language, "scenario")
				url, token := serveScenario(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, command[0], command[1], scenario, through.url(t, url))
				cmd.Env = append(os.Environ(), "SOJOURN_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1")
				out, err := proctest.CombinedOutput(cmd)
				if want := "passed " + strconv.Itoa(len(all.Steps)); err != nil || !strings.Contains(string(out), want) {
					t.Errorf("%v, want %q:\n%s", err, want, out)
				}
			})
		}
	}
}

// lossy is a way to a server on which every third request is lost, in turns before it is executed
// and after that with its answer, as far as a client may send such a request again and gets the
// same answer. Of the reads of events every second one is lost. What it sends again arrives.
func lossy(t *testing.T, server string) string {
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = log.New(io.Discard, "", 0) // callers that leave in the middle of a long poll
	var mu sync.Mutex
	seen := map[string]bool{}
	cut, lost := 0, false // lost: the last read of events was
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		repeats := r.Method == http.MethodGet || slices.Contains([]string{"/v1/ids", "/v1/claim", "/v1/extend", "/v1/save", "/v1/finish", "/v1/jobs/find"}, r.URL.Path)
		events := strings.HasPrefix(r.URL.Path, "/v1/followers/") && strings.HasSuffix(r.URL.Path, "/read")
		if r.URL.Path == "/v1/finish" && bytes.Contains(body, []byte("InpvbWJpZSI=")) {
			t.Error(`the step that has lost its lease reports its result, "zombie"`)
		}
		mu.Lock()
		what := r.RequestURI + string(body)
		lose := repeats && !seen[what] && len(seen)%3 == 2 && !bytes.Contains(body, []byte("released"))
		seen[what] = true
		if events {
			lost = !lost
			lose = lost
		}
		if lose {
			cut++
		}
		executed := !lose || cut%2 == 0
		mu.Unlock()
		if !lose {
			forward.ServeHTTP(w, r)
			return
		}
		if executed {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	}))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
		if cut < 10 {
			t.Errorf("%d answers were lost, too few to show anything", cut)
		}
	})
	return proxy.URL
}

// interpreter finds the program that runs an SDK. CI installs it, so there it must be.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	return proctest.LookPath(t, name)
}

// serveScenario starts a server on a store with a token that may do everything.
func serveScenario(t *testing.T) (url, token string) {
	t.Helper()
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte((&started{T: t}).command("token", "create", "--store", store, "--name", "a", "--verb", "admin", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	return serve(t, "--store", store).url, made.Token
}

// eventually waits for something that must happen.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to that: %s", what)
		}
	}
}
