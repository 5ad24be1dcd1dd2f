package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// Cluster is a throwaway database cluster in a temporary folder, reachable by a Unix socket only,
// with the default settings, which are the durable ones. initdb refuses root, so root becomes
// nobody. Its server does not outlive the test process, however that ends: Linux sends the server
// SIGQUIT, and on all Unix systems a guard process ends the remaining processes and then removes
// the folder.
type Cluster struct {
	URL      string // of its database postgres
	bin, dir string
	flags    []string // more flags of the server
	as       *syscall.SysProcAttr
	guard    *guard
	server   *exec.Cmd     // its first process, nil before the first start
	ended    chan struct{} // closed when that has ended
	sender   int           // the process that sends to its standby, see Stall
}

// NewCluster makes a cluster of the test's own, which the test may crash, and starts it. Without
// PostgreSQL the test is skipped, and fails in CI.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	proctest.Skip(t, "PostgreSQL")
	c, err := startCluster()
	if errors.Is(err, errNoBinaries) {
		proctest.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func startCluster() (*Cluster, error) { return Start() }

// Start makes and starts a cluster for a program that is not a test. flags are more arguments of
// the server, such as "-c", "shared_buffers=512MB".
func Start(flags ...string) (*Cluster, error) {
	return makeCluster(func(c *Cluster) error {
		c.flags = flags
		return c.run("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
	})
}

// makeCluster starts a server in a new folder, which fill has filled.
func makeCluster(fill func(*Cluster) error) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sojourn-pg-")
	if err != nil {
		return nil, err
	}
	as, chown := Unprivileged()
	c := &Cluster{bin: bin, dir: dir, as: as, URL: "postgres:///postgres?" + url.Values{"host": {dir}, "user": {"postgres"}}.Encode()}
	if err = chown(dir); err == nil {
		c.guard, err = watchOver(dir)
	}
	if err == nil {
		err = fill(c)
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		c.guard.end()
		os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// command prepares a program of PostgreSQL.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = c.as, c.dir, []string{"PATH=" + c.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + c.dir}
	return cmd
}

func (c *Cluster) run(name string, args ...string) error {
	if out, err := proctest.CombinedOutput(c.command(name, args...)); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// startTimeout bounds the start of a server, on a busy machine and with a recovery before it.
const startTimeout = 3 * time.Minute

// Start starts the server and waits until it takes connections, after a crash until it has
// recovered. The server is a child of the test process, which one of pg_ctl would not be.
func (c *Cluster) Start() error {
	path := filepath.Join(c.dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	flags := []string{"-D", c.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + c.dir, "-c", "max_connections=200", "-c", "log_min_messages=fatal"}
	cmd := c.command("postgres", append(flags, c.flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	proctest.SetDeathSignal(cmd, syscall.SIGQUIT) // stops the server at once, its stopped processes too
	if err := proctest.Start(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	c.server, c.ended = cmd, ended
	const tick = 20 * time.Millisecond
	for range startTimeout / tick {
		if c.ready() {
			return nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(path)
			return fmt.Errorf("the server ended as it started\n%s", text)
		case <-time.After(tick):
		}
	}
	c.kill()
	return fmt.Errorf("the server was not ready within %v", startTimeout)
}

// ready reports whether the server says in postmaster.pid that it takes connections: line 8, after
// its process id in line 1.
func (c *Cluster) ready() bool {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 8 || lines[0] != strconv.Itoa(c.server.Process.Pid) {
		return false
	}
	status := strings.TrimSpace(lines[7])
	return status == "ready" || status == "standby"
}

func (c *Cluster) kill() error {
	err := c.server.Process.Kill()
	<-c.ended
	return err
}

// Immediate stops the server as a crash does, without a checkpoint: pg_ctl stop -m immediate.
func (c *Cluster) Immediate() error {
	return c.run("pg_ctl", "stop", "-D", c.data(), "-m", "immediate", "-s")
}

// Shutdown stops the server in order: pg_ctl stop -m fast.
func (c *Cluster) Shutdown(t testing.TB) {
	t.Helper()
	if err := c.run("pg_ctl", "stop", "-D", c.data(), "-m", "fast", "-s"); err != nil {
		t.Fatal(err)
	}
	<-c.ended
}

// Kill sends kill -9 to the server's first process; the others notice it and end. Data that was
// only in shared memory is lost.
func (c *Cluster) Kill() error { return c.kill() }

// Restart starts the server after Kill: as soon as the last of its processes has let go of the
// folder.
func (c *Cluster) Restart() error {
	var err error
	for range 100 {
		if err = c.Start(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond) // the others end by themselves, nothing tells when
	}
	return err
}

// Stop ends the server, if it runs, and removes the folder.
func (c *Cluster) Stop() {
	if c.running() {
		if err := c.Immediate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			c.kill()
		}
		<-c.ended
	}
	c.guard.end()
	os.RemoveAll(c.dir)
}

func (c *Cluster) running() bool {
	if c.server == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}
