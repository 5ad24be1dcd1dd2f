package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// queue get shows the settings stored by queue set. Settings not named stay unchanged. spec:K8
func TestQueueSetKeepsPace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	set := func(flags ...string) {
		t.Helper()
		if code, _, errs := commandLine(t, append([]string{"--store", file, "queue", "set", "calls"}, flags...)...); code != cli.ExitOK {
			t.Fatal(flags, errs)
		}
	}
	shows := func(want ...string) {
		t.Helper()
		_, out, errs := commandLine(t, "--store", file, "queue", "get", "calls")
		var lines []string
		for line := range strings.Lines(out) {
			if line = strings.Join(strings.Fields(line), " "); !strings.HasPrefix(line, "by operator ") && !strings.HasPrefix(line, "revision ") {
				lines = append(lines, line)
			}
		}
		if !slices.Equal(lines[2:], want) {
			t.Errorf("%q\nwant %q %s", lines[2:], want, errs)
		}
	}
	set("--limit", "10", "--share", "east=40%", "--borrow", "--rate", "50/s", "--rate-burst", "100", "--group-rate", "10/15m", "--breaker", "20",
		"--breaker-within", "2m", "--breaker-probes", "3", "--breaker-reason", "http_5*", "--throttle", "weight <= 2", "--window", "08:00-18:00 UTC")
	set("--rate", "60/m", "--breaker-open", "10s")
	if code, _, errs := commandLine(t, "--store", file, "queue", "set", "calls", "--rate", "none", "--rate-burst", "5"); code != cli.ExitUsage {
		t.Error(code, errs)
	}
	shows("window 08:00-18:00 UTC", "limit 10", "share of east 40% = 4", "borrow yes", "rate 60 in 1m0s, 100 at once", "group rate 10 in 15m0s",
		"breaker 20 failures within 2m0s; open for 10s, then 3 probes; counts http_5*", "breaker is closed", "throttle weight <= 2")
	set("--rate", "none", "--group-rate", "none", "--breaker", "0", "--throttle", "none", "--window", "none", "--share", "", "--borrow=false", "--limit", "0")
	shows()
}

// The error for a bad value names the setting and the problem. Nothing is changed.
func TestQueueSetRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	if code, _, errs := commandLine(t, "--store", file, "queue", "set", "calls"); code != cli.ExitOK {
		t.Fatal(errs)
	}
	for flags, want := range map[string]string{
		"--rate 5": "rate: ", "--rate 5/x": "rate: ", "--rate x/s": "rate: ", "--rate 0/s": "rate.count: ", "--rate 5/48h": "rate.per: ",
		"--group-rate 2000000/s": "group_rate.count: ", "--rate-burst 5": "rate-burst: ", "--rate 5/s --rate-burst -1": "rate.burst: ",
		"--breaker -1": "breaker.failures: ", "--breaker-open 1s": "breaker-open: ", "--breaker 0 --breaker-open 1s": "breaker-open: ",
		"--breaker 1 --breaker-open 1ms": "breaker.open: ", "--breaker 1 --breaker-within 25h": "breaker.within: ", "--breaker 1 --breaker-probes 101": "breaker.probes: ",
		"--throttle foo(": "throttle: 1:5: ", "--throttle 1": "throttle: 1:1: ", "--throttle @no/such/file": "throttle: ", "--window 25:00-26:00": "windows.start: ",
		"--share east": "share: ", "--share east=200%": "shares: ", "--borrow": "borrow: ", "--limit 1000000001": "limit: ", "--order fifo": "order: ",
	} {
		code, _, errs := commandLine(t, append([]string{"--store", file, "queue", "set", "calls"}, strings.Fields(flags)...)...)
		if code != cli.ExitUsage || !strings.HasPrefix(errs, "sojourn: "+want) {
			t.Errorf("%s: %d %s", flags, code, errs)
		}
	}
	if _, out, _ := commandLine(t, "--store", file, "queue", "get", "calls"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "revision   1") {
		t.Error(out)
	}
}
