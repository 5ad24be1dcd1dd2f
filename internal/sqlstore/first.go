package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// lookingFirst gives a step a look that can be sent with the beginning of the transaction: it depends on neither the clock nor anything that
// another step of the group changes. The run finds in tx.first what it has returned, and clears it.
func (s *step) lookingFirst(look func(t *tx, in []any) (found any, reads []Statement)) *step {
	s.look = look
	return s
}

// arrange puts the responses of a group where they cost least. They name rows that only the database knows: where the group begins with a look that
// locks, they are in it, and elsewhere they come later, after what needs no look because the last transactions have left it in memory. Claims come last, so
// that they start what the others have made ready.
func (s *Store) arrange(group []*request) []*request {
	claims, others := partition(group, stepClaim)
	named, rest := partition(others, stepRespond)
	if s.db.Dialect().Concurrent {
		return slices.Concat(named, rest, claims)
	}
	return slices.Concat(rest, named, claims)
}

// lookAhead begins the transaction with what a group needs first: what its responses ask for, which locks the rows of its leases too; or else these rows,
// locked in order; or else what its first step asks for.
func (t *tx) lookAhead(group []*request) error {
	if _, ok := t.Conn.(Sender); !ok || len(group) == 0 {
		return nil
	}
	ids := leasesOf(group)
	t.leased = make(map[sojourn.ID]*live, len(ids))
	for _, id := range ids {
		t.leased[sojourn.ID(id)] = nil // not live, unless it is found
	}
	st := group[0].step
	if _, ok := group[0].in.([]sojourn.Response); !ok && len(ids) > 0 {
		return t.send([]Statement{{Text: qLive, Args: []any{ids}, Each: t.scanInto(t.leased, noMore)}})
	}
	if st.look == nil {
		return nil
	}
	same, _ := partition(group, st)
	in := make([]any, len(same))
	for i, r := range same {
		in[i] = r.in
	}
	var reads []Statement
	t.first, reads = st.look(t, in)
	return t.send(reads)
}

// leasesOf lists the jobs of all leases of a group.
func leasesOf(group []*request) (ids Ints) {
	for _, r := range group {
		switch in := r.in.(type) {
		case []sojourn.Outcome:
			for i := range in {
				ids = append(ids, int64(in[i].Lease.ID))
			}
		case []sojourn.Lease:
			for i := range in {
				ids = append(ids, int64(in[i].ID))
			}
		case []sojourn.Saved:
			for i := range in {
				ids = append(ids, int64(in[i].Lease.ID))
			}
		}
	}
	return ids
}
