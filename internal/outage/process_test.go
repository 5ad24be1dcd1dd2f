package outage

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// process is one that the test has started.
type process struct {
	*exec.Cmd
	errors strings.Builder
	hold   func() // closes its standard input
	once   sync.Once
}

// start runs a role of this test binary, or another program. line gets each line of its output.
func start(t *testing.T, role, address string, env []string, line func(string), command ...string) *process {
	t.Helper()
	if len(command) == 0 {
		command = []string{os.Args[0], "-test.run=^$"}
	}
	p := &process{Cmd: exec.Command(command[0], command[1:]...)}
	p.Env = append(append(os.Environ(), "SOJOURN_OUTAGE_ROLE="+role, "SOJOURN_OUTAGE_ADDRESS="+address), env...)
	p.Stderr = &p.errors
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.hold = func() { in.Close() }
	out, err := p.StdoutPipe()
	if err == nil {
		err = proctest.Start(p.Cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if line != nil {
				line(s.Text())
			}
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9. Nothing remains of the process when it returns.
func (p *process) kill() {
	p.once.Do(func() {
		p.Process.Kill()
		p.Wait()
		p.hold()
	})
}

// stop asks it to end, and wants it to do so without an error.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.once.Do(func() {
		p.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(patience, func() { p.Process.Kill() })
		if err := p.Wait(); err != nil || !timer.Stop() {
			t.Errorf("%s did not stop well: %v\n%s", p.Path, err, p.errors.String())
		}
		p.hold()
	})
}

// freePort returns a port that is free at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// program finds one that Debian has, in PATH or beside. Without it a test is skipped, but fails in
// CI.
func program(t *testing.T, names ...string) string {
	t.Helper()
	return proctest.LookPath(t, names...)
}
