package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobevent"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
	"github.com/sojourn-queue/sojourn/rules"
)

// Tx is one transaction of the store. The requests that share it add their writes to its write set,
// in order, and End sends them. Used by one goroutine at a time.
type Tx struct {
	sqldb.Conn
	clock.Reading // the one reading of the clock: every decision of the transaction uses it
	Core          *Core

	Optimistic bool // the first try: it uses caches, and prefetches for all batches at the beginning
	ReadOnly   bool // of Core.View
	Silent     bool // its reads are reported to no caller, so it need not wait for the disk
	Wrote      bool // it has sent a write

	Writes      WriteSet       // sent by the next flush
	Responses   ResponseWrites // the same for the inbox
	HoldInserts bool           // a flush leaves Writes.Inserts, see CanHoldInserts

	First       FirstMessage
	Loaded      Loaded
	Cache       CacheUse
	Queues      QueueUse
	Events      Events
	Counts      jobcount.Changes // End writes them
	Stats       jobstat.Changes  // End writes them
	Transitions jobevent.Changes // End writes them, see writeTransitions
	ending      bool             // End runs: the next flush is the last one
}

// FirstMessage has the batches of requests whose reads were prefetched, see Tx.Prefetch.
type FirstMessage struct {
	Batches    []Prefetched
	Collecting bool // a batch that begins now has its reads sent with those of others
	ClaimsOnly bool // the group has only claims, so that its first one may bulk-start jobs
}

// Loaded holds rows that the transaction has read and needs more than once.
type Loaded struct {
	Leased        map[sojourn.ID]*jobrow.Row // rows of leases that have not changed since; nil: not live
	Queues        map[string]QueueRow        // queues as placeRow has read them, since a row was locked last
	Waits         WaitReads                  // for finishes
	Types         jobrow.ContentTypes        // of jobs that get bytes without a content type
	ClosedWindows map[string]error           // windows that have refused a job, see gate.CheckWindows
}

// WaitReads holds reads for all steps that a transaction ends, so that no step needs a flush.
type WaitReads struct {
	Keys         map[sojourn.ID][]string             // keys of earlier waits, of jobs that begin to wait
	NothingEarly map[KindKey]bool                    // keys without an early response
	Attached     map[sojourn.ID][]rules.KeptResponse // attached responses, of jobs that have some
}

// CacheUse holds the cached values that a transaction uses, and the values to cache after
// its commit.
type CacheUse struct {
	Validators *Validators                // of the cached reads of queues or clock; nil: there are none
	Writers    map[sojourn.ID]int64       // jobs whose rows come from the row cache → their marks
	local      map[sojourn.ID]*jobrow.Row // the valid rows of the local cache; nil: there is none

	Changed    []*jobrow.Row // rows as they were written, oldest first
	Altered    bool          // rows have changed that are not in Changed
	unfollowed bool          // its commit proves that there is no follower
	writer     int64         // the mark of this transaction in the rows that it writes; 0 = not read
	Blocks     []Block       // of ids that it has leased
	Learned    Learned
}

// QueueUse is what a transaction does to queues as a whole.
type QueueUse struct {
	Stats   map[string]*OutcomeStats // outcomes of steps that the queue's gates have not evaluated yet
	weights map[groupKey]int64       // changes of the weight in flight, see AddWeight
	locked  []string                 // see LockQueue
	assumed map[string]int64         // queue → layout, see AssumeSettings
}

// NewTx makes a transaction whose Reading is not set yet, over a connection in which the database
// has begun one.
func (s *Core) NewTx(c sqldb.Conn) *Tx {
	return &Tx{Conn: c, Core: s, Events: Events{Ready: map[QueueKind]int{}, Freed: map[string]int{}, Cascades: map[sojourn.ID]Cascade{}},
		Counts: jobcount.Changes{Off: s.Cfg.Without.Counts}, Stats: jobstat.Changes{Off: s.Cfg.Without.Statistics},
		Transitions: jobevent.Changes{On: s.Followed()}}
}

// Begin makes a transaction and reads the clock.
func (s *Core) Begin(c sqldb.Conn) (t *Tx, err error) {
	sent := s.Clock.Monotonic()
	t = s.NewTx(c)
	t.Reading, err = s.ReadClock(c, sent)
	return t, err
}

// Read runs a query after a flush, so that it sees all writes of the transaction. each gets a row,
// which is valid until the next one.
func (t *Tx) Read(q string, each func(sqldb.Row) error, args ...any) error {
	if err := t.Flush(); err != nil {
		return err
	}
	return t.Peek(q, each, args...)
}

// Peek is Read without the flush, for tables that no pending write changes.
func (t *Tx) Peek(q string, each func(sqldb.Row) error, args ...any) error {
	return t.Query(t.Core.sql(q), each, jobrow.StorableArgs(args)...)
}

// ReadInt runs a query that returns one number; 0 if it returns no row.
func (t *Tx) ReadInt(q string, args ...any) (n int64, err error) {
	err = t.Read(q, func(r sqldb.Row) error { n = r.Int(0); return nil }, args...)
	return n, err
}

// ReadEach runs a query for every row of columns of one length, in any order: as one statement
// where the database has arrays, and in a loop elsewhere.
func (t *Tx) ReadEach(q string, row func(sqldb.Row) error, columns ...sqldb.Column) error {
	return t.readEachBy(t.Read, q, row, columns...)
}

// readEachBy is ReadEach by Read or Peek.
func (t *Tx) readEachBy(read func(string, func(sqldb.Row) error, ...any) error, q string, row func(sqldb.Row) error, columns ...sqldb.Column) error {
	n := columns[0].Len()
	if n == 0 {
		return nil
	}
	args := make([]any, len(columns))
	if t.Core.DB.Dialect().Arrays {
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

// Write runs a statement now, after a flush, and returns the number of rows that it has changed.
func (t *Tx) Write(q string, args ...any) (int64, error) {
	if err := t.Flush(); err != nil {
		return 0, err
	}
	n, err := t.Exec(t.Core.sql(q), jobrow.StorableArgs(args)...)
	t.Wrote = t.Wrote || n > 0
	t.Cache.Altered = t.Cache.Altered || alters(q)
	return n, err
}

// WriteBulk runs a bulk statement now, after a flush. Its rows are columns of one length, the first
// of them numbers. hit gets the number that the statement returns for each row that it has changed.
func (t *Tx) WriteBulk(q string, hit func(int64), first sqldb.Ints, more ...sqldb.Column) error {
	if len(first) == 0 {
		return nil
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t.Wrote = true
	return t.Bulk(t.Core.sql(q), hit, first, jobrow.StorableColumns(more)...)
}

// End sends the pending writes, validates cached reads and assumed settings, and commits where that
// is part of the message. Elsewhere DB.Update commits after it. Nothing may run after End.
func (t *Tx) End() error {
	for _, add := range t.Events.Ending {
		add(t)
	}
	t.FlushWeights()
	t.ending = true
	if c, ok := t.Conn.(sqldb.Committer); ok {
		return t.commitWith(c)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return t.verifyAssumed()
}

// QueueKind is where a job can be claimed.
type QueueKind struct{ Queue, Kind string }

// KindKey is a key; each kind has keys of its own.
type KindKey struct{ Kind, Key string }

// Holder is the job that has a key: a live job, or a final one that may keep it.
type Holder struct {
	ID      sojourn.ID
	Queue   string
	Live    bool
	Held    int64 // until when a final one keeps it
	State   sojourn.State
	Pending bool // stored by an earlier call of this transaction, and not sent yet
}
