package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A connection is cut when its packets vanish without an error: a firewall has forgotten it, a
// cable or a machine is gone, a proxy hangs. Each of the limits below counts from the last packet,
// so a cut costs those who wait for the connection, or for locks that its transaction holds, at
// most 10 s.
const (
	// The server ends a transaction whose client is silent for so long, and releases its locks.
	idleInTransaction = 5 * time.Second
	// The operating systems of both sides close a connection whose peer confirms nothing for so
	// long.
	peerSilence = 6 * time.Second
	// They send keep-alive probes on an idle connection after keepIdle, then each keepEvery.
	keepIdle, keepEvery = 3 * time.Second, time.Second
	keepProbes          = 3
	// During a long statement the server checks whether its client is still connected. PostgreSQL
	// 14 or newer.
	clientCheck = 2 * time.Second
	// connectLimit bounds a new connection, unless the address sets connect_timeout.
	connectLimit = 10 * time.Second
)

const (
	// After answerLimit without an answer, a second connection checks whether the server still
	// works on the first one. A proxy confirms packets for a server that it does not reach, so the
	// operating system notices nothing.
	answerLimit = 4 * time.Second
	// checkLimit bounds that check; without an answer to it the connection counts as cut.
	checkLimit = 3 * time.Second
	// graceLimit is the wait for an answer that was on its way during the check.
	graceLimit = time.Second
	// After commitLimit the caller of a commit is told that its outcome is unknown.
	commitLimit = time.Minute
)

// limits are those of one store. Tests make them shorter.
type limits struct{ answer, check, grace, commit time.Duration }

var defaultLimits = limits{answer: answerLimit, check: checkLimit, grace: graceLimit, commit: commitLimit}

// qWorking finds a backend that runs a statement, waits for a lock, or waits for a standby. Where
// its state may not be seen, it counts as working.
const qWorking = `select count(*) from pg_stat_activity where cast(pid as bigint) = $1 and coalesce(state, '') not like 'idle%'`

// working checks over a new connection whether a backend works. If the server refuses the
// connection it is alive, but the state of the backend is unknown.
func (d *DB) working(pid uint32) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d.limits.check)
	defer cancel()
	config := d.pool.Config().ConnConfig
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		defer c.Close(ctx)
		n := 0
		err = c.QueryRow(ctx, qWorking, int64(pid)).Scan(&n)
		if err == nil {
			return n > 0
		}
	}
	_, answered := errors.AsType[*pgconn.PgError](err)
	return answered
}

// dialer makes connections on which this side notices a cut.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: limitSilence,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepEvery, Count: keepProbes}}
}

// qNoticeCuts makes the server's side notice cuts. It changes settings of the session, so it does
// nothing behind a pooler, where the session belongs to others too: there the process id that the
// driver got is not the backend's. Settings that the server does not know are left out.
var qNoticeCuts = fmt.Sprintf(`select set_config(v.name, v.value, false) from (values ('tcp_keepalives_idle', '%d'), ('tcp_keepalives_interval', '%d'),
	('tcp_keepalives_count', '%d'), ('tcp_user_timeout', '%d'), ('client_connection_check_interval', '%d')) v(name, value)
	join pg_settings s on s.name = v.name where cast(pg_backend_pid() as bigint) = $1`, seconds(keepIdle), seconds(keepEvery), keepProbes, peerSilence.Milliseconds(),
	clientCheck.Milliseconds())

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// noticeCuts sets up a new connection. Behind a pooler it changes and watches nothing: a wait for
// one of the pooler's connections to the server, which may be long, cannot be told from a cut, so
// only the limit of the whole transaction holds.
func noticeCuts(ctx context.Context, c *pgx.Conn) error {
	tag, err := c.Exec(ctx, qNoticeCuts, pgx.QueryExecModeExec, int64(c.PgConn().PID()))
	if err == nil {
		linkOf(c).established(c.PgConn().PID(), tag.RowsAffected() == 0)
	}
	return err
}
