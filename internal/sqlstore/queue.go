package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
)

const (
	qQueueSettings = `select paused, settings from sj_queue where name = $1`
	qSeeQueue      = `insert into sj_queue (name, seq, paused, settings)
		select $1, coalesce(max(seq), 0) + 1, 0, '' from sj_queue where 1 = 1 on conflict (name) do nothing`
	qSetQueue    = `update sj_queue set paused = $1, settings = $2 where name = $3`
	qForgetQueue = `delete from sj_queue where name = $1`
	qQueueInUse  = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)`
	qQueues      = `select name, paused, settings from sj_queue order by seq, name`
	qLiveCounts  = `select queue, state, resumed, count(*), sum(held) from sj_live group by queue, state, resumed`
	qStalled     = `select queue, count(*) from sj_live where state = 4 and wake_at_us < 9223372036854775807 and lease_until_us <= $1 group by queue`
	qFinalCounts = `select queue, state, count(*) from sj_final group by queue, state`
)

// readSettings decodes stored settings; nobody changes what it returns.
func (s *Store) readSettings(paused int64, text string) (q sojourn.QueueSettings, err error) {
	if known, ok := s.settings.Load(text); ok {
		q = known.(sojourn.QueueSettings)
	} else if text != "" {
		if err = json.Unmarshal([]byte(text), &q); err == nil {
			s.settings.Store(text, q)
		}
	}
	q.Paused = paused != 0
	return q, err
}

// queueSettings reads a queue's settings; a queue that does not exist has the defaults.
func (t *tx) queueSettings(name string) (q sojourn.QueueSettings, found bool, err error) {
	err = t.query(qQueueSettings, func(r Row) (err error) {
		found = true
		q, err = t.s.readSettings(r.Int(0), r.Text(1))
		return err
	}, name)
	return q, found, err
}

// seeQueue makes a queue that does not exist yet. It comes after the job's row, for whose transaction ForgetQueue waits: so the job is seen
// there, or the queue is missed here.
func (t *tx) seeQueue(name string) error {
	_, err := t.exec(qSeeQueue, name)
	return err
}

type setQueueAsk struct {
	name     string
	settings sojourn.QueueSettings
}

var stepSetQueue = eachStep("set queue", func(t *tx, ask setQueueAsk) (bool, error) {
	if err := t.seeQueue(ask.name); err != nil {
		return false, err
	}
	text, err := jsonText(ask.settings)
	if err != nil {
		return false, err
	}
	if _, err := t.exec(qSetQueue, ask.settings.Paused, text, ask.name); err != nil {
		return false, err
	}
	if !ask.settings.Paused { // what waited may go on
		err = t.query(`select distinct kind from sj_live where queue = $1 and state in (3, 6)`, func(r Row) error {
			t.ready[place{ask.name, r.Text(0)}] += sojourn.MaxBatch
			return nil
		}, ask.name)
	}
	return true, err
})

// SetQueue stores settings; see sojourn.Store.
func (s *Store) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) error {
	if err := sojourn.ValidName("queue", name); err != nil {
		return err
	}
	if err := q.Validate(); err != nil {
		return err
	}
	if _, err := sojourn.NextOpening(at(s.clock.estimate()), q.Windows); err != nil {
		return err
	}
	_, err := do[bool](ctx, s, classFinish, stepSetQueue, 1, setQueueAsk{name, q})
	return err
}

// stepForgetQueue answers with the refusal, which was found before anything was written.
var stepForgetQueue = eachStep("forget queue", func(t *tx, name string) (refusal, error) {
	if t.concurrent() {
		if _, err := t.exec(`lock table sj_live in share mode`); err != nil {
			return refusal{}, err
		}
	}
	used, err := t.num(qQueueInUse, name)
	if err != nil {
		return refusal{}, err
	}
	if used > 0 {
		return refusal{sojourn.Conflict("queue %s has jobs; purge them or wait for their retention", name)}, nil
	}
	n, err := t.exec(qForgetQueue, name)
	if err == nil && n == 0 {
		return refusal{sojourn.NotFound("there is no queue %s", name)}, nil
	}
	return refusal{}, err
})

// refusal is an answer that may be an error.
type refusal struct{ err error }

// ForgetQueue removes an empty queue; see sojourn.Store.
func (s *Store) ForgetQueue(ctx context.Context, name string) error {
	if err := sojourn.ValidName("queue", name); err != nil {
		return err
	}
	a, err := do[refusal](ctx, s, classFinish, stepForgetQueue, 1, name)
	if err == nil {
		err = a.err
	}
	return err
}

// Queues lists queues with counts; see sojourn.Store. It counts rows, so it costs time in proportion to the jobs stored.
func (s *Store) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := s.view(ctx, func(t *tx) error {
		out = nil
		place, err := t.listQueues(names, &out)
		if err != nil {
			return err
		}
		status := func(r Row) *sojourn.QueueStatus {
			if i, ok := place[r.Text(0)]; ok {
				return &out[i]
			}
			return &sojourn.QueueStatus{Counts: map[sojourn.State]int64{}} // not asked for
		}
		if err := t.query(qLiveCounts, func(r Row) error {
			q := status(r)
			q.Counts[sojourn.State(r.Int(1))] += r.Int(3)
			q.InFlight += r.Int(4)
			if r.Int(2) != 0 {
				q.Resumed += r.Int(3)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := t.query(qStalled, func(r Row) error { status(r).Stalled = r.Int(1); return nil }, t.now); err != nil {
			return err
		}
		if err := t.query(qFinalCounts, func(r Row) error {
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
	})
	return out, err
}

// listQueues appends the queues that are asked for, without counts, and returns where each stands.
func (t *tx) listQueues(names []string, out *[]sojourn.QueueStatus) (map[string]int, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	place := map[string]int{}
	err := t.query(qQueues, func(r Row) error {
		if len(wanted) > 0 && !wanted[r.Text(0)] {
			return nil
		}
		settings, err := t.s.readSettings(r.Int(1), r.Text(2))
		if err != nil {
			return err
		}
		place[r.Text(0)] = len(*out)
		*out = append(*out, sojourn.QueueStatus{Name: r.Text(0), Settings: settings, Counts: map[sojourn.State]int64{}})
		return nil
	})
	return place, err
}

const (
	qReadyKinds = `select queue, kind, count(*) from sj_live where state = 3 group by queue, kind`
	qAskers     = `select asks from sj_worker where seen_us > $1`
)

// asks is what a worker asks for, as it is stored with it.
type asks struct {
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
}

// unhandled reports ready jobs for which no worker asks (spec:A10).
func (t *tx) unhandled(status func(queue string) *sojourn.QueueStatus) error {
	handled := map[place]bool{}
	err := t.query(qAskers, func(r Row) error {
		var a asks
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		for _, q := range a.Queues {
			for _, k := range a.Kinds {
				handled[place{q, k}] = true
			}
		}
		return err
	}, t.now-workerLife.Microseconds())
	if err != nil {
		return err
	}
	return t.query(qReadyKinds, func(r Row) error {
		q := status(r.Text(0))
		if q == nil || handled[place{r.Text(0), r.Text(1)}] {
			return nil
		}
		if q.Unhandled == nil {
			q.Unhandled = map[string]int64{}
		}
		q.Unhandled[r.Text(1)] = r.Int(2)
		return nil
	})
}
