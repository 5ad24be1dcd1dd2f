package sqlstore

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/layers"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qSetQueue = `update sj_queue set paused = $1, gated = $2, counted = $3, grouped = $4, max_weight = $5, shape = $6, reshape = $7,
		settings = $8, flow = $9, declared = $10, operator = $11, revision = $12 where name = $13`
	qForgetQueue   = `delete from sj_queue where name = $1`
	qForgetBuckets = `delete from sj_bucket where queue = $1`
	qQueueInUse    = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)`
)

type setQueueAsk struct {
	name   string
	change sojourn.QueueChange
}

// forgetQueueOp answers with the refusal, which was found before any write.
var forgetQueueOp = eachOp("forget queue", groupcommit.Finish, func(t *tx, name string) (refusal, error) {
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

// ForgetQueue removes an empty queue; see driver.Store.
func (s *operator) ForgetQueue(ctx context.Context, name string) error {
	if err := sojourn.ValidName("queue", name); err != nil {
		return err
	}
	a, err := do(ctx, s.core, forgetQueueOp, 1, name)
	if err == nil {
		err = a.err
	}
	return err
}

// ChangeQueue changes settings or pauses; see sojourn.Store.
func (s *operator) ChangeQueue(ctx context.Context, name string, c sojourn.QueueChange) (sojourn.QueueStatus, error) {
	given, err := checkChange(name, c)
	if err != nil {
		return sojourn.QueueStatus{}, err
	}
	if err := s.validThrottle(ctx, name, given.Throttle); err != nil {
		return sojourn.QueueStatus{}, err
	}
	if _, err := rules.NextOpening(at(s.core.clock.estimate()), given.Windows); err != nil {
		return sojourn.QueueStatus{}, err
	}
	set, err := do(ctx, s.core, setQueueOp, 1, setQueueAsk{name, c})
	if err == nil {
		err = set.err
	}
	if err == nil {
		s.gates.breakers.put(name, knownBreaker{set.Settings.Breaker, s.core.clock.estimate()})
	}
	if err == nil && set.reshape {
		err = s.reshape(ctx, name, math.MaxInt)
	}
	return set.QueueStatus, err
}

// allSettings stands for every setting in QueuePatch.Reset.
const allSettings = "*"

var setQueueOp = eachOp("set queue", groupcommit.Finish, changeQueue)

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

const qLayers = `select settings, declared, operator, revision from sj_queue where name = $1`

// queueSet is the result of a setQueueAsk: the queue without counts, and whether existing jobs must
// be reindexed. A refusal is found before any write.
type queueSet struct {
	sojourn.QueueStatus
	reshape bool
	refusal
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
	if now.maxWeight, err = mayHold(t, set.Name, now.QueueSettings); err != nil {
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
	if !now.Paused { // waiting jobs may continue
		t.freed[set.Name] += sojourn.MaxBatch
	}
	return now.reshape >= 0, nil
}
