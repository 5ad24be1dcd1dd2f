package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// tx is one transaction: its connection, its one reading of the clock, and the events to publish
// after the commit.
type tx struct {
	sqldb.Conn
	s *core
	reading
	wrote  bool
	silent bool                     // its reads are reported to no caller
	ready  map[place]int            // jobs that became claimable
	freed  map[string]int           // weight that was returned, by queue
	reads  bool                     // it is a View, which cannot write
	flight map[flight]int64         // weight that has come into flight, see land
	locked []string                 // queues, see lockQueue
	stats  map[string]*outcomeStats // queue → outcomes of its steps, which its gates have not evaluated yet
	relied map[string]int64         // queue → shape, see rely
	due    int64                    // the earliest wake_at that was written; 0 = none
	polls  []poll                   // that were written
	final  []sojourn.ID
	after  []func()         // run after the commit
	never  map[string]error // windows that have refused a job, see mayStart

	hasty       bool // the first try: uses caches, and prefetches for all steps at the beginning
	prefetched  []prefetched
	prefetching bool                 // the batch that begins now has its reads sent with those of others
	pending     pending              // written with the next flush
	holding     bool                 // pending, except for the fresh rows, see canHold
	inbox       inbox                // the same of responses
	leased      map[sojourn.ID]*live // rows that were read for their leases and have not changed since; nil: not live
	recent      map[sojourn.ID]*live // see recent
	blocks      []block              // of ids that it has leased
	changed     []*live              // rows as they were written, oldest first
	writers     map[sojourn.ID]int64 // cached rows → their marks
	writer      int64                // the mark of this transaction, once it has committed; 0 = not asked for
	dead        int                  // dead tuples that it creates in sj_live
	altered     bool                 // it has changed a row outside of the list above
	places      map[string]queueRow  // queues as place has read them, since the last row was locked
	waits       waits                // of the finishes under way
	types       contentTypes         // of the jobs whose bytes need their content types
	guessed     *questions           // validators for the commit, if the transaction used cached reads; nil: it has read
	learned     learned              // that later transactions may take from the cache
	starting    bool                 // its prefetch is for claims alone, which may bulk-start jobs
	unseen      []kindKey            // keys for which another transaction may not have seen this one, see lookAgain
}

// newTx makes a transaction whose time is not read yet.
func (s *core) newTx(c sqldb.Conn) *tx {
	return &tx{Conn: c, s: s, ready: map[place]int{}, freed: map[string]int{}}
}

// timed is newTx that reads the clock.
func (s *core) timed(c sqldb.Conn) (t *tx, err error) {
	sent := s.clock.monotonic()
	t = s.newTx(c)
	t.reading, err = s.read(c, sent)
	return t, err
}

// place is where a job can be claimed.
type place struct{ queue, kind string }

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

// waits holds prefetched reads for the steps of a transaction that begin to wait.
type waits struct {
	keys         map[sojourn.ID][]string // keys of earlier waits, by job
	nothingEarly map[kindKey]bool        // keys without an early response
}
