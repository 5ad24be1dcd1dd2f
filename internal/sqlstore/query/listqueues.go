package query

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	// Queues are listed in the order of their creation; the name orders the queues of one
	// statement.
	qQueuePage = `select name, settings, flow, seq, declared, operator, revision from sj_queue where (seq, name) > ($1, $2) and name <> '*' order by seq, name limit $3`
	qQueueSeq  = `select seq from sj_queue where name = $1`
)

// ListQueues lists a page of queues with counts; see sojourn.Store. Like Queues it counts
// rows, so it costs time in proportion to the jobs stored.
func (s *Reader) ListQueues(ctx context.Context, after string, limit int) (sojourn.Page[sojourn.QueueStatus], error) {
	var p sojourn.Page[sojourn.QueueStatus]
	if limit < 0 || limit > sojourn.MaxFind {
		return p, sojourn.Invalid("limit", "%d is out of range: 1 to %d, or 0 for 100", limit, sojourn.MaxFind)
	}
	err := s.Core.View(ctx, func(t *txn.Tx) error {
		p = sojourn.Page[sojourn.QueueStatus]{}
		if err := pageOfQueues(t, access.CallerOf(ctx), after, cmp.Or(limit, 100), &p); err != nil || len(p.Items) == 0 {
			return err
		}
		place := make(map[string]int, len(p.Items))
		for i, q := range p.Items {
			place[q.Name] = i
		}
		return countQueues(t, place, p.Items)
	})
	return p, err
}

// pageOfQueues reads the next queues that the caller may see, without counts. It reads on until the
// page is full, because a caller may see few of many queues.
func pageOfQueues(t *txn.Tx, c *access.Caller, after string, limit int, p *sojourn.Page[sojourn.QueueStatus]) error {
	seq, name := int64(-1), after
	if after != "" {
		found := false
		if err := t.Read(qQueueSeq, func(r sqldb.Row) error { seq, found = r.Int(0), true; return nil }, after); err != nil {
			return err
		}
		if !found || !c.Sees(after) {
			return sojourn.NotFound("there is no queue %.64q to begin after", after)
		}
	}
	for {
		read := 0
		err := t.Read(qQueuePage, func(r sqldb.Row) error {
			read, name, seq = read+1, r.Text(0), r.Int(3)
			switch {
			case !c.Sees(name) || p.Next != "":
			case len(p.Items) == limit:
				p.Next = p.Items[limit-1].Name
			default:
				q, err := queueStatus(t, r)
				p.Items = append(p.Items, q)
				return err
			}
			return nil
		}, seq, name, limit+1)
		if err != nil || p.Next != "" || read <= limit {
			return err
		}
	}
}

// queueStatus reads name, settings and flow, and the layers from the fifth column on.
func queueStatus(t *txn.Tx, r sqldb.Row) (sojourn.QueueStatus, error) {
	l := LayeredSettings{}
	if err := l.Scan(t.Core, r, 1, 4); err != nil {
		return l.QueueStatus, err
	}
	q := l.QueueStatus
	q.Name = r.Text(0)
	var flow rules.FlowState
	if text := r.Text(2); text != "" {
		if err := json.Unmarshal([]byte(text), &flow); err != nil {
			return q, err
		}
	}
	q.HeldUntil, q.HoldReason = jobrow.Time(flow.Pace.HoldUntil), flow.Pace.HoldReason
	q.Breaker, q.BreakerUntil = flow.Pace.Mode, jobrow.Time(flow.Pace.Until)
	q.Trouble = flow.Trouble
	return q, nil
}

// countQueues fills the counts of the queues in out, whose indices are in place.
func countQueues(t *txn.Tx, place map[string]int, out []sojourn.QueueStatus) error {
	status := func(r sqldb.Row) *sojourn.QueueStatus {
		if i, ok := place[r.Text(0)]; ok {
			return &out[i]
		}
		return &sojourn.QueueStatus{Counts: map[sojourn.State]int64{}} // this queue is not wanted
	}
	if err := t.Read(qLiveCounts, func(r sqldb.Row) error {
		q := status(r)
		q.Counts[sojourn.State(r.Int(1))] += r.Int(3)
		q.InFlight += r.Int(4)
		if r.Int(2) != 0 {
			q.Resumed += r.Int(3)
		}
		if since := jobrow.Time(r.Int(5)); r.Int(1) == int64(sojourn.Ready) && (q.OldestReady.IsZero() || since.Before(q.OldestReady)) {
			q.OldestReady = since
		}
		return nil
	}); err != nil {
		return err
	}
	if err := t.Read(qStalled, func(r sqldb.Row) error { status(r).Stalled = r.Int(1); return nil }, t.Now); err != nil {
		return err
	}
	if err := t.Read(qFinalCounts, func(r sqldb.Row) error {
		status(r).Counts[sojourn.State(r.Int(1))] = r.Int(2)
		return nil
	}); err != nil {
		return err
	}
	return unhandled(t, func(queue string) *sojourn.QueueStatus {
		if i, ok := place[queue]; ok {
			return &out[i]
		}
		return nil
	})
}

const QQueues = `select name, settings, flow, seq, declared, operator, revision from sj_queue order by seq, name`
