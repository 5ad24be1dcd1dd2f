package sqlstore

import "github.com/sojourn-queue/sojourn"

// lookingFirst gives a step a look that can be sent with the beginning of the transaction: it depends on neither the clock nor anything that
// another step of the group changes. The run finds in tx.first what it has returned, and clears it.
func (s *step) lookingFirst(look func(t *tx, in []any) (found any, reads []Statement)) *step {
	s.look = look
	return s
}

// lookAhead begins the transaction with what a group needs first: the rows of its leases, locked in order, or else what its first step asks for.
func (t *tx) lookAhead(group []*request) error {
	if _, ok := t.Conn.(Sender); !ok || len(group) == 0 {
		return nil
	}
	ids, named := leasesOf(group)
	if named {
		return nil // responses: whoever has their keys is locked in the same order, once it is known
	}
	if len(ids) > 0 {
		t.leased = make(map[sojourn.ID]*live, len(ids))
		for _, id := range ids {
			t.leased[sojourn.ID(id)] = nil // not live, unless it is found
		}
		return t.send([]Statement{{Text: qLive, Args: []any{ids}, Each: t.scanInto(t.leased, noMore)}})
	}
	st := group[0].step
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

// leasesOf lists the jobs of all leases of a group. named reports whether there are responses, which address other jobs.
func leasesOf(group []*request) (ids Ints, named bool) {
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
		case []sojourn.Response:
			named = true
		}
	}
	return ids, named
}
