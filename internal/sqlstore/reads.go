package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// readWaits reads the keys of all rows whose steps begin to wait, and which of the keys have no
// early response, in one query each.
func (t *tx) readWaits(begin []*live) error {
	t.waits = waits{map[sojourn.ID][]string{}, map[kindKey]bool{}}
	var again sqldb.Ints
	for _, l := range begin {
		t.waits.keys[l.ID] = nil
		if l.awaited {
			again = append(again, int64(l.ID))
		}
	}
	if len(again) > 0 {
		err := t.query(qWaitKeys, func(r sqldb.Row) error {
			id := sojourn.ID(r.Int(0))
			t.waits.keys[id] = append(t.waits.keys[id], r.Text(1))
			return nil
		}, again)
		if err != nil {
			return err
		}
	}
	var kinds, keys sqldb.Texts
	for _, l := range begin {
		own := sqldb.Texts{l.key}
		for _, k := range append(own, t.waits.keys[l.ID]...) {
			if k != "" {
				kinds, keys = append(kinds, l.kind), append(keys, k)
				t.waits.nothingEarly[kindKey{l.kind, k}] = true
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return t.each(qAnyEarly, func(r sqldb.Row) error { delete(t.waits.nothingEarly, kindKey{r.Text(0), r.Text(1)}); return nil }, kinds, keys)
}

// readAhead reads the rows of all leases, and the keys of steps that begin to wait.
func (t *tx) readAhead(requests []finishAsk) error {
	var leases []sojourn.Lease
	for _, r := range requests {
		for i := range r.outcomes {
			if lease := r.outcomes[i].Lease; t.leased[lease.ID] == nil {
				leases = append(leases, lease)
			}
		}
	}
	if err := t.readLeased(leases); err != nil {
		return err
	}
	if err := t.readTypes(requests); err != nil {
		return err
	}
	var begin []*live // rows whose steps begin to wait
	for _, r := range requests {
		for i := range r.outcomes {
			if l := t.leased[r.outcomes[i].Lease.ID]; l != nil && r.outcomes[i].Type == sojourn.OutcomeAwait {
				begin = append(begin, l)
			}
		}
	}
	return t.readWaits(begin)
}

// readTypes reads the content types that outcomes need, in one query.
func (t *tx) readTypes(requests []finishAsk) error {
	var ids sqldb.Ints
	for _, r := range requests {
		for i, n := range r.notJSON {
			if n.undeclared() {
				ids = append(ids, int64(r.outcomes[i].Lease.ID))
			}
		}
	}
	return t.readTypesOf(ids)
}
