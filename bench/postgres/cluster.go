package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// cluster is a PostgreSQL server of our own in a temporary folder, reached by a Unix socket only,
// with the default settings of durability.
type cluster struct {
	folder, bin string
	as          *syscall.SysProcAttr
	databases   atomic.Int64
}

// settings of the server. The first two are its defaults, written down because everything depends
// on them. shared_buffers keeps the tables of all systems in memory, max_wal_size keeps checkpoints
// from falling into the middle of a measurement.
const settings = "-c fsync=on -c synchronous_commit=on -c full_page_writes=on -c listen_addresses= -c max_connections=200 -c shared_buffers=512MB " +
	"-c max_wal_size=4GB -c log_min_messages=fatal"

// startCluster makes and starts the server. initdb refuses root, so root becomes nobody.
func startCluster() (*cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sojourn-bench-pg-")
	if err != nil {
		return nil, err
	}
	c := &cluster{folder: folder, bin: bin}
	if err := c.start(); err != nil {
		text, _ := os.ReadFile(filepath.Join(folder, "log"))
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, text), os.RemoveAll(folder))
	}
	return c, nil
}

func (c *cluster) start() error {
	if err := c.unprivileged(); err != nil {
		return err
	}
	data := filepath.Join(c.folder, "data")
	if err := c.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions"); err != nil {
		return err
	}
	return c.run("pg_ctl", "start", "-D", data, "-w", "-s", "-t", "60", "-l", filepath.Join(c.folder, "log"),
		"-o", settings+" -c unix_socket_directories="+c.folder)
}

func (c *cluster) unprivileged() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	c.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return os.Chown(c.folder, uid, gid)
}

func (c *cluster) run(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir = c.as, c.folder
	cmd.Env = []string{"PATH=" + c.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + c.folder}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// stop ends the server and removes all of it.
func (c *cluster) stop() {
	err := c.run("pg_ctl", "stop", "-D", filepath.Join(c.folder, "data"), "-m", "immediate", "-s")
	if err = errors.Join(err, os.RemoveAll(c.folder)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (c *cluster) url(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.folder}, "user": {"postgres"}}.Encode()
}

// database makes an empty database, after a checkpoint, so that no run pays for the writes of
// another.
func (c *cluster) database(ctx context.Context) (address string, drop func() error, err error) {
	name := fmt.Sprint("bench_", c.databases.Add(1))
	if err := c.admin(ctx, "create database "+name, "checkpoint"); err != nil {
		return "", nil, err
	}
	return c.url(name), func() error { return c.admin(context.WithoutCancel(ctx), "drop database "+name+" with (force)") }, nil
}

func (c *cluster) admin(ctx context.Context, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// binaries finds the folder with initdb, the newest version if there are several.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("initdb is neither on the PATH nor in /usr/lib/postgresql/*/bin: install postgresql")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}
