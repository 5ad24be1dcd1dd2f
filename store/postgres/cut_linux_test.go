package postgres

import (
	"net"
	"syscall"
	"testing"
)

// TestDialer: the operating system closes a connection whose other side has fallen silent.
func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dialer(connectLimit).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for name, o := range map[string]struct{ option, want int }{
			"TCP_USER_TIMEOUT": {tcpUserTimeout, 6000}, "TCP_KEEPIDLE": {syscall.TCP_KEEPIDLE, 3}, "TCP_KEEPINTVL": {syscall.TCP_KEEPINTVL, 1},
			"TCP_KEEPCNT": {syscall.TCP_KEEPCNT, 3},
		} {
			if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, o.option); err != nil || got != o.want {
				t.Errorf("%s is %d, not %d: %v", name, got, o.want, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
