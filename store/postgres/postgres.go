package postgres

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migrate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// pollEvery is how often blocked calls look for what other processes have done. Within a process
// they are woken at once.
const pollEvery = time.Second

// Open opens the queue in a PostgreSQL database. The address is a URL
// (postgres://user:password@host:port/database), keywords ("host=… dbname=…"), or a JSON object of
// them ({"host": "…", "port": 5432, "db": "…"}); what it leaves open comes from the usual PG…
// variables. schema and prefix among its parameters mean the options of these names. Any number of
// processes may use one database.
//
// The client uses at most 12 connections: 7 that write, 4 that read, 1 that looks for changes. A
// pool_max_conns in the address makes them fewer, down to 3.
//
// The tables must be of this program's version: an older or missing schema is refused with the name
// of the command (sojourn migrate up) unless AutoMigrate is given, and so is a newer one that needs
// newer programs (CodeSchema). A server that may lose what it acknowledges is refused unless
// Relaxed is given, and so are versions before 13, encodings other than UTF8 and standbys.
func Open(address string, list ...Option) (*sojourn.Client, error) {
	o, err := newOptions(list)
	if err == nil {
		o, err = o.from(address)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	db, err := openDB(ctx, address, o)
	if err != nil {
		return nil, err
	}
	s, err := newStore(ctx, db, o)
	if err != nil {
		db.Close()
		return nil, err
	}
	return sojourn.NewClient(s), nil
}

func newStore(ctx context.Context, db *DB, o options) (*sqlstore.Store, error) {
	if err := o.fit(ctx, db); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, o.config())
}

// fit brings the tables to this program's version, or refuses others.
func (o options) fit(ctx context.Context, db *DB) error {
	m := o.tend(db)
	if o.migrate {
		if err := m.Raise(ctx); err != nil {
			return err
		}
	}
	schema, err := m.Schema(ctx)
	if err == nil {
		err = migrate.Fits(schema, db.location)
	}
	return err
}

func (o options) config() sqlstore.Config {
	cfg := sqlstore.Config{Prefix: o.tables(), Now: time.Now, MaxBytes: o.maxBytes, InboxTTL: o.inboxTTL, Runners: o.split.runners(), Enders: o.split.enders(), Poll: o.poll,
		Throttlers: o.throttlers, Rules: o.rules, Declared: o.declared}
	if o.clock != nil {
		cfg.Now, cfg.Driven = o.clock, true
	}
	return cfg
}
