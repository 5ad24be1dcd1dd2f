package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// lookingFirst gives a step reads that can be sent in the first message of the transaction: they do
// not depend on the clock. The run takes their result with takeLook.
func (s *step) lookingFirst(look func(t *tx, in []any) (found any, reads []sqldb.Statement)) *step {
	s.look = look
	return s
}

// arrange orders the requests of a group. The rows of responses are known only to the database. If
// the group begins with reads that lock, responses come first and share them; elsewhere they come
// after the requests whose rows are cached. Claims come last, so that they start the jobs that the
// others have made ready.
func (s *Store) arrange(group []*request) []*request {
	claims, others := partition(group, stepClaim)
	named, rest := partition(others, stepRespond)
	if s.db.Dialect().Concurrent {
		return slices.Concat(named, rest, claims)
	}
	return slices.Concat(rest, named, claims)
}

// lookAhead begins the transaction with the reads of a group: the rows of its leases, locked in
// order (unless all are cached, or the reads of its responses lock them), and the reads of its
// first step. The first try adds the reads of all other steps. These see the state before the
// group, as if each step came first. If one step changes the rows of another, the writes fail, and
// the second try reads for each step in turn.
func (t *tx) lookAhead(group []*request) error {
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
		if group[0].step != stepRespond && len(ids) > 0 {
			reads = append(reads, sqldb.Statement{Text: qLive, Args: []any{ids}, Each: t.scanInto(t.leased, noMore)})
		}
	}
	for rest := group; len(rest) > 0 && (t.hasty || len(reads) == 0); {
		var same []*request
		st := rest[0].step
		same, rest = partition(rest, st)
		if st.look == nil {
			if !t.hasty {
				break
			}
			continue
		}
		in := make([]any, len(same))
		for i, r := range same {
			in[i] = r.in
		}
		t.starting = t.hasty && len(same) == len(group) && st == stepClaim
		found, more := st.look(t, in)
		t.starting = false
		t.looked = append(t.looked, found)
		reads = append(reads, more...)
	}
	if len(reads) == 0 {
		return nil
	}
	return t.send(reads)
}

// takeLook returns the prefetched reads of a step, once; false if there are none.
func takeLook[T any](t *tx) (found T, ok bool) {
	for i := range t.looked {
		if found, ok = t.looked[i].(T); ok {
			t.looked = slices.Delete(t.looked, i, i+1)
			return found, true
		}
	}
	return found, false
}

// leasesOf lists the jobs of all leases of a group.
func leasesOf(group []*request) (ids sqldb.Ints) {
	for _, r := range group {
		switch in := r.in.(type) {
		case finishAsk:
			for i := range in.outcomes {
				ids = append(ids, int64(in.outcomes[i].Lease.ID))
			}
		case []sojourn.Lease:
			for i := range in {
				ids = append(ids, int64(in[i].ID))
			}
		case []driver.Saved:
			for i := range in {
				ids = append(ids, int64(in[i].Lease.ID))
			}
		}
	}
	return ids
}
