package schedule

import (
	"context"
	"iter"

	"github.com/sojourn-queue/sojourn"
)

// Mode says how SetSchedule stores a schedule.
type Mode string

// The modes of SetSchedule.
const (
	ModeSet     Mode = "set"     // in the place of one with the same name
	ModeDeclare Mode = "declare" // the same, unless the same declaration was stored before
	ModeTest    Mode = "test"    // it only answers
)

// Action is a change of a stored schedule.
type Action string

// The actions of ChangeSchedule.
const (
	ActionPause  Action = "pause"
	ActionResume Action = "resume"
	ActionRun    Action = "run"
	ActionDelete Action = "delete"
)

// Store is an optional ability of a sojourn.Store: it keeps schedules. All methods are safe for
// concurrent use. On behalf of an access token they see and change only schedules into its queues.
type Store interface {
	// SetSchedule stores a schedule, by mode, and returns it with the next ticks. An unchanged one
	// writes nothing. A change of its times begins with the first tick after now, and never makes a
	// job of a tick in the past; other changes keep the next tick. A pause stays.
	SetSchedule(ctx context.Context, s Schedule, mode Mode) (Schedule, error)
	// Schedules lists those whose names begin with prefix, or the named ones, in the order of their
	// names. after: the last name of the page before. limit: 1 to MaxFind, 0 = 100. ErrNotFound if
	// a named one does not exist.
	Schedules(ctx context.Context, prefix, after string, limit int, names ...string) ([]Schedule, error)
	// ChangeSchedule carries out an action, and returns the schedule after it. ErrNotFound: there
	// is no such schedule.
	ChangeSchedule(ctx context.Context, name string, a Action) (Schedule, error)
}

// Schedules are the calls about schedules of a client. Safe for concurrent use.
type Schedules struct{ store Store }

// Of returns the calls about schedules of a client. If its store keeps none, each call returns an
// error with CodeInvalid. The stores of this module keep them.
func Of(c *sojourn.Client) Schedules {
	return Schedules{StoreOf(c.Store())}
}

// StoreOf is a store's ability to keep schedules. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if keeps, ok := s.(Store); ok {
		return keeps
	}
	return none{}
}

// Set stores a schedule, in the place of one with the same name, and returns it with its next ticks
// and a sentence. An unchanged one keeps its next tick; a changed one makes no job of a past tick.
// It may be repeated. A pause stays.
func (s Schedules) Set(ctx context.Context, d Schedule) (Schedule, error) {
	return s.store.SetSchedule(ctx, d, ModeSet)
}

// Declare stores a schedule for a program, at its start. It is Set, except that the same
// declaration changes nothing: what an operator has set since stays until the program declares
// something else.
func (s Schedules) Declare(ctx context.Context, d Schedule) (Schedule, error) {
	return s.store.SetSchedule(ctx, d, ModeDeclare)
}

// Test checks a schedule and returns it with the next ticks and a sentence. It stores nothing.
func (s Schedules) Test(ctx context.Context, d Schedule) (Schedule, error) {
	return s.store.SetSchedule(ctx, d, ModeTest)
}

// Get returns one schedule. ErrNotFound if there is none.
func (s Schedules) Get(ctx context.Context, name string) (Schedule, error) {
	found, err := s.store.Schedules(ctx, "", "", 0, name)
	if err != nil {
		return Schedule{}, err
	}
	if len(found) == 0 {
		return Schedule{}, sojourn.NotFound("there is no schedule %.64q", name)
	}
	return found[0], nil
}

// All walks through the schedules whose names begin with prefix, in the order of their names. It
// ends with the first error.
func (s Schedules) All(ctx context.Context, prefix string) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		for after := ""; ; {
			page, err := s.store.Schedules(ctx, prefix, after, 0)
			if err != nil {
				yield(Schedule{}, err)
				return
			}
			for _, d := range page {
				if after = d.Name; !yield(d, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// Pause stops the ticks of a schedule until Resume. Jobs that it has made go on.
func (s Schedules) Pause(ctx context.Context, name string) error {
	_, err := s.store.ChangeSchedule(ctx, name, ActionPause)
	return err
}

// Resume ends a pause. CatchUp decides about the ticks that came meanwhile.
func (s Schedules) Resume(ctx context.Context, name string) error {
	_, err := s.store.ChangeSchedule(ctx, name, ActionResume)
	return err
}

// RunNow makes one job at once, also during a pause, and whatever Overlap says. It returns its id.
// The next tick stays. ScheduledFor of the job is the moment of the call, and never that of a tick:
// a whole second moves on by a microsecond. A call repeated after an unknown outcome makes another
// job.
func (s Schedules) RunNow(ctx context.Context, name string) (sojourn.ID, error) {
	d, err := s.store.ChangeSchedule(ctx, name, ActionRun)
	return d.LastJob, err
}

// Delete removes a schedule. Jobs that it has made go on. ErrNotFound if there is none.
func (s Schedules) Delete(ctx context.Context, name string) error {
	_, err := s.store.ChangeSchedule(ctx, name, ActionDelete)
	return err
}

// none is a store without schedules.
type none struct{}

func (none) SetSchedule(context.Context, Schedule, Mode) (Schedule, error) {
	return Schedule{}, errNone()
}
func (none) Schedules(context.Context, string, string, int, ...string) ([]Schedule, error) {
	return nil, errNone()
}
func (none) ChangeSchedule(context.Context, string, Action) (Schedule, error) {
	return Schedule{}, errNone()
}

func errNone() error {
	return sojourn.Invalid("store", "this store keeps no schedules; use one of store/sqlite, store/postgres or httpapi")
}
