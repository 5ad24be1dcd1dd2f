package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scenario is the file that every client and worker runs.
const scenario = "../../sdk/scenario.json"

// TestScenario runs the same steps with the client and the worker of each language against a server of its own: spec:H7, spec:H10, spec:P11,
// inv:F5, bad:48, tr:M1, tr:R1, tr:R5, tr:L5, tr:F5, tr:F8, tr:O1.
func TestScenario(t *testing.T) {
	text, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Steps []scenarioStep }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		url, token := serveScenario(t)
		runScenario(t, url, token, all.Steps)
	})
	for language, command := range map[string][]string{
		"python":     {"python3", "../../sdk/python/tests/scenario.py"},
		"typescript": {"node", "../../sdk/typescript/test/scenario.js"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			program := interpreter(t, command[0])
			url, token := serveScenario(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append(command[1:], scenario, url)...)
			cmd.Env = append(os.Environ(), "SOJOURN_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if want := "passed " + strconv.Itoa(len(all.Steps)); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, want %q:\n%s", err, want, out)
			}
		})
	}
}

// interpreter finds the program that runs an SDK. CI installs it, so there it must be.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return path
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
