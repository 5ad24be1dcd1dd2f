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
)

// Cluster is a throwaway database cluster in a temporary folder, reachable by a Unix socket only,
// with the default settings, which are the durable ones. initdb refuses root, so root becomes
// nobody. Its server does not outlive the test process, however that ends.
type Cluster struct {
	URL      string // of its database postgres
	bin, dir string
	flags    string // more flags of the server
	as       *syscall.SysProcAttr
	guard    *guard
	killed   bool // by Kill, and not started since
	sender   int  // the process that sends to its standby, see Stall
}

// NewCluster makes a cluster of the test's own, which the test may crash, and starts it. Without
// PostgreSQL the test is skipped, and fails in CI.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c, err := startCluster()
	if errors.Is(err, errNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func startCluster() (*Cluster, error) { return Start("") }

// Start makes and starts a cluster for a program that is not a test. flags are more flags of the
// server, such as " -c shared_buffers=512MB".
func Start(flags string) (*Cluster, error) {
	return makeCluster(func(c *Cluster) error {
		c.flags = flags
		return c.run("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
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

func (c *Cluster) run(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = c.as, c.dir, []string{"PATH=" + c.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + c.dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Start starts the server and waits until it takes connections, after a crash until it has
// recovered.
func (c *Cluster) Start() error {
	log := filepath.Join(c.dir, "log")
	flags := "-c listen_addresses= -c unix_socket_directories=" + c.dir + " -c max_connections=200 -c log_min_messages=fatal" + c.flags
	err := c.run("pg_ctl", "start", "-D", c.data(), "-w", "-s", "-t", "60", "-l", log, "-o", flags)
	if err != nil {
		text, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s", err, text)
	}
	c.killed = false
	return nil
}

// Immediate stops the server as a crash does, without a checkpoint: pg_ctl stop -m immediate.
func (c *Cluster) Immediate() error {
	return c.run("pg_ctl", "stop", "-D", c.data(), "-m", "immediate", "-s")
}

// Kill sends kill -9 to the server's first process; the others notice it and end. Data that was
// only in shared memory is lost.
func (c *Cluster) Kill() error {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid < 2 {
		return fmt.Errorf("postmaster.pid begins with %q: %w", first, err)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	c.killed = err == nil
	return err
}

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
	if _, err := os.Stat(filepath.Join(c.data(), "postmaster.pid")); err == nil && !c.killed {
		if err := c.Immediate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	c.guard.end()
	os.RemoveAll(c.dir)
}
