// Package proctest runs other programs in tests. On Linux a program that it starts does not outlive
// the test process, however that ends: a kill -9 and the limit of go test -timeout included.
package proctest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Start starts cmd like [exec.Cmd.Start]. When this process ends, Linux sends the child SIGKILL, or
// the signal of [SetDeathSignal]. It sends nothing to processes that the child has started.
func Start(cmd *exec.Cmd) error { return start(cmd) }

// SetDeathSignal replaces SIGKILL for a program that must end its own children first.
func SetDeathSignal(cmd *exec.Cmd, s syscall.Signal) { setDeathSignal(cmd, s) }

// Run is [exec.Cmd.Run] with [Start].
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// Output returns the standard output of a command.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	err := Run(cmd)
	return out.Bytes(), err
}

// CombinedOutput returns the standard output and the standard error of a command.
func CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := Run(cmd)
	return out.Bytes(), err
}

// Script prepares a script of bash, which stops at the first command that fails. Its background
// jobs get SIGTERM when the script ends. On Linux all processes of its session are killed when this
// process ends, and at the end of the test. flags are more options of set.
func Script(t testing.TB, text string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd, end, err := script(text, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return cmd
}

// bash puts something before a script that runs without its options.
func bash(before, text string, flags []string) *exec.Cmd {
	options := "set -e -o pipefail " + strings.Join(flags, " ") + "\n"
	const stopJobs = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
	return exec.Command("bash", "-c", before+options+stopJobs+text)
}

// LookPath finds an installed program by its names or paths, the best first. Without one the test
// is skipped, but fails where CI is true.
func LookPath(t testing.TB, names ...string) string {
	t.Helper()
	Skip(t, names[0])
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, names[0]+" is not installed")
	return ""
}

// Skip skips a test that needs a program besides Go if the test run is short: go test -short runs
// the same tests on every machine, with any programs installed.
func Skip(t testing.TB, program string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short leaves out what needs %s", program)
	}
}

// Missing skips a test because of what the machine does not have. Where CI is true the test
// fails.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
