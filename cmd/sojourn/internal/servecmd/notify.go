package servecmd

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// supervisor is the socket of the service manager, as described in sd_notify(3). The zero value
// sends nothing, for a server that no service manager has started.
type supervisor struct {
	socket string        // path, or a name that begins with @
	every  time.Duration // between messages to the watchdog, 0 = no watchdog
}

// supervised reads the variables that systemd sets for a service of Type=notify. WATCHDOG_PID names
// another process if the variables were inherited from it.
func supervised(env func(string) string) supervisor {
	s := supervisor{socket: env("NOTIFY_SOCKET")}
	limit, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64)
	owner := env("WATCHDOG_PID")
	if err == nil && limit > 0 && s.socket != "" && (owner == "" || owner == strconv.Itoa(os.Getpid())) {
		s.every = time.Duration(limit) * time.Microsecond / 2
	}
	return s
}

// notify sends a state, such as "READY=1".
func (s supervisor) notify(ctx context.Context, state string) error {
	if s.socket == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", s.socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		return fmt.Errorf("notify the service manager at %s: %w", s.socket, err)
	}
	return nil
}

// watch sends messages to the watchdog until ctx ends. They do not depend on the store: a restart
// repairs a process that hangs, but not a database that is down. /readyz reports that.
func (s supervisor) watch(ctx context.Context, failed func(error)) {
	if s.every <= 0 {
		return
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.notify(ctx, "WATCHDOG=1"); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}
