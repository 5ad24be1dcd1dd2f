package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// load reads and locks live rows.
func (t *tx) load(ids sqldb.Ints) (map[sojourn.ID]*live, error) {
	return t.loadBy(qLive, ids, noMore)
}

func noMore(sqldb.Row, *live) error { return nil }

// loadBy is load by a query that begins with liveColumns; more reads the columns after them.
func (t *tx) loadBy(q string, ids sqldb.Ints, more func(sqldb.Row, *live) error) (map[sojourn.ID]*live, error) {
	found := make(map[sojourn.ID]*live, len(ids))
	return found, t.loadInto(found, q, ids, more)
}

func (t *tx) loadInto(found map[sojourn.ID]*live, q string, ids sqldb.Ints, more func(sqldb.Row, *live) error) error {
	t.places = nil // settings for a row are read after it was locked
	return t.query(q, t.scanInto(found, more), ids)
}

func (t *tx) scanInto(found map[sojourn.ID]*live, more func(sqldb.Row, *live) error) func(sqldb.Row) error {
	return func(r sqldb.Row) error {
		l, err := t.s.decoder.scan(r)
		if err != nil {
			return err
		}
		found[l.ID] = l
		return more(r, l)
	}
}

func (t *tx) loadOne(id sojourn.ID) (*live, error) {
	found, err := t.load(sqldb.Ints{int64(id)})
	return found[id], err
}

// readLeased reads and locks the rows of leases that were not read yet. A row that changes in this
// transaction is read again.
func (t *tx) readLeased(leases []sojourn.Lease) error {
	if t.leased == nil {
		t.leased = make(map[sojourn.ID]*live, len(leases))
	}
	ids := make(sqldb.Ints, 0, len(leases))
	for _, l := range leases {
		if _, ok := t.leased[l.ID]; ok {
			continue
		}
		if row := t.recently(l); row != nil {
			t.leased[l.ID] = row
		} else {
			ids = append(ids, int64(l.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := t.load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t.leased[sojourn.ID(id)] = found[sojourn.ID(id)] // nil: the job is not live
	}
	return nil
}

// underLease returns the row of a lease that is still valid; nil if the lease is lost.
func (t *tx) underLease(lease sojourn.Lease) (*live, error) {
	if _, ok := t.leased[lease.ID]; !ok {
		if err := t.readLeased([]sojourn.Lease{lease}); err != nil {
			return nil, err
		}
	}
	if l := t.leased[lease.ID]; l != nil && l.stands(lease) {
		return l, nil
	}
	return nil, nil
}

var qLive = `select ` + liveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1)) order by l.id /*lock l*/`
