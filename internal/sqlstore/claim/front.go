package claim

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qNextKind = `select coalesce(min(kind), '') from sj_live where queue = $1 and state = 3 and kind > $2`
	qNext     = `select id, r1, r2, weight from sj_live where queue = $1 and kind = $2 and state = 3 order by r1, r2, id limit $3`
)

// ReadyKinds lists the kinds of a queue's ready jobs. One probe of the claim index finds each.
func ReadyKinds(t *txn.Tx, queue string) (kinds []string, err error) {
	for kind := ""; ; {
		after := kind
		if err := t.Read(qNextKind, func(r sqldb.Row) error {
			kind = r.Text(0)
			return nil
		}, queue, after); err != nil || kind == "" {
			return kinds, err
		}
		kinds = append(kinds, kind)
	}
}

// Front lists the first jobs of a queue in the order of claims, regardless of its gates, for
// sojourn.Store's Find. Jobs that the next claim makes ready count as ready.
func Front(t *txn.Tx, f sojourn.Filter) ([]sojourn.ID, error) {
	kinds, err := ReadyKinds(t, f.Queue)
	if err != nil {
		return nil, err
	}
	if f.Kind != "" {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind != f.Kind })
	}
	q, err := t.ReadQueue(f.Queue)
	if err != nil {
		return nil, err
	}
	var line []jobrow.Candidate
	if rules.Grouped(q.QueueSettings) {
		if line, err = gate.NextTurns(t, f.Queue, kinds, f.Limit); err != nil {
			return nil, err
		}
	} else {
		for _, kind := range kinds {
			if err := t.Read(qNext, func(r sqldb.Row) error {
				line = append(line, jobrow.Candidate{ID: r.Int(0), R1: r.Int(1), R2: r.Int(2), Weight: r.Int(3)})
				return nil
			}, f.Queue, kind, f.Limit); err != nil {
				return nil, err
			}
		}
	}
	due, err := dueNext(t, f, q.QueueSettings)
	if err != nil {
		return nil, err
	}
	if line = append(line, due...); !rules.Grouped(q.QueueSettings) { // else jobs that are not ready yet have no turn, and come last
		slices.SortFunc(line, jobrow.CompareCandidates)
	}
	ids := make([]sojourn.ID, min(len(line), f.Limit))
	for i := range ids {
		ids[i] = sojourn.ID(line[i].ID)
	}
	return ids, nil
}

var qOverdueRows = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.wake_at_us <= $1 and l.wake_at_us < 9223372036854775807 order by l.wake_at_us limit $2`

// dueNext lists the jobs of a queue that the next claim makes ready before it takes any: due jobs,
// and jobs whose lease has ended.
func dueNext(t *txn.Tx, f sojourn.Filter, q sojourn.QueueSettings) (due []jobrow.Candidate, err error) {
	var rows []*jobrow.Row
	if err := t.Read(qOverdueRows, func(r sqldb.Row) error {
		l, err := t.Core.Caches.Decoder.Scan(r)
		if err == nil && l.Queue == f.Queue && (f.Kind == "" || l.Kind == f.Kind) {
			rows = append(rows, l)
		}
		return err
	}, t.Now, sweepPerClaim); err != nil {
		return nil, err
	}
	for _, l := range rows {
		e, ended, err := lifecycle.OverdueEvent(t, l, &driver.Swept{})
		if err != nil {
			return nil, err
		}
		if ended == nil {
			continue
		}
		tr, err := rules.Decide(l.Row, e)
		if err != nil {
			return nil, err
		}
		if tr.To.State == sojourn.Ready && (l.State == sojourn.Scheduled || l.State == sojourn.Running) {
			r1, r2 := rules.Rank(q, l.Priority, jobrow.Time(l.RunAt), tr.To.Resumed)
			due = append(due, jobrow.Candidate{ID: int64(l.ID), R1: r1, R2: r2, Weight: int64(tr.To.Weight)})
		}
	}
	return due, nil
}
