//go:build unix

package execjob

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// TestWatchman checks the end of the watchman's standard input, as after the worker's death: it
// kills the live groups, leaves ended ones alone, and removes the folder. A killed watchman is
// replaced, and the new one knows the live groups.
func TestWatchman(t *testing.T) {
	m := &watchman{parent: t.TempDir(), live: map[int]bool{}}
	sleeper := func() *exec.Cmd {
		t.Helper()
		folder, err := m.runFolder()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "1000")
		cmd.Dir, cmd.SysProcAttr = folder, &syscall.SysProcAttr{Setpgid: true}
		if err := proctest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		m.add(cmd.Process.Pid)
		return cmd
	}
	known, ended := sleeper(), sleeper()
	first := m.cmd.Process
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	m.remove(ended.Process.Pid) // the shell is gone: this is noticed
	if m.in != nil {
		t.Fatal("a shell that was killed is still talked to")
	}
	if err := os.RemoveAll(m.folder); err != nil { // as a cleaner of /tmp would
		t.Fatal(err)
	}
	late, more := sleeper(), sleeper()
	m.remove(more.Process.Pid)
	if m.cmd.Process.Pid == first.Pid {
		t.Fatal("no other shell was started")
	}
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	for cmd, want := range map[*exec.Cmd]syscall.Signal{known: syscall.SIGKILL, late: syscall.SIGKILL, ended: syscall.SIGTERM, more: syscall.SIGTERM} {
		_ = cmd.Process.Signal(syscall.SIGTERM) // has no effect on killed processes
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != want {
			t.Errorf("%v, want %v", cmd.ProcessState, want)
		}
	}
	if _, err := os.Stat(m.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}
