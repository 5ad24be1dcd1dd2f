package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

var qLive = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1)) order by l.id /*lock l*/`

// Load reads and locks live rows, in ascending order. Ids of jobs that are not live are missing in
// the result.
func (t *Tx) Load(ids sqldb.Ints) (map[sojourn.ID]*jobrow.Row, error) {
	found := make(map[sojourn.ID]*jobrow.Row, len(ids))
	return found, t.LoadInto(found, qLive, ids, noMore)
}

// LoadOne reads and locks a live row; nil if the job is not live.
func (t *Tx) LoadOne(id sojourn.ID) (*jobrow.Row, error) {
	found, err := t.Load(sqldb.Ints{int64(id)})
	return found[id], err
}

// LoadInto adds rows to found with the statement q, which begins with jobrow.LiveColumns and locks
// them. more reads the columns after those.
func (t *Tx) LoadInto(found map[sojourn.ID]*jobrow.Row, q string, ids sqldb.Ints, more func(sqldb.Row, *jobrow.Row) error) error {
	t.Loaded.Queues = nil // settings for a row are read after the row was locked
	return t.Read(q, t.ScanInto(found, more), ids)
}

// noMore is for results without further columns.
func noMore(sqldb.Row, *jobrow.Row) error { return nil }

// ScanInto returns a function that adds each row of a result to found. The result begins with
// jobrow.LiveColumns; more reads the columns after those.
func (t *Tx) ScanInto(found map[sojourn.ID]*jobrow.Row, more func(sqldb.Row, *jobrow.Row) error) func(sqldb.Row) error {
	return func(r sqldb.Row) error {
		l, err := t.Core.Caches.Decoder.Scan(r)
		if err != nil {
			return err
		}
		found[l.ID] = l
		return more(r, l)
	}
}

// ReadLeased reads the rows of leases into t.Loaded.Leased, and locks those that are not cached. It
// skips rows that it has read and that have not changed in this transaction since.
func (t *Tx) ReadLeased(leases []sojourn.Lease) error {
	if t.Loaded.Leased == nil {
		t.Loaded.Leased = make(map[sojourn.ID]*jobrow.Row, len(leases))
	}
	ids := make(sqldb.Ints, 0, len(leases))
	for _, l := range leases {
		if _, ok := t.Loaded.Leased[l.ID]; ok {
			continue
		}
		if row := t.cachedRow(l); row != nil {
			t.Loaded.Leased[l.ID] = row
		} else {
			ids = append(ids, int64(l.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := t.Load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t.Loaded.Leased[sojourn.ID(id)] = found[sojourn.ID(id)] // nil: the job is not live
	}
	return nil
}

// UnderLease returns the row of a lease that is still valid; nil if the lease is lost. Every write
// under a lease begins with it (inv:F2, docs/decisions/004).
func (t *Tx) UnderLease(lease sojourn.Lease) (*jobrow.Row, error) {
	if _, ok := t.Loaded.Leased[lease.ID]; !ok {
		if err := t.ReadLeased([]sojourn.Lease{lease}); err != nil {
			return nil, err
		}
	}
	if l := t.Loaded.Leased[lease.ID]; l != nil && l.HasLease(lease) {
		return l, nil
	}
	return nil, nil
}

// QPickErrored selects and locks the first errored jobs of a queue and kind, whose retry handlers a
// claim runs.
const QPickErrored = `select id, r1, r2, 0 from sj_live where queue = $1 and kind = $2 and state = 6 order by r1, r2, id limit $3 /*lock*/`

const qReserves = `select id from sj_live where id = $1 and run_at_us <= $2`

// ReserveBefore returns the run_at, in microseconds, up to which a ready job has waited so long
// that a claim keeps room for it, whatever its weight; 0 if the claim has no Reserve.
func ReserveBefore(now int64, r driver.ClaimRequest) int64 {
	if r.Reserve <= 0 {
		return 0
	}
	return now - r.Reserve.Microseconds()
}

// Reserves reports whether a claim must keep its room for a candidate that does not fit into it.
func (t *Tx) Reserves(r driver.ClaimRequest, id int64) (yes bool, err error) {
	if r.Reserve <= 0 {
		return false, nil
	}
	err = t.Read(qReserves, func(sqldb.Row) error { yes = true; return nil }, id, ReserveBefore(t.Now, r))
	return yes, err
}

const qTypes = `select id, content_type from sj_job where id in (ints($1))`

// ReadTypesOf reads the content types of jobs into t.Loaded.Types.
func (t *Tx) ReadTypesOf(ids sqldb.Ints) error {
	if len(ids) == 0 {
		return nil
	}
	if t.Loaded.Types == nil {
		t.Loaded.Types = make(jobrow.ContentTypes, len(ids))
	}
	return t.Read(qTypes, func(row sqldb.Row) error { t.Loaded.Types[sojourn.ID(row.Int(0))] = row.Text(1); return nil }, ids)
}
