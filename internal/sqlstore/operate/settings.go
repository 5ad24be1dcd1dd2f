package operate

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/layers"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/schedules"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qLayers   = `select settings, declared, operator, revision from sj_queue where name = $1`
	qSetQueue = `update sj_queue set paused = $1, gated = $2, counted = $3, grouped = $4, max_weight = $5, shape = $6, reshape = $7,
		settings = $8, flow = $9, declared = $10, operator = $11, revision = $12 where name = $13`
)

// allSettings stands for every setting in QueuePatch.Reset.
const allSettings = "*"

// queueChange is one change of a queue: the first of these that is there.
type queueChange struct {
	Declare *sojourn.QueueSettings // replaces the declared layer
	Update  *sojourn.QueuePatch
	Set     *sojourn.QueueSettings // the settings in force, with the pauses
	Paused  bool                   // pauses or resumes Kinds; without Kinds, the queue
	Kinds   []string
}

// settingsRequest changes the settings of one queue.
type settingsRequest struct {
	name   string
	change queueChange
}

// settingsResult is the queue after a change, without counts, and whether its jobs must be
// reindexed. A refusal is found before any write.
type settingsResult struct {
	sojourn.QueueStatus
	reindex bool
	txn.Refusal
}

// DeclareQueue replaces the declared settings of a queue; see sojourn.Store.
func (s *Operator) DeclareQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, name, queueChange{Declare: &q})
}

// UpdateQueue changes single settings for an operator; see sojourn.Store.
func (s *Operator) UpdateQueue(ctx context.Context, name string, p sojourn.QueuePatch) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, name, queueChange{Update: &p})
}

// PauseQueue pauses or resumes a queue, or kinds in it; see sojourn.Store.
func (s *Operator) PauseQueue(ctx context.Context, name string, paused bool, kinds ...string) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, name, queueChange{Paused: paused, Kinds: kinds})
}

// SetQueue makes the settings in force; see sojourn.Store.
func (s *Operator) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, name, queueChange{Set: &q})
}

func (s *Operator) changeQueue(ctx context.Context, name string, c queueChange) (sojourn.QueueStatus, error) {
	given, err := checkChange(name, c)
	if err != nil {
		return sojourn.QueueStatus{}, err
	}
	if err := s.validThrottle(ctx, name, given.Throttle); err != nil {
		return sojourn.QueueStatus{}, err
	}
	if _, err := rules.NextOpening(jobrow.Time(s.core.Clock.Estimate()), given.Windows); err != nil {
		return sojourn.QueueStatus{}, err
	}
	set, err := txn.Do(ctx, s.core, settingsOp, 1, settingsRequest{name, c})
	if err == nil {
		err = set.Err
	}
	if err == nil {
		s.gates.Breakers.Put(name, gate.CachedBreaker{Setting: set.Settings.Breaker, At: s.core.Clock.Estimate()})
	}
	if err == nil && set.reindex {
		err = s.upkeep.Reindex(ctx, name, math.MaxInt)
	}
	return set.QueueStatus, err
}

// checkChange checks a change by itself, and returns the settings that it brings.
func checkChange(name string, c queueChange) (given sojourn.QueueSettings, err error) {
	switch {
	case c.Declare != nil:
		given = *c.Declare
		if given.Paused || len(given.PausedKinds) > 0 {
			return given, sojourn.Invalid("paused", "a pause is not a setting that a program declares: use Pause")
		}
	case c.Update != nil:
		known := append(layers.Known[sojourn.QueuePatch](), allSettings)
		for _, setting := range c.Update.Reset {
			if !slices.Contains(known, setting) {
				return given, sojourn.Invalid("reset", "%.64q is not a setting; they are %s", setting, strings.Join(known, ", "))
			}
			if slices.Contains(c.Update.Fields(), setting) {
				return given, sojourn.Invalid("reset", "%s is both set and reset: do one of them", setting)
			}
		}
		given = layers.Apply(given, *c.Update)
	case c.Set != nil:
		given = *c.Set
	default:
		given.PausedKinds = c.Kinds
	}
	if name != sojourn.AllQueues {
		err = sojourn.ValidName("queue", name)
	} else if c.Declare != nil || c.Update != nil || len(layers.Diff[sojourn.QueuePatch](sojourn.QueueSettings{}, given).Fields()) > 0 {
		err = sojourn.Invalid("queue", "only pauses can be set for all queues (%s)", sojourn.AllQueues)
	}
	if err == nil && c.Update == nil { // a patch is valid or not together with the other settings
		err = rules.ValidSettings(given)
	}
	return given, err
}

var settingsOp = txn.EachOp("set queue", groupcommit.Finish, changeQueue)

// changeQueue applies a change under the lock of the queue's row. A change that changes nothing
// writes nothing, and keeps the revision.
func changeQueue(t *txn.Tx, r settingsRequest) (out settingsResult, err error) {
	locked, err := t.LockQueue(r.name)
	if err != nil {
		return out, err
	}
	was, now := query.LayeredSettings{QueueStatus: sojourn.QueueStatus{Name: r.name}}, query.LayeredSettings{}
	if err := t.Read(qLayers, func(row sqldb.Row) error { return was.Scan(t.Core, row, 0, 1) }, r.name); err != nil {
		return out, err
	}
	if was.Found && !locked { // another transaction changes the settings that were read
		return out, txn.Raced("the settings of queue " + r.name + " have changed meanwhile")
	}
	if now, out.Err = apply(was, r.change); out.Err != nil {
		return out, nil
	}
	if !was.Found {
		if err := t.NoteQueue(r.name); err != nil {
			return out, err
		}
		return changeQueue(t, r) // another transaction may have created it, with settings
	}
	if now.Texts == was.Texts {
		row, err := t.ReadQueue(r.name)
		return settingsResult{QueueStatus: was.QueueStatus, reindex: row.Reindexed >= 0}, err
	}
	now.Revision++
	out.QueueStatus = now.QueueStatus
	out.reindex, err = storeSettings(t, now)
	return out, err
}

// apply returns the queue after a change. The error is a refusal.
func apply(l query.LayeredSettings, c queueChange) (query.LayeredSettings, error) {
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
		paused = c.Paused
	default:
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !c.Paused && slices.Contains(c.Kinds, k) })
		for _, k := range c.Kinds {
			if c.Paused && !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	l.Settings = layers.Apply(l.Declared, l.Overrides)
	l.Settings.Paused, l.Settings.PausedKinds = paused, kinds
	if err := rules.ValidSettings(l.Settings); err != nil {
		if c.Declare != nil {
			err = sojourn.Conflict("what is declared for queue %s does not fit with the settings of an operator: %v; change or reset those", l.Name, err)
		}
		return l, err
	}
	return l, encode(&l)
}

// encode makes the stored forms.
func encode(l *query.LayeredSettings) (err error) {
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

// storeSettings writes the settings of a queue, and reports whether its jobs must be reindexed.
func storeSettings(t *txn.Tx, set query.LayeredSettings) (reindex bool, err error) {
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
	if err := field.Begin(t, set.Name, was.Index, now.Index); err != nil {
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
		if err := schedules.EndHold(t, set.Name); err != nil {
			return false, err
		}
	}
	return now.Reindexed >= 0, nil
}
