package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qCountEarly = `select count(*) from (select 1 from sj_response where outcome = 2 and job = 0 limit $1) a`
	qCountLying = `select count(*) from (select 1 from sj_response where outcome > 2 and outcome = $1 limit $2) a`
	qRecent     = `select source, outcome, count(*), sum(duplicates), min(received_us) from
		(select source, outcome, duplicates, received_us from sj_response order by seq desc limit $1) newest group by source, outcome order by source, outcome`
)

// Inbox lists responses; see driver.Store.
func (s *Reader) Inbox(ctx context.Context, f sojourn.InboxFilter) ([]sojourn.Response, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	var codes sqldb.Ints
	for _, o := range f.Outcomes {
		code := slices.Index(txn.OutcomeCodes, o)
		if code < 1 || o == sojourn.Duplicate {
			return nil, sojourn.Invalid("outcomes", "%.64q is not one that is stored: use applied, early, late, stale, unmatched, parked, discarded or conflict (duplicates are counted on the first)", o)
		}
		codes = append(codes, int64(code))
	}
	var out []sojourn.Response
	err := s.core.View(ctx, func(t *txn.Tx) error {
		if out = nil; f.Outcomes != nil && len(f.Outcomes) == 0 {
			return nil
		}
		for _, part := range inboxParts(f, codes) {
			q := inboxWhere(f, part)
			q.args = append(q.args, f.Limit)
			text := `select ` + txn.ResponseColumns + ` from sj_response` + q.clause() + fmt.Sprintf(" order by seq desc limit $%d", len(q.args))
			if err := t.Read(text, func(r sqldb.Row) error { out = append(out, txn.ScanResponse(r)); return nil }, q.args...); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b sojourn.Response) int { return cmp.Compare(b.Seq, a.Seq) })
	return out[:min(len(out), f.Limit)], err
}

// inboxParts splits outcomes that have an index into one query each: an index (outcome, seq) gives
// the newest responses of one outcome without reading the others.
func inboxParts(f sojourn.InboxFilter, codes sqldb.Ints) []sqldb.Ints {
	lying := !slices.ContainsFunc(codes, func(code int64) bool { return code <= txn.OutcomeEarly })
	if len(codes) == 0 || !lying || f.Job > 0 || f.Kind != "" && f.Key != "" {
		return []sqldb.Ints{codes}
	}
	var parts []sqldb.Ints
	for _, code := range slices.Compact(slices.Sorted(slices.Values(codes))) {
		parts = append(parts, sqldb.Ints{code})
	}
	return parts
}

// seqsOfKey selects the responses of a kind and a key: early ones without a job, those in the
// inbox, and those of the jobs that have or had the key.
const seqsOfKey = `seq in (select seq from sj_response where kind = $1 and key = $2 and outcome = 2 and job = 0
	union all select seq from sj_response where kind = $1 and key = $2 and outcome > 2
	union all select r.seq from sj_response r where r.job > 0 and r.kind = $1 and r.key = $2 and r.job in
	(select job from sj_key where kind = $1 and key = $2 union select job from sj_key_past where kind = $1 and key = $2))`

func inboxWhere(f sojourn.InboxFilter, codes sqldb.Ints) (q conditions) {
	if f.Kind != "" && f.Key != "" {
		q.args, q.conds = []any{f.Kind, f.Key}, []string{seqsOfKey}
	} else if f.Kind != "" {
		q.add("kind = %s", f.Kind)
	} else if f.Key != "" {
		q.add("key = %s", f.Key)
	}
	switch {
	case len(codes) == 1 && codes[0] > txn.OutcomeEarly:
		q.add("outcome > 2 and outcome = %s", codes[0])
	case len(codes) > 0:
		q.add("outcome in (ints(%s))", codes)
	}
	if f.Source != "" {
		q.add("source = %s", f.Source)
	}
	if f.Job > 0 {
		q.add("job > 0 and job = %s", int64(f.Job))
	}
	if before, _ := strconv.ParseInt(f.After, 10, 64); before > 0 { // Validate has refused other cursors
		q.add("seq < %s", before)
	}
	return q
}

// CountInbox counts the responses in the inbox; see sojourn.Store.
func (s *Reader) CountInbox(ctx context.Context) (out sojourn.InboxCounts, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = sojourn.InboxCounts{Lying: map[sojourn.ResponseOutcome]int64{}, BySource: map[string]map[sojourn.ResponseOutcome]int64{}}
		var err error
		if out.Lying[sojourn.Early], err = t.ReadInt(qCountEarly, sojourn.MaxInboxCount); err != nil {
			return err
		}
		for _, code := range []int64{txn.OutcomeLate, txn.OutcomeStale, txn.OutcomeUnmatched, txn.OutcomeParked, txn.OutcomeDiscarded, txn.OutcomeConflict} {
			if out.Lying[txn.OutcomeCodes[code]], err = t.ReadInt(qCountLying, code, sojourn.MaxInboxCount); err != nil {
				return err
			}
		}
		return t.Read(qRecent, func(r sqldb.Row) error {
			of := out.BySource[r.Text(0)]
			if of == nil {
				of = map[sojourn.ResponseOutcome]int64{}
				out.BySource[r.Text(0)] = of
			}
			of[txn.OutcomeCodes[r.Int(1)]] += r.Int(2)
			if repeats := r.Int(3); repeats > 0 {
				of[sojourn.Duplicate] += repeats
			}
			if since := jobrow.Time(r.Int(4)); out.Since.IsZero() || since.Before(out.Since) {
				out.Since = since
			}
			return nil
		}, sojourn.MaxInboxCount)
	})
	return out, err
}
