package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// TestDemoSurvivesKill kills the demo in the middle of its work, twice, and lets the third one on the same store count: nothing that was
// acknowledged to it is gone, nobody is charged twice, and the doctor finds nothing (spec:L8, inv:A1).
func TestDemoSurvivesKill(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { demoSurvivesKill(t, "sqlite:"+filepath.Join(t.TempDir(), "demo.db")) })
	t.Run("postgres", func(t *testing.T) {
		demoSurvivesKill(t, pgtest.With(t, pgtest.URL(t), "schema", pgtest.NewSchema(t)))
	})
}

func demoSurvivesKill(t *testing.T, url string) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	sojourn := sojournCommand(t)
	for _, life := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} {
		cmd := exec.Command(sojourn, "demo", "--store", url, "--headless", "--rate", "100", "--for", "1m", "-o", "json")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(life) // the instant of the kill is meant to be arbitrary
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the demo ended before it was killed")
		}
	}
	report := counts(t, sojourn, url)
	for range 5 { // on a slow machine the brokers may have brought nothing yet
		if len(report.Partners) != 2 || report.Partners[0].Answered > 0 && report.Partners[1].Answered > 0 {
			break
		}
		report = counts(t, sojourn, url)
	}
	if report.Enqueued < 300 || report.Completed == 0 || report.Lost != 0 || report.Gateway.ChargedTwice != 0 {
		t.Errorf("%+v", report)
	}
	for i := range 2 {
		if len(report.Partners) != 2 || report.Partners[i].Answered == 0 {
			t.Errorf("no answers over brokers: %+v", report)
		}
	}
	if out, err := exec.Command(sojourn, "doctor", "--store", url).CombinedOutput(); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// demoReport is the part of the report that the test looks at.
type demoReport struct {
	Enqueued, Completed, Lost int
	Gateway                   struct {
		ChargedTwice int `json:"charged_twice"`
	}
	Partners []struct{ Jobs, Answered int }
}

// counts lets a demo go on for 4 s and count. Its rate is one that a slow machine with the race detector keeps up with, else nothing but orders is done.
func counts(t *testing.T, sojourn, url string) (report demoReport) {
	t.Helper()
	cmd := exec.Command(sojourn, "demo", "--store", url, "--headless", "--rate", "100", "--for", "4s", "-o", "json")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil || json.Unmarshal([]byte(stdout.String()), &report) != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	t.Logf("%s", stdout.String())
	return report
}

// sojournCommand is the command as a program: under this name the test binary is the command, see TestMain.
func sojournCommand(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a symbolic link, which Windows gives to administrators only")
	}
	path := filepath.Join(t.TempDir(), "sojourn")
	if err := os.Symlink(os.Args[0], path); err != nil {
		t.Fatal(err)
	}
	return path
}
