package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Config is the configuration of a store by its database package.
type Config struct {
	Prefix string           // of every table; default "sj_"
	Now    func() time.Time // the clock of the database
	Driven bool             // Now is moved by a test

	// Of tests that set the clock while the store is open.
	Elapsed   func() time.Duration // the monotonic clock of this process; nil: that of Now
	LoneClock bool                 // leases are not shifted when the clock is set, as the control of such a test

	Poll     time.Duration // how often blocked calls check for changes of other processes; default 100 ms
	MaxBytes int           // of args, result, body and checkpoint each; default 256 KiB
	InboxTTL time.Duration // of an early response without a live job; default 24 h
	Runners  int           // transactions at a time; default 1
	Enders   int           // further transactions for finishes and for claims from queues with gates; default 0: Runners run those too
	Apart    int           // finishes of fewer steps than this still go to the Runners
	MaxRows  int           // of one transaction; default 1,000
	Declared bool          // only queues that ChangeQueue has made take jobs
	NoRoom   func() error  // the error that refuses new jobs when space is short; nil if there is no bound

	Throttlers map[string]throttle.Throttler                 // queue → its throttler in Go
	Rules      func(text string) (throttle.Throttler, error) // compiles the throttle setting of queues; nil: this process knows no rules
}

// Store is a driver.Store over any database behind the seam. Safe for concurrent use.
type Store struct {
	db         sqldb.DB
	cfg        Config
	clock      clock
	batch      *batcher
	ends       *batcher // see batcherFor; without Enders the same one
	hub        hub
	backlog    backlog
	instance   string
	secret     []byte
	broken     atomic.Pointer[error] // a disk error after which nothing is accepted any more
	rebasing   sync.Mutex            // held while leases are shifted after a step of the clock
	leasing    atomic.Bool           // leases were granted since the shared clock was marked
	present    present
	asked      memo[string, asked]                 // worker → the queues and kinds that it claims, as stored
	rendered   sync.Map                            // statement → its text on this database
	settings   memo[string, sojourn.QueueSettings] // JSON → its value
	policies   memo[string, sojourn.Policy]        // JSON → its value; there are as many as kinds, not as jobs
	waits      memo[string, sojourn.Wait]          // the same for waits without keys
	spare      spareIDs                            // for transactions of the application
	recent     recent
	trusted    trusted
	guesses    guesses
	alike      alike
	churn      churn
	gated      memo[string, bool]         // worker → whether its last claim met gates
	filled     memo[string, bool]         // worker → whether its last claim was full
	apart      atomic.Int32               // claims that run concurrently, see goesApart
	breakers   memo[string, knownBreaker] // queue → its setting, a second old at most
	looks      looks
	lively     memo[string, bool] // queues with gates from which this process's last claim has started jobs
	throttlers throttlers
}

// New makes a store over db, whose schema must be up to date.
func New(ctx context.Context, db sqldb.DB, cfg Config) (*Store, error) {
	s := &Store{db: db, cfg: cfg}
	for _, d := range []struct {
		v   *int
		def int
	}{{&s.cfg.MaxBytes, sojourn.DefaultMaxBytes}, {&s.cfg.Runners, 1}, {&s.cfg.MaxRows, 1000}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if s.cfg.MaxBytes < 1 || s.cfg.MaxBytes > sojourn.MaxMaxBytes {
		return nil, sojourn.Invalid("max_bytes", "%d is out of range: 1 to %d", s.cfg.MaxBytes, sojourn.MaxMaxBytes)
	}
	if s.cfg.InboxTTL == 0 {
		s.cfg.InboxTTL = sojourn.DefaultInboxTTL
	}
	if s.cfg.InboxTTL < 0 || s.cfg.InboxTTL > sojourn.MaxHorizon {
		return nil, sojourn.Invalid("inbox_ttl", "%v is out of range: up to 10 years, 0 for 24h", s.cfg.InboxTTL)
	}
	if s.cfg.Prefix == "" {
		s.cfg.Prefix = "sj_"
	}
	if s.cfg.Poll == 0 {
		s.cfg.Poll = pollEvery
	}
	s.throttlers.own, s.throttlers.compile = cfg.Throttlers, cfg.Rules
	s.clock = clock{wall: cfg.Now, elapsed: cfg.Elapsed, driven: cfg.Driven, lone: cfg.LoneClock, started: cfg.Now()}
	s.batch = newBatcher(s.cfg.Runners, s.cfg.MaxRows, s.commit)
	s.ends = s.batch
	if s.cfg.Enders > 0 {
		s.ends = newBatcher(s.cfg.Enders, s.cfg.MaxRows, s.commit)
	}
	s.hub.init(s)
	if err := s.readMeta(ctx); err != nil {
		return s, err
	}
	return s, s.announce(ctx)
}

const (
	qMeta     = `select value from sj_meta where name = $1`
	qInitMeta = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do nothing`
	qSetMeta  = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`
)

// readMeta reads the instance's name and secret, or draws them for a new instance.
func (s *Store) readMeta(ctx context.Context) error {
	return s.db.Update(ctx, func(c sqldb.Conn) error {
		// Check the schema again, because another process may have migrated since this one read it.
		// Where one transaction writes at a time, it cannot migrate in between now.
		var schema migrate.Schema
		if err := migration.New(s.db, s.cfg.Prefix, s.cfg.Now).ReadSchema(c, &schema); err != nil {
			return err
		}
		if err := migration.Fits(schema, "the store"); err != nil {
			return err
		}
		sent := s.clock.monotonic()
		t := &tx{Conn: c, s: s}
		now, err := s.read(c, sent)
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
				metaClock: sharedClock{mark: now.now}.String()} {
				if _, err := t.exec(qInitMeta, name, value); err != nil {
					return err
				}
			}
			if err := read(); err != nil { // if two processes open a new instance at once, both use the values that were stored first
				return err
			}
		}
		s.instance = found["instance"]
		s.clock.open(readShared(found[metaClock]))
		s.secret, err = base64.StdEncoding.DecodeString(found["secret"])
		return err
	})
}

// tx is one transaction: its connection, its one reading of the clock, and the events to publish
// after the commit.
type tx struct {
	sqldb.Conn
	s *Store
	reading
	wrote  bool
	silent bool             // its reads are reported to no caller
	ready  map[place]int    // jobs that became claimable
	freed  map[string]int   // weight that was returned, by queue
	opens  int64            // when a gate opens that held a claim back; 0 = not known
	reads  bool             // it is a View, which cannot write
	flight map[flight]int64 // weight that has come into flight, see land
	locked []string         // queues, see lockQueue
	felt   map[string]*felt // queue → outcome statistics, see feelOutcome
	relied map[string]int64 // queue → shape, see rely
	due    int64            // the earliest wake_at that was written; 0 = none
	polls  []poll           // that were written
	final  []sojourn.ID
	after  []func()         // run after the commit
	never  map[string]error // windows that have refused a job, see mayStart

	hasty    bool                 // the first try: uses caches, and prefetches for all steps at the beginning
	looked   []any                // prefetched reads of the steps, see lookingFirst
	pending  pending              // written with the next flush
	holding  bool                 // pending, except for the fresh rows, see canHold
	inbox    inbox                // the same of responses
	leased   map[sojourn.ID]*live // rows that were read for their leases and have not changed since; nil: not live
	recent   map[sojourn.ID]*live // see recent
	blocks   []block              // of ids that it has leased
	changed  []*live              // rows as they were written, oldest first
	writers  map[sojourn.ID]int64 // cached rows → their marks
	writer   int64                // the mark of this transaction, once it has committed; 0 = not asked for
	dead     int                  // dead tuples that it creates in sj_live
	altered  bool                 // it has changed a row outside of the list above
	lines    []*gatedLine         // of the queues with gates that a claim is taking jobs from
	places   map[string]queueRow  // queues as place has read them, since the last row was locked
	waits    waits                // of the finishes under way
	types    contentTypes         // of the jobs whose bytes need their content types
	guessed  *questions           // validators for the commit, if the transaction used cached reads; nil: it has read
	enqueued *enqueue             // its enqueues, read or from caches
	claims   *claims              // the same
	starting bool                 // its prefetch is for claims alone, which may bulk-start jobs
	early    *early               // jobs bulk-started before the claim was evaluated; nil: none
	unseen   []kindKey            // keys for which another transaction may not have seen this one, see lookAgain
}

// newTx begins a transaction for a group of requests, which may be empty.
func (s *Store) newTx(c sqldb.Conn, hasty bool, group ...*request) (*tx, error) {
	sent := s.clock.monotonic()
	t := &tx{Conn: c, s: s, ready: map[place]int{}, freed: map[string]int{}, hasty: hasty}
	if t.guess(group) {
		return t, nil
	}
	if err := t.lookAhead(group); err != nil {
		return nil, err
	}
	if t.early != nil {
		if err := t.settleEarly(); err != nil || t.early != nil {
			return t, err
		}
	}
	var err error
	if t.reading, err = s.read(c, sent); err == nil && t.stepped && len(group) > 0 {
		return nil, errClockStep
	}
	return t, err
}

// place is where a job can be claimed.
type place struct{ queue, kind string }

func (s *Store) sql(q string) string {
	if text, ok := s.rendered.Load(q); ok {
		return text.(string)
	}
	text := s.db.Dialect().SQL(s.cfg.Prefix, q, q) // an override is named by the shared text
	s.rendered.Store(q, text)
	return text
}

func (t *tx) exec(q string, args ...any) (int64, error) {
	if err := t.flush(); err != nil {
		return 0, err
	}
	n, err := t.Exec(t.s.sql(q), storableArgs(args)...)
	t.wrote = t.wrote || n > 0
	t.altered = t.altered || alters(q)
	return n, err
}

func (t *tx) query(q string, each func(sqldb.Row) error, args ...any) error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.peek(q, each, args...)
}

// peek is query for reads that no pending write can change; it does not flush.
func (t *tx) peek(q string, each func(sqldb.Row) error, args ...any) error {
	return t.Query(t.s.sql(q), each, storableArgs(args)...)
}

// each runs a query for every row of the columns, which must have one length, in any order.
func (t *tx) each(q string, row func(sqldb.Row) error, columns ...sqldb.Column) error {
	return t.eachBy(t.query, q, row, columns...)
}

// eachBy is each by query or peek.
func (t *tx) eachBy(read func(string, func(sqldb.Row) error, ...any) error, q string, row func(sqldb.Row) error, columns ...sqldb.Column) error {
	n := columns[0].Len()
	if n == 0 {
		return nil
	}
	args := make([]any, len(columns))
	if t.s.db.Dialect().Arrays {
		for i, c := range columns {
			args[i] = c
		}
		return read(q, row, args...)
	}
	for r := range n {
		for i, c := range columns {
			args[i] = c.At(r)
		}
		if err := read(q, row, args...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) bulk(q string, hit func(int64), first sqldb.Ints, more ...sqldb.Column) error {
	if len(first) == 0 {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.wrote = true
	return t.Bulk(t.s.sql(q), hit, first, storableColumns(more)...)
}

// num runs a query that gives one number.
func (t *tx) num(q string, args ...any) (n int64, err error) {
	err = t.query(q, func(r sqldb.Row) error { n = r.Int(0); return nil }, args...)
	return n, err
}

// end runs last in a transaction: it flushes the pending writes, and checks that the settings it
// relied on are unchanged.
func (t *tx) end() error {
	t.leaveFlight()
	if c, ok := t.Conn.(sqldb.Committer); ok {
		return t.commitWith(c)
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.checkRelied()
}

// failed translates an error of the database. After one that leaves the disk in doubt the store
// refuses everything (inv:A6): an fsync that failed once may report success the next time without
// having written.
func (s *Store) failed(err error) error {
	if _, ours := errors.AsType[*sojourn.Error](err); ours {
		return err
	}
	if d := s.db.Dialect(); d.Broken != nil && d.Broken(err) {
		e := error(&sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Err: errors.Join(sojourn.ErrClosed, err),
			Message: "the database failed (" + err.Error() + "); the store accepts nothing any more: check the disk, then restart the process"})
		s.broken.CompareAndSwap(nil, &e)
		return e
	}
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: "the database refused: " + err.Error(), Err: err}
}

var errClosed = &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}

func errUnknown(ctx context.Context) error {
	return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: context.Cause(ctx),
		Message: "the call ended while the store was writing; it may or may not have been executed: repeat it unchanged"}
}

// batcherFor routes an operation to a batcher. Claims share one with enqueues, so that a new job
// can start in the transaction that stores it. Large finishes use the other; small ones do not
// justify a sync of their own, where syncs are the cost of a transaction. Claims from queues with
// gates go with the finishes: gates see only stored jobs, and producers should not wait for them.
func (s *Store) batcherFor(st *step, rows int, in any) *batcher {
	switch st {
	case stepFinish:
		if rows >= s.cfg.Apart {
			return s.ends
		}
	case stepClaim:
		if gated, _ := s.gated.get(in.(driver.ClaimRequest).Worker); gated {
			return s.ends
		}
	}
	return s.batch
}

// do submits a request and returns its typed answer.
func do[A any](ctx context.Context, s *Store, c class, st *step, rows int, in any) (A, error) {
	out, err := s.batcherFor(st, rows, in).do(ctx, c, st, rows, in)
	if err != nil {
		var none A
		return none, err
	}
	return out.(A), nil
}

// view runs fn on a read-only snapshot with one reading of the clock.
func (s *Store) view(ctx context.Context, fn func(t *tx) error) error {
	if s.hub.isClosed() {
		return errClosed
	}
	if err := s.broken.Load(); err != nil {
		return *err
	}
	sent := s.clock.monotonic()
	err := s.db.View(ctx, func(c sqldb.Conn) error {
		now, err := s.read(c, sent)
		if err != nil {
			return err
		}
		return fn(&tx{Conn: c, s: s, reading: now, reads: true})
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// Nudge makes every blocked Claim and Find read again, e.g. after a driven clock has moved.
func (s *Store) Nudge() { s.hub.wakeAll() }

// OwnerID names this process; see driver.Owner. It is empty on databases that do not track their
// processes.
func (s *Store) OwnerID() string {
	if o, ok := s.db.(sqldb.Owners); ok {
		return o.OwnerID()
	}
	return ""
}

// Close refuses new calls, waits for the transaction under way and closes the database. Blocked
// calls return ErrClosed.
func (s *Store) Close() error {
	if !s.hub.close() {
		return nil // closed before
	}
	s.batch.close()
	s.ends.close()
	return s.db.Close()
}

// Status describes the store.
func (s *Store) Status(ctx context.Context) (sojourn.Status, error) {
	d, err := s.db.Describe(ctx)
	if err != nil {
		return sojourn.Status{}, s.failed(err)
	}
	st := sojourn.Status{Store: d.Name, Location: d.Location, Version: d.Version, Durability: d.Durability, Instance: s.instance,
		MaxBytes: s.cfg.MaxBytes, Bytes: d.Bytes, WALBytes: d.WALBytes, Commits: d.Commits}
	err = s.view(ctx, func(t *tx) error {
		st.Now, st.Clock = at(t.now), s.clock.describe()
		var schema migrate.Schema
		if err := migration.New(s.db, s.cfg.Prefix, s.cfg.Now).ReadSchema(t, &schema); err != nil {
			return err
		}
		st.Schema = schema.Found
		return migration.Fits(schema, "the store") // it may have been migrated since it was opened
	})
	return st, err
}
