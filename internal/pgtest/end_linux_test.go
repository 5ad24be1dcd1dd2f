package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// childEnv makes the test binary a process that starts a cluster and waits to be killed.
const childEnv = "SOJOURN_TEST_CLUSTER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		code := m.Run()
		Stop()
		os.Exit(code)
	}
	c, err := startCluster()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.dir, c.guard.cmd.Process.Pid)
	syscall.Pause()
}

// TestClustersEnd kills a process with kill -9, and its cluster ends. It does so without the guard
// too, which something that kills a whole tree of processes kills as well.
func TestClustersEnd(t *testing.T) {
	proctest.Skip(t, "PostgreSQL")
	if _, err := binaries(); err != nil {
		proctest.Missing(t, err.Error())
	}
	for name, guarded := range map[string]bool{"guard": true, "no guard": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=1")
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = proctest.Start(cmd)
			}
			if err != nil {
				t.Fatal(err)
			}
			var dir string
			var guard int
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(line, err)
			} else if _, err := fmt.Sscan(line, &dir, &guard); err != nil || !strings.Contains(dir, "sojourn-pg-") {
				t.Fatal(line, err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			session := session(t, dir)
			if !guarded {
				err = syscall.Kill(guard, syscall.SIGKILL)
			}
			if err := errors.Join(err, cmd.Process.Kill()); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			io.Copy(io.Discard, session) // until the server's process of this connection has ended
			socket := filepath.Join(dir, ".s.PGSQL.5432")
			soon(t, "the server listens", func() bool {
				c, err := net.Dial("unix", socket)
				if err == nil {
					c.Close()
				}
				return err != nil
			})
			if guarded {
				soon(t, "the folder is there", func() bool { _, err := os.Stat(dir); return errors.Is(err, fs.ErrNotExist) })
			}
		})
	}
}

// session connects without a password and returns when the server has answered.
func session(t *testing.T, dir string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	const text = "\x00\x03\x00\x00user\x00postgres\x00\x00" // version 3.0
	if _, err := c.Write(append([]byte{0, 0, 0, byte(4 + len(text))}, text...)); err != nil {
		t.Fatal(err)
	}
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil || kind[0] != 'R' {
		t.Fatalf("%q %v", kind, err)
	}
	return c
}

func soon(t *testing.T, still string, over func() bool) {
	t.Helper()
	for range 6000 {
		if over() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("still after 2 min: %s", still)
}
