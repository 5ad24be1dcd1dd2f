package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
)

// openPatience bounds the time to open a store, including the migration.
const openPatience = 30 * time.Second

// settings of the server that the store depends on.
type settings struct {
	version, encoding                 string
	number                            int64
	fsync, fullPageWrites, syncCommit string
	standby                           bool
}

// oldest is the first version with everything that is used here.
const oldest = 130_000

const qSettings = `select current_setting('server_version'), current_setting('server_version_num')::bigint, current_setting('server_encoding'),
	current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery()`

// openDB connects and checks the server. It brings no schema.
func openDB(ctx context.Context, address string, o options) (_ *DB, err error) {
	cfg, _, err := parse(address)
	if err != nil {
		return nil, err
	}
	// writing and reading bound the connections in use. The pool has room beside them for those
	// that are being closed: for a cut connection that takes a while, and others must not wait for
	// it.
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 2*int32(o.split.total()), 0, 0
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "sojourn"
	}
	cfg.ConnConfig.OnNotice = onNotice
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectLimit
	}
	d := &DB{tables: o.tables(), prefix: o.prefix, same: newSameness(), location: location(cfg.ConnConfig, o), limits: o.limits,
		writing: make(chan struct{}, o.split.writers), reading: make(chan struct{}, o.split.readers), closing: make(chan struct{}), readLimit: readLimit}
	d.notifier = newNotifier(d)
	if d.dialect, err = newDialect(o); err != nil {
		return nil, err
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { useArrays(c.TypeMap()); return noticeCuts(ctx, c) }
	dial := dialer(cfg.ConnConfig.ConnectTimeout).DialContext
	cfg.BeforeConnect = func(_ context.Context, one *pgx.ConnConfig) error { one.DialFunc = d.dialLink(dial); return nil }
	if d.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	d.addOwner()
	if err = d.look(ctx); err == nil {
		err = d.server.check(d.location, o.relaxed)
	}
	if err != nil {
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

// location names the database without secrets.
func location(c *pgx.ConnConfig, o options) string {
	host := net.JoinHostPort(c.Host, fmt.Sprint(c.Port))
	if strings.HasPrefix(c.Host, "/") {
		host = c.Host
	}
	at := host + "/" + c.Database
	if o.schema != "" || o.prefix != "sj_" {
		at += ", tables " + o.tables() + "*"
	}
	return at
}

// look reads the settings.
func (d *DB) look(ctx context.Context) error {
	s := &d.server
	err := d.pool.QueryRow(ctx, qSettings).Scan(&s.version, &s.number, &s.encoding, &s.fsync, &s.fullPageWrites, &s.syncCommit, &s.standby)
	if err != nil {
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "store", Index: -1, Retryable: true, Err: err,
			Message: "cannot use the database at " + d.location + ": " + strings.Join(strings.Fields(err.Error()), " ")} // the driver's text has several lines
	}
	return nil
}

// check refuses a server that could lose acknowledged writes, or that cannot run the statements.
func (s settings) check(location string, relaxed bool) error {
	refuse := func(format string, a ...any) error {
		return &sojourn.Error{Code: sojourn.CodeInvalid, Field: "store", Index: -1, Message: location + " " + fmt.Sprintf(format, a...)}
	}
	switch {
	case s.number < oldest:
		return refuse("runs PostgreSQL %s; version 13 or newer is needed", s.version)
	case s.encoding != "UTF8":
		return refuse("has the encoding %s; make the database with encoding UTF8", s.encoding)
	case s.standby:
		return refuse("is a standby, where nothing can be written; connect to the primary (target_session_attrs=read-write finds it)")
	case s.durability() != durable && !relaxed:
		return refuse("may lose acknowledged writes: fsync=%s, full_page_writes=%s, synchronous_commit=%s. Switch these settings on, or open the store with Relaxed",
			s.fsync, s.fullPageWrites, s.syncCommit)
	}
	return nil
}

const durable = "fsync"

// durability as Description has it. local, remote_write and remote_apply wait for this server's
// disk too.
func (s settings) durability() string {
	if s.fsync == "on" && s.fullPageWrites == "on" && s.syncCommit != "off" {
		return durable
	}
	return "relaxed"
}
