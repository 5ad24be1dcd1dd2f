package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Load reads and locks live rows.
func (t *Tx) Load(ids sqldb.Ints) (map[sojourn.ID]*jobrow.Row, error) {
	return t.loadBy(qLive, ids, noMore)
}

func noMore(sqldb.Row, *jobrow.Row) error { return nil }

// loadBy is load by a query that begins with jobrow.LiveColumns; more reads the columns after them.
func (t *Tx) loadBy(q string, ids sqldb.Ints, more func(sqldb.Row, *jobrow.Row) error) (map[sojourn.ID]*jobrow.Row, error) {
	found := make(map[sojourn.ID]*jobrow.Row, len(ids))
	return found, t.LoadInto(found, q, ids, more)
}

func (t *Tx) LoadInto(found map[sojourn.ID]*jobrow.Row, q string, ids sqldb.Ints, more func(sqldb.Row, *jobrow.Row) error) error {
	t.Loaded.Queues = nil // settings for a row are read after it was locked
	return t.Read(q, t.ScanInto(found, more), ids)
}

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

func (t *Tx) LoadOne(id sojourn.ID) (*jobrow.Row, error) {
	found, err := t.Load(sqldb.Ints{int64(id)})
	return found[id], err
}

// ReadLeased reads and locks the rows of leases that were not read yet. A row that changes in this
// transaction is read again.
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

// UnderLease returns the row of a lease that is still valid; nil if the lease is lost.
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

var qLive = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1)) order by l.id /*lock l*/`

const QPickErrored = `select id, r1, r2, 0 from sj_live where queue = $1 and kind = $2 and state = 6 order by r1, r2, id limit $3 /*lock*/`

const qReserves = `select id from sj_live where id = $1 and run_at_us <= $2`

// ReserveBefore is the latest run_at of a ready job that a claim must not skip for its weight; 0
// without a reserve.
func ReserveBefore(now int64, r driver.ClaimRequest) int64 {
	if r.Reserve <= 0 {
		return 0
	}
	return now - r.Reserve.Microseconds()
}

// Reserves reports whether a claim must not skip a candidate that does not fit into the room left.
func (t *Tx) Reserves(r driver.ClaimRequest, id int64) (yes bool, err error) {
	if r.Reserve <= 0 {
		return false, nil
	}
	err = t.Read(qReserves, func(sqldb.Row) error { yes = true; return nil }, id, ReserveBefore(t.Now, r))
	return yes, err
}
