package servecmd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager is the socket of a service manager.
func manager(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip(err) // Windows
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestSupervised(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		socket, limit, owner string
		want                 supervisor
	}{
		{"", "", "", supervisor{}},
		{"/run/a", "", "", supervisor{socket: "/run/a"}},
		{"/run/a", "3000000", "", supervisor{"/run/a", 1500 * time.Millisecond}},
		{"/run/a", "3000000", pid, supervisor{"/run/a", 1500 * time.Millisecond}},
		{"/run/a", "3000000", "1", supervisor{socket: "/run/a"}},
		{"/run/a", "0", "", supervisor{socket: "/run/a"}},
		{"/run/a", "soon", "", supervisor{socket: "/run/a"}},
		{"", "3000000", "", supervisor{}},
	} {
		env := map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.limit, "WATCHDOG_PID": c.owner}
		if got := supervised(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("%v: %+v, want %+v", env, got, c.want)
		}
	}
}

func TestNotify(t *testing.T) {
	path, next := manager(t)
	s := supervisor{socket: path, every: time.Millisecond}
	if err := s.notify(t.Context(), "READY=1"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "READY=1" {
		t.Errorf("%q", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.watch(ctx, func(err error) { t.Error(err) }) }()
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	stop()
	<-ended
	if err := (supervisor{}).notify(t.Context(), "READY=1"); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
	if err := (supervisor{socket: path + "x"}).notify(t.Context(), "READY=1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a socket that is missing: %v", err)
	}
}
