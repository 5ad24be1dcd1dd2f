package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

const scheduleTables = `
[[schedule]]
name = "nightly"
cron = "30 2 * * *"
zone = "Europe/Berlin"
overlap = "skip"
[schedule.job]
kind = "report"
args = { format = "pdf" }

[[schedule]]
name = "often"
every = "1h"
job = { kind = "ping", queue = "line" }
`

// TestFileDeclaresSchedules: "serve" and "work" declare the schedules of their settings file when
// they start, and what an operator has paused or changed since stays. spec:N6
func TestFileDeclaresSchedules(t *testing.T) {
	folder := t.TempDir()
	store, file := "sqlite:"+filepath.Join(folder, "jobs.db"), filepath.Join(folder, "settings.toml")
	if err := os.WriteFile(file, []byte(scheduleTables), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--store", store, "--config", file)
	get := func(name string) string { return s.command("schedule", "get", name, "--store", store) }
	if got := get("nightly"); !strings.Contains(got, "every day at 02:30, Europe/Berlin") || strings.Contains(got, "paused") {
		t.Errorf("after the start the schedule is %s", got)
	}
	s.command("schedule", "pause", "nightly", "--store", store)
	s.command("schedule", "set", "often", "ping", "--every", "2h", "--queue", "line", "--store", store)
	for _, start := range []func() (stop func()){
		func() func() { serve(t, "--store", store, "--config", file); return func() {} },
		func() func() {
			if err := os.WriteFile(file, []byte(scheduleTables+"\n[[schedule]]\nname = \"of-work\"\ncron = \"@daily\"\njob = { kind = \"k\" }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(sojournCommand(t), "work", "--store", store, "--config", file, "--kind", "none", "--", "true")
			cmd.Dir = folder
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the worker declares its schedules", func() bool {
				return strings.Contains(s.command("schedule", "ls", "--store", store), "of-work")
			})
			return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		},
	} {
		stop := start()
		if got := get("nightly"); !strings.Contains(got, "paused") {
			t.Errorf("a start has ended an operator's pause: %s", got)
		}
		if got := get("often"); !strings.Contains(got, "every 2h") {
			t.Errorf("a start has undone an operator's change: %s", got)
		}
		stop()
	}
}

// TestBadSchedulesInFile: a table that cannot be is refused where it stands, also by commands that
// declare nothing.
func TestBadSchedulesInFile(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "settings.toml")
	for what, table := range map[string]string{
		"a misspelt field": "[[schedule]]\nname = \"a\"\ncrone = \"@daily\"\njob = { kind = \"k\" }", "no job": "[[schedule]]\nname = \"a\"\ncron = \"@daily\"",
		"a bad expression": "[[schedule]]\nname = \"a\"\ncron = \"60 * * * *\"\njob = { kind = \"k\" }", "no name": "[[schedule]]\ncron = \"@daily\"\njob = { kind = \"k\" }",
		"no list": "[schedule]\nname = \"a\"", "a number for a duration": "[[schedule]]\nname = \"a\"\nevery = 3600\njob = { kind = \"k\" }",
		"twice":            "[[schedule]]\nname = \"a\"\ncron = \"@daily\"\njob = { kind = \"k\" }\n[[schedule]]\nname = \"a\"\ncron = \"@daily\"\njob = { kind = \"k\" }",
		"a list of values": "schedule = [1]", "another list of tables": "[[work]]\nkind = \"k\"",
	} {
		if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(sojournCommand(t), "config", "--config", file)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 2 || !strings.Contains(string(out), "settings.toml:") {
			t.Errorf("%s: %v, %s", what, err, out)
		}
	}
}

// TestConfigShowsSchedules: "config" lists the schedules of the file, with their places.
func TestConfigShowsSchedules(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("sojourn.toml", []byte(scheduleTables), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := commandLine(t, "config", "--origins", "-o", "json")
	if code != cli.ExitOK {
		t.Fatal(errs)
	}
	for _, want := range []string{
		`{"key":"schedule.nightly","value":"every day at 02:30, Europe/Berlin: kind report in queue default","origin":"sojourn.toml:2:3","env":""}`,
		`{"key":"schedule.often","value":"every 1h: kind ping in queue line","origin":"sojourn.toml:11:3","env":""}`,
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("config shows no line %s in\n%s", want, out)
		}
	}
}
