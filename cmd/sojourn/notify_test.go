package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeNotifies starts a server as systemd does: it says when it is ready, that it is alive,
// and when it drains.
func TestServeNotifies(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Skip(err) // Windows
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if got := string(buf[:n]); got == want {
				return
			} else if got != "WATCHDOG=1" {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "100000")
	s := serve(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), "--notice", "0s")
	expect("READY=1")
	if status, body := s.send("GET", "/livez", "", ""); status != 200 {
		t.Errorf("%d %s after READY=1", status, body)
	}
	expect("WATCHDOG=1")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	expect("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(s.log(), "notify the service manager") {
		t.Error(s.log())
	}
}

// TestServeRequiresToken starts a server on a store without tokens, which refuses requests until
// one is created.
func TestServeRequiresToken(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	s := serve(t, "--store", store, "--require-token")
	if status, body := s.send("GET", "/v1/queues", "", ""); status != 401 {
		t.Errorf("%d %s without a token", status, body)
	}
	made := s.command("token", "create", "--store", store, "--name", "a", "--verb", "admin")
	token := strings.Fields(made)
	for i := 0; ; i++ {
		if i == len(token) {
			t.Fatalf("no token in %q is accepted", made)
		}
		if status, _ := s.send("GET", "/v1/queues", "", token[i]); status == 200 {
			break
		}
	}
}
