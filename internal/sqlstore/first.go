package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// lookingFirst gives a step a look that can be sent with the beginning of the transaction: it does
// not depend on the clock. The run takes what it has returned with takeLook.
func (s *step) lookingFirst(look func(t *tx, in []any) (found any, reads []sqldb.Statement)) *step {
	s.look = look
	return s
}

// arrange puts the responses of a group where they cost least. They name rows that only the
// database knows: where the group begins with a look that locks, they are in it, and elsewhere they
// come later, after what needs no look because the last transactions have left it in memory. Claims
// come last, so that they start what the others have made ready.
func (s *Store) arrange(group []*request) []*request {
	claims, others := partition(group, stepClaim)
	named, rest := partition(others, stepRespond)
	if s.db.Dialect().Concurrent {
		return slices.Concat(named, rest, claims)
	}
	return slices.Concat(rest, named, claims)
}

// lookAhead begins the transaction with what a group needs: the rows of its leases, locked in
// order, unless all of them are trusted, or what its responses ask for locks these too; and what
// its first step asks for. The first try also asks for all others: what they find is then what was
// there before the group, as if each had come first. Where that is not good enough, because a step
// of the group changes what another one relies on, the writes fail and the second try looks in
// turn.
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

// takeLook returns what the look of a step has found, once; false if it has not looked.
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
