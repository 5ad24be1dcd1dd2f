package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

// Store is a driver.Store over any database behind the seam. Safe for concurrent use. Its methods
// are those of its parts, one for each subject.
type Store struct {
	*enqueuer
	*claimer
	*finisher
	*responder
	*operator
	*reader
	core  *core
	gates *gates
	hub   *hub
}

// New makes a store over db, whose schema must be up to date.
func New(ctx context.Context, db sqldb.DB, cfg Config) (*Store, error) {
	c := &core{db: db, cfg: cfg, done: make(chan struct{})}
	for _, d := range []struct {
		v   *int
		def int
	}{{&c.cfg.MaxBytes, sojourn.DefaultMaxBytes}, {&c.cfg.Runners, 1}, {&c.cfg.MaxRows, 1000}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.cfg.MaxBytes < 1 || c.cfg.MaxBytes > sojourn.MaxMaxBytes {
		return nil, sojourn.Invalid("max_bytes", "%d is out of range: 1 to %d", c.cfg.MaxBytes, sojourn.MaxMaxBytes)
	}
	if c.cfg.InboxTTL == 0 {
		c.cfg.InboxTTL = sojourn.DefaultInboxTTL
	}
	if c.cfg.InboxTTL < 0 || c.cfg.InboxTTL > sojourn.MaxHorizon {
		return nil, sojourn.Invalid("inbox_ttl", "%v is out of range: up to 10 years, 0 for 24h", c.cfg.InboxTTL)
	}
	if c.cfg.Prefix == "" {
		c.cfg.Prefix = "sj_"
	}
	if c.cfg.Poll == 0 {
		c.cfg.Poll = pollEvery
	}
	c.clock = clock{wall: cfg.Now, elapsed: cfg.Elapsed, driven: cfg.Driven, lone: cfg.LoneClock, started: cfg.Now()}
	s := newStore(c)
	if err := s.readMeta(ctx); err != nil {
		return s, err
	}
	return s, s.announce(ctx)
}

// newStore connects the parts of a store.
func newStore(c *core) *Store {
	g := newGates(c.cfg)
	s := &Store{core: c, gates: g, hub: newHub(c), reader: &reader{core: c, gates: g}}
	s.enqueuer = newEnqueuer(c)
	s.finisher = newFinisher(c, g, s.enqueuer)
	s.responder = newResponder(c)
	s.claimer = newClaimer(c, g, s.hub, s.finisher)
	s.operator = &operator{core: c, gates: g, hub: s.hub, reader: s.reader}
	s.reader.hub = s.hub
	c.lanes.all = groupcommit.New(c.cfg.Runners, c.cfg.MaxRows, s.commit)
	if c.lanes.ends = c.lanes.all; c.cfg.Enders > 0 {
		c.lanes.ends = groupcommit.New(c.cfg.Enders, c.cfg.MaxRows, s.commit)
	}
	return s
}

// readMeta reads the instance's name and secret, or draws them for a new instance.
func (s *Store) readMeta(ctx context.Context) error {
	return s.core.db.Update(ctx, func(c sqldb.Conn) error {
		// Check the schema again, because another process may have migrated since this one read it.
		// Where one transaction writes at a time, it cannot migrate in between now.
		var schema migrate.Schema
		if err := migration.New(s.core.db, s.core.cfg.Prefix, s.core.cfg.Now).ReadSchema(c, &schema); err != nil {
			return err
		}
		if err := migration.Fits(schema, "the store"); err != nil {
			return err
		}
		t, err := s.core.timed(c)
		if err != nil {
			return err
		}
		found := map[string]string{}
		read := func() error {
			for _, name := range []string{"instance", "secret", metaClock} {
				if err := t.query(qMeta, func(r sqldb.Row) error { found[name] = r.Text(0); return nil }, name); err != nil {
					return err
				}
			}
			return nil
		}
		if err := read(); err != nil {
			return err
		}
		if found["instance"] == "" {
			key := make([]byte, 32)
			rand.Read(key) // never fails, says crypto/rand
			for name, value := range map[string]string{"instance": rand.Text()[:8], "secret": base64.StdEncoding.EncodeToString(key),
				metaClock: sharedClock{mark: t.now}.String()} {
				if _, err := t.exec(qInitMeta, name, value); err != nil {
					return err
				}
			}
			if err := read(); err != nil { // if two processes open a new instance at once, both use the values that were stored first
				return err
			}
		}
		s.core.instance = found["instance"]
		s.core.clock.open(readShared(found[metaClock]))
		s.core.secret, err = base64.StdEncoding.DecodeString(found["secret"])
		return err
	})
}

// Nudge makes every blocked Claim and Find read again, e.g. after a driven clock has moved.
func (s *Store) Nudge() { s.hub.wakeAll() }

// OwnerID names this process; see driver.Owner. It is empty on databases that do not track their
// processes.
func (s *Store) OwnerID() string {
	if o, ok := s.core.db.(sqldb.Owners); ok {
		return o.OwnerID()
	}
	return ""
}

// Close refuses new calls, waits for the transaction under way and closes the database. Blocked
// calls return ErrClosed.
func (s *Store) Close() error {
	if !s.core.close() {
		return nil // closed before
	}
	s.core.lanes.close()
	return s.core.db.Close()
}

// Status describes the store.
func (s *Store) Status(ctx context.Context) (sojourn.Status, error) {
	d, err := s.core.db.Describe(ctx)
	if err != nil {
		return sojourn.Status{}, s.core.failed(err)
	}
	st := sojourn.Status{Store: d.Name, Location: d.Location, Version: d.Version, Durability: d.Durability, Instance: s.core.instance,
		MaxBytes: s.core.cfg.MaxBytes, Bytes: d.Bytes, WALBytes: d.WALBytes, Commits: d.Commits}
	err = s.core.view(ctx, func(t *tx) error {
		st.Now, st.Clock = at(t.now), s.core.clock.describe()
		var schema migrate.Schema
		if err := migration.New(s.core.db, s.core.cfg.Prefix, s.core.cfg.Now).ReadSchema(t, &schema); err != nil {
			return err
		}
		st.Schema = schema.Found
		return migration.Fits(schema, "the store") // it may have been migrated since it was opened
	})
	return st, err
}
