package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Tx is one transaction: its connection, its one reading of the clock, and the events to publish
// after the commit.
type Tx struct {
	sqldb.Conn
	Core *Core
	clock.Reading
	Wrote         bool
	Silent        bool                     // its reads are reported to no caller
	Ready         map[QueueKind]int        // jobs that became claimable
	Freed         map[string]int           // weight that was returned, by queue
	Reads         bool                     // it is a View, which cannot write
	weights       map[groupKey]int64       // weight that has come into flight, see land
	locked        []string                 // queues, see LockQueue
	Stats         map[string]*OutcomeStats // queue → outcomes of its steps, which its gates have not evaluated yet
	assumed       map[string]int64         // queue → shape, see rely
	Due           int64                    // the earliest wake_at that was written; 0 = none
	Polls         []Poll                   // that were written
	Final         []sojourn.ID
	After         []func()         // run after the commit
	ClosedWindows map[string]error // windows that have refused a job, see gate.CheckWindows

	Optimistic  bool // the first try: uses caches, and prefetches for all steps at the beginning
	Prefetched  []Prefetched
	Prefetching bool                       // the batch that begins now has its reads sent with those of others
	Writes      WriteSet                   // written with the next flush
	HoldInserts bool                       // pending, except for the fresh rows, see CanHoldInserts
	Responses   ResponseWrites             // the same of responses
	Leased      map[sojourn.ID]*jobrow.Row // rows that were read for their leases and have not changed since; nil: not live
	recent      map[sojourn.ID]*jobrow.Row // see recent
	Blocks      []Block                    // of ids that it has leased
	Changed     []*jobrow.Row              // rows as they were written, oldest first
	Writers     map[sojourn.ID]int64       // cached rows → their marks
	writer      int64                      // the mark of this transaction, once it has committed; 0 = not asked for
	Dead        int                        // dead tuples that it creates in sj_live
	Altered     bool                       // it has changed a row outside of the list above
	Places      map[string]QueueRow        // queues as place has read them, since the last row was locked
	WaitReads   WaitReads                  // of the finishes under way
	Types       ContentTypes               // of the jobs whose bytes need their content types
	Validators  *Validators                // validators for the commit, if the transaction used cached reads; nil: it has read
	Learned     learned                    // that later transactions may take from the cache
	Starting    bool                       // its prefetch is for claims alone, which may bulk-start jobs
	Recheck     []KindKey                  // keys for which another transaction may not have seen this one, see Recheck
}

// NewTx makes a transaction whose time is not read yet.
func (s *Core) NewTx(c sqldb.Conn) *Tx {
	return &Tx{Conn: c, Core: s, Ready: map[QueueKind]int{}, Freed: map[string]int{}}
}

// Begin is NewTx that reads the clock.
func (s *Core) Begin(c sqldb.Conn) (t *Tx, err error) {
	sent := s.Clock.Monotonic()
	t = s.NewTx(c)
	t.Reading, err = s.ReadClock(c, sent)
	return t, err
}

// QueueKind is where a job can be claimed.
type QueueKind struct{ Queue, Kind string }

func (t *Tx) Write(q string, args ...any) (int64, error) {
	if err := t.Flush(); err != nil {
		return 0, err
	}
	n, err := t.Exec(t.Core.sql(q), jobrow.StorableArgs(args)...)
	t.Wrote = t.Wrote || n > 0
	t.Altered = t.Altered || alters(q)
	return n, err
}

func (t *Tx) Read(q string, each func(sqldb.Row) error, args ...any) error {
	if err := t.Flush(); err != nil {
		return err
	}
	return t.Peek(q, each, args...)
}

// Peek is query for reads that no pending write can change; it does not flush.
func (t *Tx) Peek(q string, each func(sqldb.Row) error, args ...any) error {
	return t.Query(t.Core.sql(q), each, jobrow.StorableArgs(args)...)
}

// ReadEach runs a query for every row of the columns, which must have one length, in any order.
func (t *Tx) ReadEach(q string, row func(sqldb.Row) error, columns ...sqldb.Column) error {
	return t.readEachBy(t.Read, q, row, columns...)
}

// readEachBy is each by query or peek.
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

// ReadInt runs a query that gives one number.
func (t *Tx) ReadInt(q string, args ...any) (n int64, err error) {
	err = t.Read(q, func(r sqldb.Row) error { n = r.Int(0); return nil }, args...)
	return n, err
}

// End runs last in a transaction: it flushes the pending writes, and checks that the settings it
// relied on are unchanged.
func (t *Tx) End() error {
	t.FlushWeights()
	if c, ok := t.Conn.(sqldb.Committer); ok {
		return t.commitWith(c)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return t.verifyAssumed()
}

// WaitReads holds prefetched reads for the steps of a transaction that begin to wait.
type WaitReads struct {
	Keys         map[sojourn.ID][]string // keys of earlier waits, by job
	NothingEarly map[KindKey]bool        // keys without an early response
}

// Holder is the job that has a key: a live job, or a final one that may keep it.
type Holder struct {
	ID    sojourn.ID
	Queue string
	Live  bool
	Held  int64 // until when a final one keeps it
	State sojourn.State
	Fresh bool // inserted by an earlier call of this transaction, and not written yet
}

// KindKey is a key; each kind has keys of its own.
type KindKey struct{ Kind, Key string }

// NoteRecheck records a key under which a response and the job that waits for it may have missed
// each other, because both are written by concurrent transactions that share no row: a response to
// a key without a job, and a wait that registered a key.
func (t *Tx) NoteRecheck(kind, key string) {
	if key != "" && t.Concurrent() {
		t.Recheck = append(t.Recheck, KindKey{kind, key})
	}
}
