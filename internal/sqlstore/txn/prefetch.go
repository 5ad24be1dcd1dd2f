package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Prefetched is a batch whose reads were sent in the first message of the transaction, or were
// cached.
type Prefetched struct {
	Op   any // see Call.OpID
	Work work
}

// Prefetch begins the transaction with the reads of a group, in one message: the rows of its
// leases, locked in order (unless all are cached, or the reads of its first batch lock them), and
// the reads of its first batch. The first try adds the reads of all other batches. These see the
// state before the group, as if each batch came first: if one batch changes the rows of another,
// the writes fail, and the second try reads for each batch in turn. It does nothing where messages
// cost no round trip (docs/internals/engine.md#prefetch).
func (t *Tx) Prefetch(group []Call) error {
	if _, ok := t.Conn.(sqldb.Sender); !ok || len(group) == 0 {
		return nil
	}
	var reads []sqldb.Statement
	if !t.Optimistic || !t.cachedLeases(group) {
		ids := leasesOf(group)
		t.Loaded.Leased = make(map[sojourn.ID]*jobrow.Row, len(ids))
		for _, id := range ids {
			t.Loaded.Leased[sojourn.ID(id)] = nil // not live, unless it is found
		}
		if len(ids) > 0 && !group[0].locks() {
			reads = append(reads, sqldb.Statement{Text: qLive, Args: []any{ids}, Each: t.ScanInto(t.Loaded.Leased, noMore)})
		}
	}
	t.First.Collecting = true
	defer func() { t.First.Collecting, t.First.ClaimsOnly = false, false }()
	all := t.Optimistic && !t.Core.Cfg.Without.Prefetch
	for rest := group; len(rest) > 0 && (all || len(reads) == 0); {
		op := rest[0].OpID()
		var same []Call
		same, rest = Partition(rest, op)
		t.First.ClaimsOnly = t.Optimistic && len(same) == len(group)
		w := same[0].Begin(t, same)
		more := w.Reads()
		if len(more) == 0 && !all {
			break
		}
		t.First.Batches = append(t.First.Batches, Prefetched{op, w})
		reads = append(reads, more...)
	}
	if len(reads) == 0 {
		return nil
	}
	return t.send(reads)
}

// TakePrefetched returns the prefetched batch of an op, once; false if there is none.
func (t *Tx) TakePrefetched(op any) (work, bool) {
	for i, p := range t.First.Batches {
		if p.Op == op {
			t.First.Batches[i] = Prefetched{}
			return p.Work, true
		}
	}
	return nil, false
}

// Partition splits a group into the calls of an op and the others, both in order.
func Partition(group []Call, op any) (same, rest []Call) {
	for _, c := range group {
		if c.OpID() == op {
			same = append(same, c)
		} else {
			rest = append(rest, c)
		}
	}
	return same, rest
}

// leasesOf lists the jobs of all leases of a group.
func leasesOf(group []Call) (ids sqldb.Ints) {
	for _, c := range group {
		c.leases(func(l sojourn.Lease, _ bool) { ids = append(ids, int64(l.ID)) })
	}
	return ids
}
