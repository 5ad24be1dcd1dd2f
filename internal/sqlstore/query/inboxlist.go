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
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/nearkey"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
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
	err := s.Core.View(ctx, func(t *txn.Tx) error {
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
	lying := !slices.ContainsFunc(codes, func(code int64) bool { return code <= txn.OutEarly })
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
	case len(codes) == 1 && codes[0] > txn.OutEarly:
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

const (
	qHistory = `select ` + jobview.HistoryColumns + ` from sj_history where job = $1 and seq > $2
		union all select ` + jobview.LastColumns + ` from sj_final where id = $1 and outcome <> '' and history > $2 order by seq limit $3`
	qLog = `select at_us, attempt, level, text, dropped from sj_log where job = $1 order by seq`
)

// History returns the history of a job; see driver.Store.
func (s *Reader) History(ctx context.Context, id sojourn.ID, after int32, limit int) (out []sojourn.Attempt, err error) {
	if after < 0 {
		return nil, sojourn.Invalid("after", "%d is negative", after)
	}
	if err := sojourn.ValidLimit(limit); err != nil {
		return nil, err
	}
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		out = nil
		last := after
		return ofJob(t, id, qHistory, func(r sqldb.Row) error {
			a := jobview.ScanHistory(r)
			a.Dropped, last = a.Seq-last-1, a.Seq
			out = append(out, a)
			return nil
		}, int64(after), cmp.Or(limit, 100))
	})
	return out, err
}

// Log returns a job's own log; see driver.Store.
func (s *Reader) Log(ctx context.Context, id sojourn.ID) (out []sojourn.LogLine, err error) {
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		out = nil
		return ofJob(t, id, qLog, func(r sqldb.Row) error {
			out = append(out, sojourn.LogLine{At: jobrow.Time(r.Int(0)), Attempt: int32(r.Int(1)), Level: r.Text(2), Text: r.Text(3), Dropped: r.Int(4)})
			return nil
		})
	})
	return out, err
}

// ofJob runs a query about a job that must exist.
func ofJob(t *txn.Tx, id sojourn.ID, q string, each func(sqldb.Row) error, more ...any) error {
	n, err := t.ReadInt(`select count(*) from sj_job where id = $1`, int64(id))
	if err == nil && n == 0 {
		err = sojourn.NotFound("no job has the id %d", id)
	}
	if err != nil {
		return err
	}
	return t.Read(q, each, append([]any{int64(id)}, more...)...)
}

const (
	qCountEarly = `select count(*) from (select 1 from sj_response where outcome = 2 and job = 0 limit $1) a`
	qCountLying = `select count(*) from (select 1 from sj_response where outcome > 2 and outcome = $1 limit $2) a`
	qRecent     = `select source, outcome, count(*), sum(duplicates), min(received_us) from
		(select source, outcome, duplicates, received_us from sj_response order by seq desc limit $1) newest group by source, outcome order by source, outcome`
)

// CountInbox counts the responses in the inbox; see sojourn.Store.
func (s *Reader) CountInbox(ctx context.Context) (out sojourn.InboxCounts, err error) {
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		out = sojourn.InboxCounts{Lying: map[sojourn.ResponseOutcome]int64{}}
		var err error
		if out.Lying[sojourn.Early], err = t.ReadInt(qCountEarly, sojourn.MaxInboxCount); err != nil {
			return err
		}
		for _, code := range []int64{txn.OutLate, txn.OutStale, txn.OutUnmatched, txn.OutParked, txn.OutDiscarded, txn.OutConflict} {
			if out.Lying[txn.OutcomeCodes[code]], err = t.ReadInt(qCountLying, code, sojourn.MaxInboxCount); err != nil {
				return err
			}
		}
		return t.Read(qRecent, func(r sqldb.Row) error {
			out.Recent = append(out.Recent, sojourn.SourceCount{Source: r.Text(0), Outcome: txn.OutcomeCodes[r.Int(1)], Responses: r.Int(2), Duplicates: r.Int(3)})
			if since := jobrow.Time(r.Int(4)); out.Since.IsZero() || since.Before(out.Since) {
				out.Since = since
			}
			return nil
		}, sojourn.MaxInboxCount)
	})
	return out, err
}

const (
	qNearJobs      = `select key, job from sj_key where kind = $1 and key in (texts($2)) and live = 1 order by key limit $3`
	qNearEarly     = `select key, seq from sj_response where kind = $1 and key in (texts($2)) and outcome = 2 and job = 0 order by seq desc limit $3`
	qNearUnmatched = `select key, seq from sj_response where kind = $1 and key in (texts($2)) and outcome > 2 and outcome = 6 order by seq desc limit $3`
)

// NearMisses looks up the keys that differ little from key; see sojourn.Store.
func (s *Reader) NearMisses(ctx context.Context, kind, key string) (out []sojourn.NearMiss, err error) {
	if err := sojourn.ValidName("kind", kind); err != nil {
		return nil, err
	}
	if err := sojourn.ValidKey("key", key); err != nil {
		return nil, err
	}
	near := sqldb.Texts(nearkey.Similar(key))
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		out = nil
		if err := t.Read(qNearJobs, func(r sqldb.Row) error {
			out = append(out, sojourn.NearMiss{Key: r.Text(0), Job: sojourn.ID(r.Int(1))})
			return nil
		}, kind, near, sojourn.MaxNearMisses); err != nil {
			return err
		}
		for _, q := range []string{qNearEarly, qNearUnmatched} {
			if err := t.Read(q, func(r sqldb.Row) error {
				out = append(out, sojourn.NearMiss{Key: r.Text(0), Seq: r.Int(1)})
				return nil
			}, kind, near, sojourn.MaxNearMisses); err != nil {
				return err
			}
		}
		return nil
	})
	return out[:min(len(out), sojourn.MaxNearMisses)], err
}
