package postgres

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// pollEvery is how often blocked calls check for changes by other processes. Changes within the
// process wake them at once.
const pollEvery = time.Second

// Open opens the queue in a PostgreSQL database. The address is a URL
// (postgres://user:password@host:port/database), keywords ("host=… dbname=…"), or a JSON object of
// them ({"host": "…", "port": 5432, "db": "…"}); values that it omits come from the usual PG…
// variables. Its parameters schema and prefix set the options of these names. Any number of
// processes may use one database.
//
// The client uses at most 12 connections: 7 that write, 4 that read, 1 that polls for changes. A
// lower pool_max_conns in the address reduces them, down to 3.
//
// The tables must have this program's version. Open refuses an older or missing schema and names
// the command (sojourn migrate up), unless AutoMigrate is given. It refuses a newer one that needs
// newer programs (CodeSchema), a server that may lose acknowledged writes unless Relaxed is given,
// versions before 13, encodings other than UTF8, and standbys.
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
		err = migration.Fits(schema, db.location)
	}
	return err
}

func (o options) config() sqlstore.Config {
	cfg := sqlstore.Config{Prefix: o.tables(), Now: time.Now, MaxBytes: o.maxBytes, InboxTTL: o.inboxTTL, StatisticsDays: o.statistics[0], HistogramDays: o.statistics[1],
		Runners: o.split.runners(), Enders: o.split.enders(), Poll: o.poll,
		Throttlers: o.throttlers, Rules: o.rules, Declared: o.declared}
	if o.clock != nil {
		cfg.Now, cfg.Driven = o.clock, true
	}
	return cfg
}
