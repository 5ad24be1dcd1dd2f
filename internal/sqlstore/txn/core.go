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

	Without Without // optimisations that are off
	// Spoils is asked before a cached value of a kind is used in a first try: true makes the copy
	// wrong, so that its validator must refuse it. Of tests; nil: never.
	Spoils func(what string) bool

	Throttlers map[string]throttle.Throttler                 // queue → its throttler in Go
	Rules      func(text string) (throttle.Throttler, error) // compiles the throttle setting of queues; nil: this process knows no rules
}

// Core is what all transactions of a store share: the database, the configuration, the clock, and
// caches. Safe for concurrent use.
type Core struct {
	DB       sqldb.DB
	Cfg      Config
	Clock    clock.Clock
	Lanes    lanes
	Instance string
	Secret   []byte
	Broken   atomic.Pointer[error] // a disk error after which nothing is accepted any more
	Leasing  atomic.Bool           // leases were granted since the shared clock was marked
	Done     chan struct{}         // closed when the store closes
	closing  sync.Once

	rendered   sync.Map                                         // statement → its text on this database
	settings   jobrow.BoundedMap[string, sojourn.QueueSettings] // JSON → its value
	Decoder    jobrow.Decoder
	LocalRows  localRows
	RowCache   rowCache
	QueueCache queueCache
	churn      deadRows
	Workers    Workers
}

func (s *Core) sql(q string) string {
	if text, ok := s.rendered.Load(q); ok {
		return text.(string)
	}
	text := s.DB.Dialect().SQL(s.Cfg.Prefix, q, q) // an override is named by the shared text
	s.rendered.Store(q, text)
	return text
}

// View runs fn on a read-only snapshot with one reading of the clock.
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
		return fn(&Tx{Conn: c, Core: s, Reading: now, Reads: true})
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.Failed(err)
	}
	return nil
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

func (s *Core) IsClosed() bool {
	select {
	case <-s.Done:
		return true
	default:
		return false
	}
}

// Close refuses new calls from now on, and reports whether this was the first call.
func (s *Core) Close() (first bool) {
	s.closing.Do(func() {
		first = true
		close(s.Done)
	})
	return first
}

// Failed translates an error of the database. After one that leaves the disk in doubt the store
// refuses everything (inv:A6): an fsync that failed once may report success the next time without
// having written.
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

// PollEvery is the default of Config.Poll. It bounds the start delay of a job that another process
// has enqueued or scheduled. Jobs scheduled by this process set the timer of the poll loop.
const PollEvery = 100 * time.Millisecond

const (
	QMeta     = `select value from sj_meta where name = $1`
	QInitMeta = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do nothing`
	QSetMeta  = `insert into sj_meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`
)

// ConfirmClock confirms the transaction's predicted time with the time of the server's clock.
func (t *Tx) ConfirmClock() error {
	own, ok := t.Conn.(sqldb.Clocked)
	if !ok || t.Core.Cfg.Driven {
		return nil
	}
	now, err := own.Clock()
	if err == nil {
		t.Core.Clock.Confirm(t.Reading, now)
	}
	return err
}

// InGrace reports whether a running row was written before the latest step of the clock, or before
// the latest time without a process, and may therefore end too early by gap. Until the returned
// time its worker, if it lives, extends the lease or shifts it.
func (t *Tx) InGrace(l *jobrow.Row) (until int64, grace bool) {
	if l.UpdatedAt >= t.Since || t.Gap == 0 {
		return 0, false
	}
	until = min(l.LeaseUntil+t.Gap, t.Since+min(l.LeaseUs, clock.MaxGrace.Microseconds()))
	return until, until > t.Now
}

// ReadClock reads the clock for a transaction: the database's own, if it has one. sent is the
// monotonic time before the transaction began.
func (s *Core) ReadClock(c sqldb.Conn, sent int64) (clock.Reading, error) {
	own, ok := c.(sqldb.Clocked)
	if !ok || s.Cfg.Driven {
		return s.Clock.Read(), nil
	}
	now, err := own.Clock()
	if err != nil {
		return clock.Reading{}, err
	}
	return s.Clock.ReadFrom(now, sent), nil
}

const QSwapClock = `update sj_meta set value = $1 where name = $2 and value = $3`

// GrantGrace writes the present grace into the shared record, so that the next process that opens
// the store does not grant it again.
func (t *Tx) GrantGrace() error {
	r, ok := t.Core.Clock.Unsaved(t.Now)
	if !ok {
		return nil
	}
	_, err := t.Write(QSwapClock, r.String(), clock.MetaName, r.Text)
	return err
}
