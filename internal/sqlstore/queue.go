package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/layers"
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
		settings = $8, flow = $9, declared = $10, operator = $11, revision = $12 where name = $13`
	qLayers        = `select settings, declared, operator, revision from sj_queue where name = $1`
	qForgetQueue   = `delete from sj_queue where name = $1`
	qForgetBuckets = `delete from sj_bucket where queue = $1`
	qQueueInUse    = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)`
	qQueues      = `select name, settings, flow, seq, declared, operator, revision from sj_queue order by seq, name`
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
	name   string
	change sojourn.QueueChange
}

// queueSet is the result of a setQueueAsk: the queue without counts, and whether existing jobs must
// be reindexed. A refusal is found before any write.
type queueSet struct {
	sojourn.QueueStatus
	reshape bool
	refusal
}

var stepSetQueue = eachStep("set queue", changeQueue)

func changeQueue(t *tx, ask setQueueAsk) (out queueSet, err error) {
	locked, err := t.lockQueue(ask.name)
	if err != nil {
		return out, err
	}
	was, now := layered{QueueStatus: sojourn.QueueStatus{Name: ask.name}}, layered{}
	if err := t.query(qLayers, func(r sqldb.Row) error { return was.scan(t.s, r, 0, 1) }, ask.name); err != nil {
		return out, err
	}
	if was.found && !locked { // another transaction changes the settings that were read
		return out, raced("the settings of queue " + ask.name + " have changed meanwhile")
	}
	if now, out.err = was.changed(ask.change); out.err != nil {
		return out, nil
	}
	if !was.found {
		if err := t.seeQueue(ask.name); err != nil {
			return out, err
		}
		return changeQueue(t, ask) // another transaction may have created it, with settings
	}
	if now.texts == was.texts {
		row, err := t.queueRow(ask.name)
		return queueSet{QueueStatus: was.QueueStatus, reshape: row.reshape >= 0}, err
	}
	now.Revision++
	out.QueueStatus = now.QueueStatus
	out.reshape, err = storeSettings(t, now)
	return out, err
}

// storeSettings writes the settings of a queue, and reports whether its jobs must be reindexed.
func storeSettings(t *tx, set layered) (reshape bool, err error) {
	was, err := t.queueRow(set.Name)
	if err != nil {
		return false, err
	}
	now := was
	now.QueueSettings = set.Settings
	if shapeOf(now.QueueSettings) != shapeOf(was.QueueSettings) {
		now.shape, now.reshape = was.shape+1, 0
		now.flow.Counting = rules.Counted(now.QueueSettings) && (was.flow.Counting || !rules.Counted(was.QueueSettings))
	}
	if now.maxWeight, err = t.mayHold(set.Name, now.QueueSettings); err != nil {
		return false, err
	}
	flow, err := jsonText(now.flow)
	if err != nil {
		return false, err
	}
	if _, err := t.exec(qSetQueue, now.Paused, now.mustAsk(), rules.Counted(now.QueueSettings), rules.Grouped(now.QueueSettings), now.maxWeight, now.shape, now.reshape,
		set.texts.settings, flow, set.texts.declared, set.texts.operator, set.Revision, set.Name); err != nil {
		return false, err
	}
	t.after = append(t.after, func() { t.s.breakers.put(set.Name, knownBreaker{set.Settings.Breaker, t.now}) })
	if !now.Paused { // waiting jobs may continue
		t.freed[set.Name] += sojourn.MaxBatch
	}
	return now.reshape >= 0, nil
}

// layered is a queue with its layers of settings. What is in force is derived from them when one
// changes, and stored beside them, so that claims read one column.
type layered struct {
	sojourn.QueueStatus
	found bool
	texts layerTexts
}

// layerTexts are the stored forms.
type layerTexts struct{ settings, declared, operator string }

// scan reads the settings in force, and, from the column layer on, declared, operator and revision.
func (l *layered) scan(s *Store, r sqldb.Row, settings, layer int) (err error) {
	l.texts = layerTexts{cmp.Or(r.Text(settings), "{}"), cmp.Or(r.Text(layer), "{}"), cmp.Or(r.Text(layer+1), "{}")}
	l.found, l.Revision, l.Counts = true, r.Int(layer+2), map[sojourn.State]int64{}
	if l.Settings, err = s.queueSettings(l.texts.settings); err != nil {
		return err
	}
	if l.Declared, err = s.queueSettings(l.texts.declared); err != nil {
		return err
	}
	return json.Unmarshal([]byte(l.texts.operator), &l.Overrides)
}

// changed returns the queue after a change. The error is a refusal.
func (l layered) changed(c sojourn.QueueChange) (layered, error) {
	paused, kinds := l.Settings.Paused, l.Settings.PausedKinds
	switch {
	case c.Declare != nil:
		l.Declared = *c.Declare
	case c.Update != nil:
		if r := c.Update.Revision; r != 0 && r != l.Revision {
			return l, sojourn.Conflict("the settings of queue %s have changed (revision %d, you read %d); read them again", l.Name, l.Revision, r)
		}
		reset := c.Update.Reset
		if slices.Contains(reset, allSettings) {
			reset = layers.Known[sojourn.QueuePatch]()
		}
		l.Overrides = layers.Merge(layers.Without(l.Overrides, reset), *c.Update)
	case c.Set != nil:
		l.Overrides = layers.Diff[sojourn.QueuePatch](l.Declared, *c.Set)
		paused, kinds = c.Set.Paused, c.Set.PausedKinds
	case !l.found && l.Name != sojourn.AllQueues:
		return l, sojourn.NotFound("there is no queue %.64q to pause or resume", l.Name)
	case len(c.Kinds) == 0:
		paused = *c.Paused
	default:
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !*c.Paused && slices.Contains(c.Kinds, k) })
		for _, k := range c.Kinds {
			if *c.Paused && !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	l.Settings = layers.Apply(l.Declared, l.Overrides)
	l.Settings.Paused, l.Settings.PausedKinds = paused, kinds
	if err := l.Settings.Validate(); err != nil {
		if c.Declare != nil {
			err = sojourn.Conflict("what is declared for queue %s does not fit with the settings of an operator: %v; change or reset those", l.Name, err)
		}
		return l, err
	}
	return l, l.write()
}

// write makes the stored forms.
func (l *layered) write() (err error) {
	for _, w := range []struct {
		to   *string
		from any
	}{{&l.texts.settings, l.Settings}, {&l.texts.declared, l.Declared}, {&l.texts.operator, l.Overrides}} {
		if *w.to, err = jsonText(w.from); err != nil {
			return err
		}
	}
	return nil
}

// allSettings stands for every setting in QueuePatch.Reset.
const allSettings = "*"

// ChangeQueue changes settings or pauses; see sojourn.Store.
func (s *Store) ChangeQueue(ctx context.Context, name string, c sojourn.QueueChange) (sojourn.QueueStatus, error) {
	given, err := checkChange(name, c)
	if err != nil {
		return sojourn.QueueStatus{}, err
	}
	if err := s.validThrottle(ctx, name, given.Throttle); err != nil {
		return sojourn.QueueStatus{}, err
	}
	if _, err := rules.NextOpening(at(s.clock.estimate()), given.Windows); err != nil {
		return sojourn.QueueStatus{}, err
	}
	set, err := do[queueSet](ctx, s, classFinish, stepSetQueue, 1, setQueueAsk{name, c})
	if err == nil {
		err = set.err
	}
	if err == nil && set.reshape {
		err = s.reshape(ctx, name, math.MaxInt)
	}
	return set.QueueStatus, err
}

// checkChange checks a change by itself, and returns the settings that it brings.
func checkChange(name string, c sojourn.QueueChange) (given sojourn.QueueSettings, err error) {
	switch {
	case c.Declare != nil:
		given = *c.Declare
		if given.Paused || len(given.PausedKinds) > 0 {
			return given, sojourn.Invalid("paused", "a pause is not a setting that a program declares: use Pause")
		}
	case c.Update != nil:
		known := append(layers.Known[sojourn.QueuePatch](), allSettings)
		for _, field := range c.Update.Reset {
			if !slices.Contains(known, field) {
				return given, sojourn.Invalid("reset", "%.64q is not a setting; they are %s", field, strings.Join(known, ", "))
			}
			if slices.Contains(c.Update.Fields(), field) {
				return given, sojourn.Invalid("reset", "%s is both set and reset: do one of them", field)
			}
		}
		given = layers.Apply(given, *c.Update)
	case c.Set != nil:
		given = *c.Set
	case c.Paused == nil:
		return given, sojourn.Invalid("change", "is empty")
	default:
		given.PausedKinds = c.Kinds
	}
	if name != sojourn.AllQueues {
		err = sojourn.ValidName("queue", name)
	} else if c.Declare != nil || c.Update != nil || len(layers.Diff[sojourn.QueuePatch](sojourn.QueueSettings{}, given).Fields()) > 0 {
		err = sojourn.Invalid("queue", "only pauses can be set for all queues (%s)", sojourn.AllQueues)
	}
	if err == nil && c.Update == nil { // a patch is valid or not together with the other settings
		err = given.Validate()
	}
	return given, err
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
