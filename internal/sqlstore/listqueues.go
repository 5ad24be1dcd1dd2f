package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	// Queues are listed in the order of their creation; the name orders the queues of one
	// statement.
	qQueuePage = `select name, settings, flow, seq from sj_queue where (seq, name) > ($1, $2) and name <> '*' order by seq, name limit $3`
	qQueueSeq  = `select seq from sj_queue where name = $1`
)

// ListQueues lists a page of queues with counts; see sojourn.Store. Like Queues it counts
// rows, so it costs time in proportion to the jobs stored.
func (s *reader) ListQueues(ctx context.Context, f sojourn.QueueFilter) (sojourn.QueuePage, error) {
	if err := f.Validate(); err != nil {
		return sojourn.QueuePage{}, err
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	var p sojourn.QueuePage
	err := s.core.view(ctx, func(t *tx) error {
		p = sojourn.QueuePage{}
		if err := t.pageOfQueues(access.CallerOf(ctx), f, &p); err != nil || len(p.Queues) == 0 {
			return err
		}
		place := make(map[string]int, len(p.Queues))
		for i, q := range p.Queues {
			place[q.Name] = i
		}
		return t.countQueues(place, p.Queues)
	})
	return p, err
}

// pageOfQueues reads the next queues that the caller may see, without counts. It reads on until the
// page is full, because a caller may see few of many queues.
func (t *tx) pageOfQueues(c *access.Caller, f sojourn.QueueFilter, p *sojourn.QueuePage) error {
	seq, name := int64(-1), f.After
	if f.After != "" {
		found := false
		if err := t.query(qQueueSeq, func(r sqldb.Row) error { seq, found = r.Int(0), true; return nil }, f.After); err != nil {
			return err
		}
		if !found || !c.Sees(f.After) {
			return sojourn.NotFound("there is no queue %.64q to begin after", f.After)
		}
	}
	for {
		read := 0
		err := t.query(qQueuePage, func(r sqldb.Row) error {
			read, name, seq = read+1, r.Text(0), r.Int(3)
			switch {
			case !c.Sees(name) || p.Next != "":
			case len(p.Queues) == f.Limit:
				p.Next = p.Queues[f.Limit-1].Name
			default:
				q, err := t.queueStatus(r)
				p.Queues = append(p.Queues, q)
				return err
			}
			return nil
		}, seq, name, f.Limit+1)
		if err != nil || p.Next != "" || read <= f.Limit {
			return err
		}
	}
}

// queueStatus reads name, settings and flow.
func (t *tx) queueStatus(r sqldb.Row) (q sojourn.QueueStatus, err error) {
	q = sojourn.QueueStatus{Name: r.Text(0), Counts: map[sojourn.State]int64{}}
	if q.Settings, err = t.s.queueSettings(r.Text(1)); err != nil {
		return q, err
	}
	var flow rules.FlowState
	if text := r.Text(2); text != "" {
		if err := json.Unmarshal([]byte(text), &flow); err != nil {
			return q, err
		}
	}
	q.Pace, q.Trouble = sojourn.Pace(flow.Pace), flow.Trouble
	return q, nil
}

// countQueues fills the counts of the queues in out, whose indices are in place.
func (t *tx) countQueues(place map[string]int, out []sojourn.QueueStatus) error {
	status := func(r sqldb.Row) *sojourn.QueueStatus {
		if i, ok := place[r.Text(0)]; ok {
			return &out[i]
		}
		return &sojourn.QueueStatus{Counts: map[sojourn.State]int64{}} // this queue is not wanted
	}
	if err := t.query(qLiveCounts, func(r sqldb.Row) error {
		q := status(r)
		q.Counts[sojourn.State(r.Int(1))] += r.Int(3)
		q.InFlight += r.Int(4)
		if r.Int(2) != 0 {
			q.Resumed += r.Int(3)
		}
		if since := at(r.Int(5)); r.Int(1) == int64(sojourn.Ready) && (q.OldestReady.IsZero() || since.Before(q.OldestReady)) {
			q.OldestReady = since
		}
		return nil
	}); err != nil {
		return err
	}
	if err := t.query(qStalled, func(r sqldb.Row) error { status(r).Stalled = r.Int(1); return nil }, t.now); err != nil {
		return err
	}
	if err := t.query(qFinalCounts, func(r sqldb.Row) error {
		status(r).Counts[sojourn.State(r.Int(1))] = r.Int(2)
		return nil
	}); err != nil {
		return err
	}
	return t.unhandled(func(queue string) *sojourn.QueueStatus {
		if i, ok := place[queue]; ok {
			return &out[i]
		}
		return nil
	})
}

const qQueues = `select name, settings, flow from sj_queue order by seq, name`
