package query

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	// Queues are listed in the order of their creation; the name orders the queues that one
	// statement has created.
	qQueuePage = `select name, settings, flow, seq, declared, operator, revision from sj_queue where (seq, name) > ($1, $2) and name <> '*' order by seq, name limit $3`
	qQueueSeq  = `select seq from sj_queue where name = $1`
	qQueues    = `select name, settings, flow, seq, declared, operator, revision from sj_queue order by seq, name`
)

// Queues lists queues with counts; see driver.Store.
func (s *Reader) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := s.core.View(ctx, func(t *txn.Tx) error {
		var err error
		if out, err = QueuesOf(t, names...); err != nil {
			return err
		}
		return countQueues(t, out, names...)
	})
	return out, err
}

// ListQueues lists a page of queues with counts; see sojourn.Store.
func (s *Reader) ListQueues(ctx context.Context, after string, limit int) (sojourn.Page[sojourn.QueueStatus], error) {
	var p sojourn.Page[sojourn.QueueStatus]
	if limit < 0 || limit > sojourn.MaxFind {
		return p, sojourn.Invalid("limit", "%d is out of range: 1 to %d, or 0 for 100", limit, sojourn.MaxFind)
	}
	err := s.core.View(ctx, func(t *txn.Tx) error {
		p = sojourn.Page[sojourn.QueueStatus]{}
		if err := pageOfQueues(t, access.CallerOf(ctx), after, cmp.Or(limit, 100), &p); err != nil || len(p.Items) == 0 {
			return err
		}
		var names []string
		for _, item := range p.Items {
			names = append(names, item.Name)
		}
		return countQueues(t, p.Items, names...)
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

// QueuesOf reads the named queues, or all, without counts and in the order of their creation. The
// settings for all queues (sojourn.AllQueues) are read only if they are named.
func QueuesOf(t *txn.Tx, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := t.Read(qQueues, func(r sqldb.Row) error {
		name := r.Text(0)
		if len(names) > 0 && !slices.Contains(names, name) || len(names) == 0 && name == sojourn.AllQueues {
			return nil
		}
		q, err := queueStatus(t, r)
		if err != nil {
			return err
		}
		out = append(out, q)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name != sojourn.AllQueues && !slices.ContainsFunc(out, func(q sojourn.QueueStatus) bool { return q.Name == name }) {
			return nil, sojourn.NotFound("there is no queue %.64q", name)
		}
	}
	return out, nil
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
	q.ThrottleErrors, q.ThrottleError, q.ThrottleErrorAt = flow.Trouble.Count, flow.Trouble.Text, flow.Trouble.At
	return q, nil
}
