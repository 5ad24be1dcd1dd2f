package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/democmd"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/store"
)

// TestDemoSurvivesKill kills the demo in the middle of its work, twice, and lets the third one on
// the same store count: nothing that was acknowledged to it is gone, nobody is charged twice, and
// the doctor finds nothing (spec:L8, inv:A1).
func TestDemoSurvivesKill(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { demoSurvivesKill(t, "sqlite:"+filepath.Join(t.TempDir(), "demo.db")) })
	t.Run("postgres", func(t *testing.T) {
		demoSurvivesKill(t, pgtest.With(t, pgtest.URL(t), "schema", pgtest.NewSchema(t)))
	})
}

func demoSurvivesKill(t *testing.T, url string) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	sojourn := sojournCommand(t)
	stored := 0
	for range 2 {
		cmd := exec.Command(sojourn, "demo", "--store", url, "--headless", "--rate", demoRate, "--for", "10m", "-o", "json")
		if err := proctest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		stored = awaitJobs(t, url, stored+50)
		time.Sleep(rand.N(500 * time.Millisecond)) // the instant of the kill is meant to be arbitrary
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the demo ended before it was killed")
		}
	}
	report := counts(t, sojourn, url, 4*time.Second)
	// A loaded machine needs longer until an answer has come over each broker.
	for life := 8 * time.Second; life < 3*time.Minute && !report.answered(); life *= 2 {
		report = counts(t, sojourn, url, life)
	}
	if report.Enqueued < stored || report.Completed == 0 || report.Lost != 0 || report.Gateway.ChargedTwice != 0 || !report.answered() {
		t.Errorf("%d jobs were stored before the last kill; the report is %+v", stored, report)
	}
	if out, err := proctest.CombinedOutput(exec.Command(sojourn, "doctor", "--store", url)); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// demoRate is one that a loaded machine keeps up with; else nothing but orders is done.
const demoRate = "40"

// awaitJobs waits until at least n jobs are stored, and returns how many there are.
func awaitJobs(t *testing.T, url string, n int) (stored int) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := store.Open(url); err == nil { // until the demo has made the tables it may fail
			found, err := c.Store().Find(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind})
			if err := errors.Join(err, c.Close()); err != nil {
				t.Fatal(err)
			}
			if stored = len(found); stored >= n {
				return stored
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d jobs are stored, want %d", stored, n)
		}
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

// answered reports whether an answer has come over each of the two brokers. A build without the tag
// brokers has none.
func (r demoReport) answered() bool {
	return !democmd.HasBrokers() || len(r.Partners) == 2 && r.Partners[0].Answered > 0 && r.Partners[1].Answered > 0
}

// counts lets a demo go on for a while and count.
func counts(t *testing.T, sojourn, url string, life time.Duration) (report demoReport) {
	t.Helper()
	cmd := exec.Command(sojourn, "demo", "--store", url, "--headless", "--rate", demoRate, "--for", life.String(), "-o", "json")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := proctest.Run(cmd)
	if err != nil || json.Unmarshal([]byte(stdout.String()), &report) != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	t.Logf("%s", stdout.String())
	return report
}

// sojournCommand is the command as a program: under this name the test binary is the command, see
// TestMain.
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
