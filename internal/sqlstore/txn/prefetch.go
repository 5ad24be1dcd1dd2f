package txn

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Prefetched is a batch whose reads were sent in the first message of the transaction, or were
// cached.
type Prefetched struct {
	Op   any
	Work work
}

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

// TakePrefetched returns the prefetched batch of an op, once; false if there is none.
func (t *Tx) TakePrefetched(op any) (work, bool) {
	for i, p := range t.Prefetched {
		if p.Op == op {
			t.Prefetched[i] = Prefetched{}
			return p.Work, true
		}
	}
	return nil, false
}

// Prefetch begins the transaction with the reads of a group: the rows of its leases, locked in
// order (unless all are cached, or the reads of its responses lock them), and the reads of its
// first batch. The first try adds the reads of all other batches. These see the state before the
// group, as if each batch came first. If one batch changes the rows of another, the writes fail,
// and the second try reads for each batch in turn.
func (t *Tx) Prefetch(group []Call) error {
	if _, ok := t.Conn.(sqldb.Sender); !ok || len(group) == 0 {
		return nil
	}
	var reads []sqldb.Statement
	if !t.Optimistic || !t.cachedLeases(group) {
		ids := leasesOf(group)
		t.Leased = make(map[sojourn.ID]*jobrow.Row, len(ids))
		for _, id := range ids {
			t.Leased[sojourn.ID(id)] = nil // not live, unless it is found
		}
		if len(ids) > 0 && !group[0].locks() {
			reads = append(reads, sqldb.Statement{Text: qLive, Args: []any{ids}, Each: t.ScanInto(t.Leased, noMore)})
		}
	}
	all := t.Optimistic && !t.Core.Cfg.Without.Prefetch
	t.Prefetching = true
	defer func() { t.Prefetching, t.Starting = false, false }()
	for rest := group; len(rest) > 0 && (all || len(reads) == 0); {
		op := rest[0].OpID()
		var same []Call
		same, rest = Partition(rest, op)
		t.Starting = t.Optimistic && len(same) == len(group)
		w := same[0].Begin(t, same)
		more := w.Reads()
		if len(more) == 0 && !all {
			break
		}
		t.Prefetched = append(t.Prefetched, Prefetched{op, w})
		reads = append(reads, more...)
	}
	if len(reads) == 0 {
		return nil
	}
	return t.send(reads)
}

// leasesOf lists the jobs of all leases of a group.
func leasesOf(group []Call) (ids sqldb.Ints) {
	for _, c := range group {
		c.leases(func(l sojourn.Lease, _ bool) { ids = append(ids, int64(l.ID)) })
	}
	return ids
}
