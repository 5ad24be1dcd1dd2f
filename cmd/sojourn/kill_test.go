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
)

// TestDemoSurvivesKill kills the demo in the middle of its work, twice, and lets the third one on the same file count: nothing that was
// acknowledged to it is gone, nobody is charged twice, and the doctor finds nothing (spec:L8, inv:A1).
func TestDemoSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	sojourn, db := filepath.Join(dir, "sojourn"), filepath.Join(dir, "demo.db")
	if runtime.GOOS == "windows" {
		t.Skip("needs a symbolic link, which Windows gives to administrators only")
	}
	// Under this name the test binary is the command, see TestMain.
	if err := os.Symlink(os.Args[0], sojourn); err != nil {
		t.Fatal(err)
	}
	for _, life := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} {
		cmd := exec.Command(sojourn, "demo", "--db", db, "--headless", "--for", "1m", "-o", "json")
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
	cmd := exec.Command(sojourn, "demo", "--db", db, "--headless", "--for", "4s", "-o", "json")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var report struct {
		Enqueued, Completed, Lost int
		Gateway                   struct {
			ChargedTwice int `json:"charged_twice"`
		}
	}
	if err != nil || json.Unmarshal([]byte(stdout.String()), &report) != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	t.Logf("%s", stdout.String())
	if report.Enqueued < 300 || report.Completed == 0 || report.Lost != 0 || report.Gateway.ChargedTwice != 0 {
		t.Errorf("%+v", report)
	}
	if out, err := exec.Command(sojourn, "doctor", "--store", "sqlite:"+db).CombinedOutput(); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}
