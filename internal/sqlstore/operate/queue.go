package operate

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/layers"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
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
var forgetQueueOp = txn.EachOp("forget queue", groupcommit.Finish, func(t *txn.Tx, name string) (txn.Refusal, error) {
	if err := allWritten(t); err != nil {
		return txn.Refusal{}, err
	}
	used, err := t.ReadInt(qQueueInUse, name)
	if err != nil {
		return txn.Refusal{}, err
	}
	if used > 0 {
		return txn.Refusal{Err: sojourn.Conflict("queue %s has jobs; purge them or wait for their retention", name)}, nil
	}
	if _, err := t.Write(qForgetBuckets, name); err != nil {
		return txn.Refusal{}, err
	}
	n, err := t.Write(qForgetQueue, name)
	if err == nil && n == 0 {
		return txn.Refusal{Err: sojourn.NotFound("there is no queue %s", name)}, nil
	}
	return txn.Refusal{}, err
})

// ForgetQueue removes an empty queue; see driver.Store.
func (s *Operator) ForgetQueue(ctx context.Context, name string) error {
	if err := sojourn.ValidName("queue", name); err != nil {
		return err
	}
	a, err := txn.Do(ctx, s.Core, forgetQueueOp, 1, name)
	if err == nil {
		err = a.Err
	}
	return err
}

// ChangeQueue changes settings or pauses; see sojourn.Store.
func (s *Operator) ChangeQueue(ctx context.Context, name string, c sojourn.QueueChange) (sojourn.QueueStatus, error) {
	given, err := checkChange(name, c)
	if err != nil {
		return sojourn.QueueStatus{}, err
	}
	if err := s.validThrottle(ctx, name, given.Throttle); err != nil {
		return sojourn.QueueStatus{}, err
	}
	if _, err := rules.NextOpening(jobrow.Time(s.Core.Clock.Estimate()), given.Windows); err != nil {
		return sojourn.QueueStatus{}, err
	}
	set, err := txn.Do(ctx, s.Core, setQueueOp, 1, setQueueAsk{name, c})
	if err == nil {
		err = set.Err
	}
	if err == nil {
		s.Gates.Breakers.Put(name, gate.CachedBreaker{Setting: set.Settings.Breaker, At: s.Core.Clock.Estimate()})
	}
	if err == nil && set.reshape {
		err = s.reindex(ctx, name, math.MaxInt)
	}
	return set.QueueStatus, err
}

// allSettings stands for every setting in QueuePatch.Reset.
const allSettings = "*"

var setQueueOp = txn.EachOp("set queue", groupcommit.Finish, changeQueue)

func changeQueue(t *txn.Tx, ask setQueueAsk) (out queueSet, err error) {
	locked, err := t.LockQueue(ask.name)
	if err != nil {
		return out, err
	}
	was, now := query.LayeredSettings{QueueStatus: sojourn.QueueStatus{Name: ask.name}}, query.LayeredSettings{}
	if err := t.Read(qLayers, func(r sqldb.Row) error { return was.Scan(t.Core, r, 0, 1) }, ask.name); err != nil {
		return out, err
	}
	if was.Found && !locked { // another transaction changes the settings that were read
		return out, txn.Raced("the settings of queue " + ask.name + " have changed meanwhile")
	}
	if now, out.Err = changed(was, ask.change); out.Err != nil {
		return out, nil
	}
	if !was.Found {
		if err := t.NoteQueue(ask.name); err != nil {
			return out, err
		}
		return changeQueue(t, ask) // another transaction may have created it, with settings
	}
	if now.Texts == was.Texts {
		row, err := t.ReadQueue(ask.name)
		return queueSet{QueueStatus: was.QueueStatus, reshape: row.Reindexed >= 0}, err
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
func changed(l query.LayeredSettings, c sojourn.QueueChange) (query.LayeredSettings, error) {
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
	case !l.Found && l.Name != sojourn.AllQueues:
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
	return l, write(&l)
}

// write makes the stored forms.
func write(l *query.LayeredSettings) (err error) {
	for _, w := range []struct {
		to   *string
		from any
	}{{&l.Texts.Settings, l.Settings}, {&l.Texts.Declared, l.Declared}, {&l.Texts.Operator, l.Overrides}} {
		if *w.to, err = jobrow.JSONText(w.from); err != nil {
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
	txn.Refusal
}

// storeSettings writes the settings of a queue, and reports whether its jobs must be reindexed.
func storeSettings(t *txn.Tx, set query.LayeredSettings) (reshape bool, err error) {
	was, err := t.ReadQueue(set.Name)
	if err != nil {
		return false, err
	}
	now := was
	now.QueueSettings = set.Settings
	if jobrow.LayoutOf(now.QueueSettings) != jobrow.LayoutOf(was.QueueSettings) {
		now.Layout, now.Reindexed = was.Layout+1, 0
		now.Flow.Counting = rules.Counted(now.QueueSettings) && (was.Flow.Counting || !rules.Counted(was.QueueSettings))
	}
	if now.MaxWeight, err = gate.MaxWeight(t, set.Name, now.QueueSettings); err != nil {
		return false, err
	}
	flow, err := jobrow.JSONText(now.Flow)
	if err != nil {
		return false, err
	}
	if _, err := t.Write(qSetQueue, now.Paused, gate.HasGates(&now), rules.Counted(now.QueueSettings), rules.Grouped(now.QueueSettings), now.MaxWeight, now.Layout, now.Reindexed,
		set.Texts.Settings, flow, set.Texts.Declared, set.Texts.Operator, set.Revision, set.Name); err != nil {
		return false, err
	}
	if !now.Paused { // waiting jobs may continue
		t.Events.Freed[set.Name] += sojourn.MaxBatch
	}
	return now.Reindexed >= 0, nil
}
