package sqlstore

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
)

const (
	qKept    = `select seq, key, failed, reason, error from sj_response where job = $1 and job > 0 and outcome = 2 order by seq`
	qTaken   = `update sj_response set outcome = 1, in_hand = 1 where seq in (ints($1))`
	qUsedUp  = `update sj_response set outcome = 1 where seq in (ints($1))`
	qTooLate = `update sj_response set outcome = 4 where seq in (ints($1))`
)

// match gives the job what it keeps, as long as sojourn.Match finds something to do. It ends every transaction that stores a response for
// a live job, or after which a job awaits or a retry waits, so that it never matters which of two commits comes first. It returns the
// row and the responses whose outcome it has changed.
func (t *tx) match(l *live) (*live, map[int64]sojourn.ResponseOutcome, error) {
	var became map[int64]sojourn.ResponseOutcome // most have none
	if l.Kept > 0 {
		became = map[int64]sojourn.ResponseOutcome{}
	}
	for l.Kept > 0 && l.State.Live() {
		kept, err := t.keptOf(l.ID)
		if err != nil {
			return nil, nil, err
		}
		m := sojourn.Match(l.Row, l.key, kept)
		if !m.Found() {
			break
		}
		for _, part := range []struct {
			q       string
			seqs    []int64
			outcome sojourn.ResponseOutcome
		}{{qTaken, m.Take, sojourn.Applied}, {qUsedUp, m.UsedUp, sojourn.Applied}, {qTooLate, m.Late, sojourn.Late}} {
			if len(part.seqs) == 0 {
				continue
			}
			if _, err := t.exec(part.q, Ints(part.seqs)); err != nil {
				return nil, nil, err
			}
			for _, seq := range part.seqs {
				became[seq] = part.outcome
			}
		}
		if len(m.UsedUp) > 0 {
			if err := t.feelLost(l, m.Transition); err != nil {
				return nil, nil, err
			}
		}
		if l, err = t.apply(l, m.Transition, change{by: bySeq(m.Take, m.UsedUp)}); err != nil {
			return nil, nil, err
		}
		if l.State.Final() {
			for _, k := range kept { // what the final state left over
				if became[k.Seq] == "" {
					became[k.Seq] = sojourn.Late
				}
			}
		}
	}
	return l, became, nil
}

// bySeq names the responses that have moved a job, for its history.
func bySeq(seqs ...[]int64) string {
	all := slices.Concat(seqs...)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint("response ", all[0])
	}
	return fmt.Sprintf("response %d and %d more", all[len(all)-1], len(all)-1)
}

func (t *tx) keptOf(id sojourn.ID) (kept []sojourn.KeptResponse, err error) {
	err = t.query(qKept, func(r Row) error {
		kept = append(kept, sojourn.KeptResponse{Seq: r.Int(0), Key: r.Text(1), Failed: r.Int(2) != 0, Reason: r.Text(3), Error: string(r.Bytes(4))})
		return nil
	}, int64(id))
	return kept, err
}
