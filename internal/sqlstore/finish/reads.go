package finish

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// readRows reads the rows of all leases, the content types that outcomes need, and the keys of the
// steps that begin to wait.
func readRows(t *txn.Tx, requests []request) error {
	var leases []sojourn.Lease
	for _, r := range requests {
		for i := range r.outcomes {
			if lease := r.outcomes[i].Lease; t.Loaded.Leased[lease.ID] == nil {
				leases = append(leases, lease)
			}
		}
	}
	if err := t.ReadLeased(leases); err != nil {
		return err
	}
	if err := readTypes(t, requests); err != nil {
		return err
	}
	var begin []*jobrow.Row // rows whose steps begin to wait
	var kept sqldb.Ints     // jobs with attached responses, which may move them on now
	for _, r := range requests {
		for i := range r.outcomes {
			l := t.Loaded.Leased[r.outcomes[i].Lease.ID]
			if l != nil && r.outcomes[i].Type == sojourn.OutcomeAwait {
				begin = append(begin, l)
			}
			if l != nil && l.Kept > 0 && r.outcomes[i].Type != sojourn.OutcomeCompleted {
				kept = append(kept, int64(l.ID))
			}
		}
	}
	return readWaits(t, begin, kept)
}

// readTypes reads the content types that outcomes need, in one query.
func readTypes(t *txn.Tx, requests []request) error {
	var ids sqldb.Ints
	for _, r := range requests {
		for i, n := range r.notJSON {
			if n.Undeclared() {
				ids = append(ids, int64(r.outcomes[i].Lease.ID))
			}
		}
	}
	return t.ReadTypesOf(ids)
}

// readWaits reads the keys of rows whose steps begin to wait, which of the keys have no early
// response, and attached responses, in one query each. Reads for single steps would flush the write
// set after each.
func readWaits(t *txn.Tx, begin []*jobrow.Row, kept sqldb.Ints) error {
	t.Loaded.Waits = txn.WaitReads{Keys: map[sojourn.ID][]string{}, NothingEarly: map[txn.KindKey]bool{}, Attached: map[sojourn.ID][]rules.KeptResponse{}}
	var again sqldb.Ints
	for _, l := range begin {
		t.Loaded.Waits.Keys[l.ID] = nil
		if l.Awaited {
			again = append(again, int64(l.ID))
		}
	}
	if len(again) > 0 {
		err := t.Read(lifecycle.QWaitKeys, func(r sqldb.Row) error {
			id := sojourn.ID(r.Int(0))
			t.Loaded.Waits.Keys[id] = append(t.Loaded.Waits.Keys[id], r.Text(1))
			return nil
		}, again)
		if err != nil {
			return err
		}
	}
	var kinds, keys sqldb.Texts
	for _, l := range begin {
		own := sqldb.Texts{l.Key}
		for _, k := range append(own, t.Loaded.Waits.Keys[l.ID]...) {
			if k != "" {
				kinds, keys = append(kinds, l.Kind), append(keys, k)
				t.Loaded.Waits.NothingEarly[txn.KindKey{Kind: l.Kind, Key: k}] = true
			}
		}
	}
	var reads []sqldb.Statement
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: lifecycle.QAnyEarly, Rows: []sqldb.Column{kinds, keys}, Each: func(r sqldb.Row) error {
			delete(t.Loaded.Waits.NothingEarly, txn.KindKey{Kind: r.Text(0), Key: r.Text(1)})
			return nil
		}})
	}
	if len(kept) > 0 {
		reads = append(reads, sqldb.Statement{Text: lifecycle.QAttached, Args: []any{kept}, Each: lifecycle.ScanAttached(t.Loaded.Waits.Attached)})
	}
	if len(reads) == 0 {
		return nil
	}
	return t.ReadAll(reads)
}
