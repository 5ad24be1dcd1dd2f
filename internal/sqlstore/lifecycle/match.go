package lifecycle

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Match moves a job on by the responses that are attached to it, and returns its row. It runs at
// the end of every transaction that starts a wait or a retry's delay; MatchAttached does the same
// when a response is stored for a live job. So it never matters which of the two commits first.
func Match(t *txn.Tx, l *jobrow.Row) (*jobrow.Row, error) {
	if l.Kept == 0 || !l.State.Live() {
		return l, nil
	}
	attached, err := Attached(t, l.ID)
	if err != nil {
		return nil, err
	}
	l, _, err = MatchAttached(t, l, attached)
	return l, err
}

// MatchAttached applies rules.Match to a live job until nothing matches. It returns the row, which
// is the same if nothing matched, and the responses that are still attached.
func MatchAttached(t *txn.Tx, l *jobrow.Row, attached []rules.KeptResponse) (*jobrow.Row, []rules.KeptResponse, error) {
	for len(attached) > 0 && l.State.Live() {
		m := rules.Match(l.Row, l.Key, attached)
		if !m.Found() {
			break
		}
		t.Responses.Mark(txn.MarkTaken, m.Take)
		t.Responses.Mark(txn.MarkUsedUp, m.UsedUp)
		t.Responses.Mark(txn.MarkLate, m.Late)
		t.Responses.Mark(txn.MarkStale, m.Stale)
		if len(m.UsedUp) > 0 {
			t.NoteLost(l.Queue, l.BeganAt, m.Transition.Reason)
		}
		by := responsesText(m.Take, m.UsedUp)
		gone := slices.Concat(m.Take, m.UsedUp, m.Late, m.Stale)
		attached = slices.DeleteFunc(attached, func(k rules.KeptResponse) bool { return slices.Contains(gone, k.Seq) })
		_, before := t.Writes.SaveOf[l.ID]
		var err error
		if l, err = Apply(t, l, m.Transition, Change{By: by}); err != nil {
			return nil, nil, err
		}
		if m.Transition.Rule == "M1" && !before {
			t.Writes.Saves[len(t.Writes.Saves)-1].Only = jobrow.ByAnswer
		}
	}
	return l, attached, nil
}

// responsesText names the responses that have moved a job, for its history.
func responsesText(seqs ...[]int64) string {
	all := slices.Concat(seqs...)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint("response ", all[0])
	}
	return fmt.Sprintf("response %d and %d more", all[len(all)-1], len(all)-1)
}

// QAttached reads the attached responses of jobs, those of each in order of arrival. The second
// condition selects the index of responses with jobs.
const QAttached = `select job, seq, key, failed, reason, error, wait from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`

// Attached returns the responses that are attached to a job, in order of arrival. Jobs without any
// have 0 in Row.Kept, and need no read. What a batch has read for all its jobs is used once.
func Attached(t *txn.Tx, id sojourn.ID) (attached []rules.KeptResponse, err error) {
	if known, ok := t.Loaded.Waits.Attached[id]; ok {
		delete(t.Loaded.Waits.Attached, id)
		// A response that the job takes now must not be released with those that it had taken
		// before: the write set marks responses first.
		if t.Writes.Releases(id) {
			err = t.Flush()
		}
		return known, err
	}
	found := map[sojourn.ID][]rules.KeptResponse{}
	err = t.Read(QAttached, ScanAttached(found), sqldb.Ints{int64(id)})
	return found[id], err
}

// ScanAttached returns a function that adds each row of QAttached to found.
func ScanAttached(found map[sojourn.ID][]rules.KeptResponse) func(sqldb.Row) error {
	return func(r sqldb.Row) error {
		k := rules.KeptResponse{Seq: r.Int(1), Key: r.Text(2), Failed: r.Int(3) != 0, Reason: r.Text(4), Error: string(r.Bytes(5))}
		if wait := r.Int(6); wait >= 0 {
			k.ByToken, k.Wait = true, int32(wait)
		}
		id := sojourn.ID(r.Int(0))
		found[id] = append(found[id], k)
		return nil
	}
}
