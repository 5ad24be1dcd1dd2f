package txn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/vacuum"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/without"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Config is the configuration of a store by its database package.
type Config struct {
	Prefix string           // of every table; default "sj_"
	Now    func() time.Time // the clock of the database
	Driven bool             // Now is moved by a test

	// For tests that set the clock while the store is open.
	Elapsed   func() time.Duration // the monotonic clock of this process; nil: that of Now
	LoneClock bool                 // the control of such a test: leases are not shifted

	Poll     time.Duration // how often blocked calls check for changes of other processes; default 100 ms
	MaxBytes int           // of args, result, body and checkpoint each; default 256 KiB
	InboxTTL time.Duration // of an early response without a live job; default 24 h
	Runners  int           // transactions at a time; default 1
	Enders   int           // further ones for finishes and gated claims; 0: Runners run those too
	Apart    int           // a finish of fewer steps than this still goes to the Runners
	MaxRows  int           // of one transaction; default 1,000
	Declared bool          // only queues with settings take jobs
	NoRoom   func() error  // returns why new jobs are refused for lack of space; nil: no bound

	// Throttlers has the throttlers in Go, by queue. Rules compiles the throttle setting of a
	// queue; nil: this process knows no rules.
	Throttlers map[string]throttle.Throttler
	Rules      func(text string) (throttle.Throttler, error)

	// How many days of statistics are kept, and of their histograms, today included; 0 = the
	// defaults of package statistics.
	StatisticsDays, HistogramDays int

	Without without.Switches // optimisations that are off
	// Spoils is asked before a cached value of a kind is used in a first try: true makes the copy
	// wrong, so that its validator must refuse it. Of tests; nil: never.
	Spoils func(what string) bool
}

// PollEvery is the default of Config.Poll. It bounds the start delay of a job that another process
// has enqueued or scheduled. Jobs scheduled by this process set the timer of the poll loop.
const PollEvery = 100 * time.Millisecond

// Statements over sj_meta, which has values of the store by name.
const (
	QMeta      = `select value from sj_meta where name = $1`
	QInitMeta  = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do nothing`
	QSetMeta   = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`
	QSwapClock = `update sj_meta set value = $1 where name = $2 and value = $3`
)

// Core is what all transactions of a store share: the database, the configuration, the clock, and
// caches. Safe for concurrent use.
type Core struct {
	DB       sqldb.DB
	Cfg      Config
	Clock    clock.Clock
	Lanes    Lanes
	Instance string                // the random name of the instance, from sj_meta
	Secret   []byte                // its key, for capabilities
	Broken   atomic.Pointer[error] // a disk error, after which nothing is accepted any more
	Leasing  atomic.Bool           // leases were granted since the shared clock was marked
	Done     chan struct{}         // closed when the store closes
	closing  sync.Once

	dead    vacuum.Trigger
	Workers presence.Workers
	Caches  Caches
}

// Caches are the caches of a store. Each of them may be empty at any time. Safe for concurrent use,
// except Local, which belongs to the one transaction that writes.
type Caches struct {
	Local    localRows  // rows and ids, on a database without concurrent writers
	Rows     rowCache   // rows, on a database with them
	Queues   queueCache // queues, blocks of ids, and last claims
	Decoder  jobrow.Decoder
	settings jobrow.BoundedMap[string, sojourn.QueueSettings] // JSON → its value
	followed atomic.Int64                                     // until when transactions write transitions, see Followed
	texts    sync.Map                                         // statement → its text on this database
}

// View runs fn in a read-only transaction, on a snapshot and with one reading of the clock. Its
// errors are those of callers: a database's own are translated by Failed.
func (s *Core) View(ctx context.Context, fn func(t *Tx) error) error {
	if err := s.refuses(); err != nil {
		return err
	}
	sent := s.Clock.Monotonic()
	err := s.DB.View(ctx, func(c sqldb.Conn) error {
		now, err := s.ReadClock(c, sent)
		if err != nil {
			return err
		}
		return fn(&Tx{Conn: c, Core: s, Reading: now, ReadOnly: true})
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.Failed(err)
	}
	return nil
}

// Close refuses new calls from now on, and reports whether this was the first call.
func (s *Core) Close() (first bool) {
	s.closing.Do(func() {
		first = true
		close(s.Done)
	})
	return first
}

// IsClosed reports whether Close was called.
func (s *Core) IsClosed() bool {
	select {
	case <-s.Done:
		return true
	default:
		return false
	}
}

// Failed translates an error of the database into one for callers. After an error that leaves the
// disk in doubt the store refuses everything (inv:A6): an fsync that failed once may report success
// the next time without having written.
func (s *Core) Failed(err error) error {
	if _, ours := errors.AsType[*sojourn.Error](err); ours {
		return err
	}
	if d := s.DB.Dialect(); d.Broken != nil && d.Broken(err) {
		e := error(&sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Err: errors.Join(sojourn.ErrClosed, err),
			Message: "the database failed (" + err.Error() + "); the store accepts nothing any more: check the disk, then restart the process"})
		s.Broken.CompareAndSwap(nil, &e)
		return e
	}
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: "the database refused: " + err.Error(), Err: err}
}

// refuses returns why the store accepts no call: it is closed, or its disk has failed.
func (s *Core) refuses() error {
	if s.IsClosed() {
		return groupcommit.ErrClosed
	}
	if err := s.Broken.Load(); err != nil {
		return *err
	}
	return nil
}

// sql returns the text of a statement on this database.
func (s *Core) sql(q string) string {
	if text, ok := s.Caches.texts.Load(q); ok {
		return text.(string)
	}
	text := s.DB.Dialect().SQL(s.Cfg.Prefix, q, q) // an override is named by the shared text
	s.Caches.texts.Store(q, text)
	return text
}

// NoteDead counts the dead rows of a committed transaction (Events.Dead).
func (s *Core) NoteDead(dead int) { s.dead.Note(s.DB, s.Done, dead) }
