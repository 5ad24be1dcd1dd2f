package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// prefetched is a batch whose reads were sent in the first message of the transaction, or were
// cached.
type prefetched struct {
	op   any
	work work
}

func partition(group []call, op any) (same, rest []call) {
	for _, c := range group {
		if c.opID() == op {
			same = append(same, c)
		} else {
			rest = append(rest, c)
		}
	}
	return same, rest
}

// takePrefetched returns the prefetched batch of an op, once; false if there is none.
func (t *tx) takePrefetched(op any) (work, bool) {
	for i, p := range t.prefetched {
		if p.op == op {
			t.prefetched[i] = prefetched{}
			return p.work, true
		}
	}
	return nil, false
}

// prefetch begins the transaction with the reads of a group: the rows of its leases, locked in
// order (unless all are cached, or the reads of its responses lock them), and the reads of its
// first batch. The first try adds the reads of all other batches. These see the state before the
// group, as if each batch came first. If one batch changes the rows of another, the writes fail, and
// the second try reads for each batch in turn.
func (t *tx) prefetch(group []call) error {
	if _, ok := t.Conn.(sqldb.Sender); !ok || len(group) == 0 {
		return nil
	}
	var reads []sqldb.Statement
	if !t.hasty || !t.trust(group) {
		ids := leasesOf(group)
		t.leased = make(map[sojourn.ID]*live, len(ids))
		for _, id := range ids {
			t.leased[sojourn.ID(id)] = nil // not live, unless it is found
		}
		if len(ids) > 0 && !group[0].locks() {
			reads = append(reads, sqldb.Statement{Text: qLive, Args: []any{ids}, Each: t.scanInto(t.leased, noMore)})
		}
	}
	t.prefetching = true
	defer func() { t.prefetching, t.starting = false, false }()
	for rest := group; len(rest) > 0 && (t.hasty || len(reads) == 0); {
		op := rest[0].opID()
		var same []call
		same, rest = partition(rest, op)
		t.starting = t.hasty && len(same) == len(group)
		w := same[0].begin(t, same)
		more := w.reads()
		if len(more) == 0 && !t.hasty {
			break
		}
		t.prefetched = append(t.prefetched, prefetched{op, w})
		reads = append(reads, more...)
	}
	if len(reads) == 0 {
		return nil
	}
	return t.send(reads)
}

// leasesOf lists the jobs of all leases of a group.
func leasesOf(group []call) (ids sqldb.Ints) {
	for _, c := range group {
		c.leases(func(l sojourn.Lease, _ bool) { ids = append(ids, int64(l.ID)) })
	}
	return ids
}
