package sqlstore

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

const (
	qQueueRows   = `select q.name, q.settings, q.flow, q.shape, q.reshape, q.max_weight from sj_queue q /*, each*/ where q.name = each($1 text)`
	qDoors       = `select q.name, q.paused, q.gated, q.shape from sj_queue q /*, each*/ where q.name = each($1 text)`
	qLockedQueue = `select q.name from sj_queue q where q.name = $1 /*lock q*/`
	qFreeQueue   = `select name from sj_queue where name = $1 /*lock*/`
	qSetQueue    = `update sj_queue set paused = $1, gated = $2, counted = $3, grouped = $4, max_weight = $5, shape = $6, reshape = $7,
		settings = $8, flow = $9 where name = $10`
	qForgetQueue   = `delete from sj_queue where name = $1`
	qForgetBuckets = `delete from sj_bucket where queue = $1`
	qQueueInUse    = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)`
	qQueues      = `select name, settings, flow from sj_queue order by seq, name`
	qLiveCounts  = `select queue, state, resumed, count(*), sum(held), min(updated_us) from sj_live group by queue, state, resumed`
	qStalled     = `select queue, count(*) from sj_live where state = 4 and wake_at_us < 9223372036854775807 and lease_until_us <= $1 group by queue`
	qFinalCounts = `select queue, state, count(*) from sj_final group by queue, state`
)

// queueRow is a queue as it is stored. One that does not exist has the defaults.
type queueRow struct {
	sojourn.QueueSettings
	found     bool
	shape     int64 // changes with the settings that determine the order of jobs
	reshape   int64 // progress of the reindexing: the next id; -1 = done
	maxWeight int64
	flow      rules.FlowState
	text      string // the settings, as stored
	flowText  string
}

func (t *tx) queueRow(name string) (queueRow, error) {
	found, err := t.queueRows(sqldb.Texts{name})
	return *found[name], err
}

// queueRows has a row for each name.
func (t *tx) queueRows(names sqldb.Texts) (map[string]*queueRow, error) {
	rows := missing(names)
	return rows, t.eachBy(t.peek, qQueueRows, func(r sqldb.Row) error { return t.scanQueueRow(r, rows) }, names)
}

// missing returns empty rows for queues that were not read yet.
func missing(names sqldb.Texts) map[string]*queueRow {
	rows := make(map[string]*queueRow, len(names))
	for _, name := range names {
		rows[name] = &queueRow{reshape: -1}
	}
	return rows
}

func (t *tx) scanQueueRow(r sqldb.Row, rows map[string]*queueRow) (err error) {
	q := rows[r.Text(0)]
	if q == nil {
		return nil // the name that was asked for cannot be stored
	}
	q.found, q.text, q.flowText, q.shape, q.reshape, q.maxWeight = true, r.Text(1), r.Text(2), r.Int(3), r.Int(4), r.Int(5)
	if q.flowText != "" {
		if err := json.Unmarshal([]byte(q.flowText), &q.flow); err != nil {
			return err
		}
	}
	q.QueueSettings, err = t.s.queueSettings(r.Text(1))
	return err
}

// queueSettings decodes stored settings. The result is shared and must not be changed.
func (s *Store) queueSettings(text string) (q sojourn.QueueSettings, err error) {
	if text == "" {
		return q, nil
	}
	if known, ok := s.settings.get(text); ok {
		return known, nil
	}
	if err = json.Unmarshal([]byte(text), &q); err == nil {
		s.settings.put(text, q)
	}
	return q, err
}

// door holds the columns of a queue that every claim needs.
type door struct {
	paused, gated bool
	shape         int64
}

// door combines a queue's own settings with those of all queues.
func (c *claims) door(queue string) door {
	d, all := c.doors[queue], c.doors[sojourn.AllQueues]
	d.paused, d.gated = d.paused || all.paused, d.gated || all.gated
	return d
}

// owns reports whether this transaction excludes other claims from the queue until its end.
func (t *tx) owns(queue string) bool { return !t.concurrent() || slices.Contains(t.locked, queue) }

// pausedFor reports whether jobs of a kind are not handed out.
func (t *tx) pausedFor(queue, kind string) (bool, error) {
	q, err := t.queueRow(queue)
	if err != nil {
		return false, err
	}
	all, err := t.queueRow(sojourn.AllQueues)
	f := rules.Flow{Settings: q.QueueSettings, All: all.QueueSettings}
	return !f.Ask(&throttle.Candidate{Kind: kind, Purpose: sojourn.PurposeDecide}).Open, err
}

// lockQueue keeps other transactions from changing the queue, and from claiming if its gates count.
// It waits for them in the order of the names; out of that order it does not wait, and reports
// false if another transaction has the lock.
func (t *tx) lockQueue(queue string) (bool, error) {
	if t.owns(queue) {
		return true, nil
	}
	q := qLockedQueue
	if len(t.locked) > 0 && queue < slices.Max(t.locked) {
		q = qFreeQueue
	}
	got := false
	err := t.query(q, func(sqldb.Row) error { got = true; return nil }, queue)
	if got {
		t.locked = append(t.locked, queue)
	}
	return got, err
}

// seeQueue creates a queue that does not exist yet. It runs after the job's insert, for whose
// transaction ForgetQueue waits: so either the job is seen there, or the queue is missed here.
func (t *tx) seeQueue(name string) error {
	_, err := t.exec(qSeeQueue, name)
	return err
}

type setQueueAsk struct {
	name     string
	settings sojourn.QueueSettings
}

// stepSetQueue reports whether the existing jobs must be reindexed.
var stepSetQueue = eachStep("set queue", func(t *tx, ask setQueueAsk) (reshape bool, err error) {
	if err := t.seeQueue(ask.name); err != nil {
		return false, err
	}
	if _, err := t.lockQueue(ask.name); err != nil {
		return false, err
	}
	was, err := t.queueRow(ask.name)
	if err != nil {
		return false, err
	}
	now := was
	now.QueueSettings = ask.settings
	if shapeOf(now.QueueSettings) != shapeOf(was.QueueSettings) {
		now.shape, now.reshape = was.shape+1, 0
		now.flow.Counting = rules.Counted(now.QueueSettings) && (was.flow.Counting || !rules.Counted(was.QueueSettings))
	}
	if now.maxWeight, err = mayHold(t, ask.name, now.QueueSettings); err != nil {
		return false, err
	}
	text, err := jsonText(now.QueueSettings)
	if err != nil {
		return false, err
	}
	flow, err := jsonText(now.flow)
	if err != nil {
		return false, err
	}
	if _, err := t.exec(qSetQueue, now.Paused, now.mustAsk(), rules.Counted(now.QueueSettings), rules.Grouped(now.QueueSettings), now.maxWeight, now.shape, now.reshape,
		text, flow, ask.name); err != nil {
		return false, err
	}
	t.after = append(t.after, func() { t.s.gates.breakers.put(ask.name, knownBreaker{ask.settings.Breaker, t.now}) })
	if !now.Paused { // waiting jobs may continue
		t.freed[ask.name] += sojourn.MaxBatch
	}
	return now.reshape >= 0, nil
})

// SetQueue stores settings; see driver.Store.
func (s *Store) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) error {
	if name != sojourn.AllQueues {
		if err := sojourn.ValidName("queue", name); err != nil {
			return err
		}
	} else if text, err := jsonText(sojourn.QueueSettings{Paused: q.Paused, PausedKinds: q.PausedKinds}); err != nil {
		return err
	} else if given, err := jsonText(q); err != nil || given != text {
		return sojourn.Invalid("queue", "only pauses can be set for all queues (%s)", sojourn.AllQueues)
	}
	if err := q.Validate(); err != nil {
		return err
	}
	if err := s.validThrottle(ctx, name, q.Throttle); err != nil {
		return err
	}
	if _, err := rules.NextOpening(at(s.clock.estimate()), q.Windows); err != nil {
		return err
	}
	reshape, err := do[bool](ctx, s, classFinish, stepSetQueue, 1, setQueueAsk{name, q})
	if err == nil && reshape {
		err = s.reshape(ctx, name, math.MaxInt)
	}
	return err
}

// stepForgetQueue answers with the refusal, which was found before any write.
var stepForgetQueue = eachStep("forget queue", func(t *tx, name string) (refusal, error) {
	if err := t.allWritten(); err != nil {
		return refusal{}, err
	}
	used, err := t.num(qQueueInUse, name)
	if err != nil {
		return refusal{}, err
	}
	if used > 0 {
		return refusal{sojourn.Conflict("queue %s has jobs; purge them or wait for their retention", name)}, nil
	}
	if _, err := t.exec(qForgetBuckets, name); err != nil {
		return refusal{}, err
	}
	n, err := t.exec(qForgetQueue, name)
	if err == nil && n == 0 {
		return refusal{sojourn.NotFound("there is no queue %s", name)}, nil
	}
	return refusal{}, err
})

// refusal is an answer that may be an error.
type refusal struct{ err error }

// ForgetQueue removes an empty queue; see driver.Store.
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

// Queues lists queues with counts; see driver.Store. It counts rows, so it costs time in
// proportion to the jobs stored.
func (s *Store) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := s.view(ctx, func(t *tx) error {
		out = nil
		place, err := t.listQueues(names, &out)
		if err != nil {
			return err
		}
		return t.countQueues(place, out)
	})
	return out, err
}

// listQueues appends the named queues, without counts, and returns the index of each.
func (t *tx) listQueues(names []string, out *[]sojourn.QueueStatus) (map[string]int, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	place := map[string]int{}
	err := t.query(qQueues, func(r sqldb.Row) error {
		if len(wanted) > 0 && !wanted[r.Text(0)] || len(wanted) == 0 && r.Text(0) == sojourn.AllQueues {
			return nil
		}
		q, err := t.queueStatus(r)
		if err != nil {
			return err
		}
		place[q.Name] = len(*out)
		*out = append(*out, q)
		return nil
	})
	for _, name := range names {
		if _, ok := place[name]; !ok && name != sojourn.AllQueues && err == nil {
			err = sojourn.NotFound("there is no queue %.64q", name)
		}
	}
	return place, err
}

const (
	qReadyKinds = `select queue, kind, count(*) from sj_live where state = 3 group by queue, kind`
	qAskers     = `select asks from sj_worker where seen_us > $1`
)

// asks is the stored form of the queues and kinds that a worker claims.
type asks struct {
	Name   string   `json:"name,omitempty"`
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
}

// unhandled reports ready jobs that no worker claims.
func (t *tx) unhandled(status func(queue string) *sojourn.QueueStatus) error {
	handled := map[place]bool{}
	err := t.query(qAskers, func(r sqldb.Row) error {
		var a asks
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		for _, q := range a.Queues {
			for _, k := range a.Kinds {
				handled[place{q, k}] = true
			}
		}
		return err
	}, t.now-sojourn.WorkerLife.Microseconds())
	if err != nil {
		return err
	}
	return t.query(qReadyKinds, func(r sqldb.Row) error {
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

// validThrottle compiles a new text. A process without rules cannot compile, and may only keep the
// stored text.
func (s *Store) validThrottle(ctx context.Context, queue, text string) error {
	if text == "" || text == GoThrottler {
		return nil
	}
	if s.gates.throttlers.compile != nil {
		return s.gates.throttlers.rule(text).err
	}
	return s.view(ctx, func(t *tx) error {
		q, err := t.queueRow(queue)
		if err == nil && q.Throttle != text {
			err = sojourn.Invalid("throttle", "this process cannot check a rule: open its store with the option Rules(rule.Throttlers()), or use sojourn queue set")
		}
		return err
	})
}

// announce stores, for each queue with a throttler in this process, the setting that makes every
// other process need one too.
func (s *Store) announce(ctx context.Context) error {
	for queue, t := range s.gates.throttlers.own {
		if t == nil {
			return sojourn.Invalid("throttle", "the throttler of queue %.64q is nil", queue)
		}
		if err := sojourn.ValidName("throttle", queue); err != nil {
			return err
		}
		var q queueRow
		if err := s.view(ctx, func(t *tx) (err error) { q, err = t.queueRow(queue); return err }); err != nil {
			return err
		}
		if q.Throttle != "" {
			continue
		}
		q.Throttle = GoThrottler
		if err := s.SetQueue(ctx, queue, q.QueueSettings); err != nil {
			return err
		}
	}
	return nil
}

type holdAsk struct {
	queue, reason string
	d             time.Duration
}

var stepHold = eachStep("hold", func(t *tx, ask holdAsk) (refusal, error) {
	q, err := t.queueRow(ask.queue)
	if err != nil || !q.found {
		return refusal{sojourn.NotFound("there is no queue %s", ask.queue)}, err
	}
	err = changePace(t, ask.queue, func(q *queueRow) {
		q.flow.Pace = q.flow.Pace.Unhold()
		if ask.d > 0 {
			q.flow.Pace = q.flow.Pace.Hold(t.now+ask.d.Microseconds(), ask.reason)
		}
	})
	t.freed[ask.queue] += sojourn.MaxBatch
	return refusal{}, err
})

// HoldQueue holds a queue; see sojourn.Store.
func (s *Store) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	if err := sojourn.ValidName("queue", queue); err != nil {
		return err
	}
	if d < 0 || d > sojourn.MaxHold {
		return sojourn.Invalid("for", "%v is out of range: up to %v; 0 ends a hold", d, sojourn.MaxHold)
	}
	a, err := do[refusal](ctx, s, classFinish, stepHold, 1, holdAsk{queue, sojourn.Cut(strings.TrimSpace(reason), sojourn.MaxReason), d})
	if err == nil {
		err = a.err
	}
	return err
}
