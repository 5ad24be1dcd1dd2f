package sojourn

import "context"

// MaxDepends bounds the jobs that one job depends on.
const MaxDepends = 1000

// Dependency makes a job wait for others: it is blocked until each of them has ended.
type Dependency struct {
	Jobs      []ID      `json:"jobs"`                 // stored before, or in the same batch
	OnFailure OnFailure `json:"on_failure,omitempty"` // default WaitOnFailure
	OnStage   bool      `json:"on_stage,omitempty"`   // the end of the present stage is enough
	MissingOK bool      `json:"missing_ok,omitempty"` // a job that does not exist (any more) counts as completed; default: ErrNotFound
}

// OnFailure says what becomes of a blocked job when one that it depends on fails or is cancelled.
type OnFailure string

// The actions on failure. "" is WaitOnFailure.
const (
	WaitOnFailure   OnFailure = "wait"   // it stays blocked: a redrive of the failed job can still release it (default)
	CancelOnFailure OnFailure = "cancel" // it is cancelled, with ReasonDependency
	FailOnFailure   OnFailure = "fail"   // it fails, with ReasonDependency
	IgnoreFailure   OnFailure = "ignore" // as if the other had completed
)

// Values of Edit.Dependents.
const (
	DependentsCancel  = "cancel"  // cancel them
	DependentsRelease = "release" // as if the job had completed
)

// DependsOn makes a job wait until these jobs have completed. WithDependency sets more.
func DependsOn(ids ...ID) Option { return WithDependency(Dependency{Jobs: ids}) }

// WithDependency adds a dependency. All of a job's dependencies must be resolved before it starts.
func WithDependency(d Dependency) Option {
	return func(j *Job) { j.Depends = append(j.Depends[:len(j.Depends):len(j.Depends)], d) }
}

func validDepends(ds []Dependency) error {
	n := 0
	for _, d := range ds {
		switch d.OnFailure {
		case "", WaitOnFailure, CancelOnFailure, FailOnFailure, IgnoreFailure:
		default:
			return Invalid("depends_on.on_failure", "%.64q is not one of wait, cancel, fail and ignore", d.OnFailure)
		}
		for _, id := range d.Jobs {
			if id <= 0 || id > maxID {
				return Invalid("depends_on", "%d is not an id of a job", id)
			}
		}
		n += len(d.Jobs)
	}
	if n > MaxDepends {
		return Invalid("depends_on", "%d jobs exceed the limit of %d", n, MaxDepends)
	}
	return nil
}

func (e Edit) validDepends() error {
	switch {
	case e.Dependents != "" && (e.Dependents != DependentsCancel && e.Dependents != DependentsRelease || e.Action != EditCancel && e.Action != EditPurge):
		return Invalid("dependents", "%.64q: cancel and purge take cancel or release", e.Dependents)
	case e.Action != EditChange && (e.DependOn != nil || e.Undepend != nil):
		return Invalid("depend_on", "only a change of blocked jobs changes dependencies")
	}
	return nil
}

// Parents returns the jobs that j depended on when it became blocked, with their results, in the
// order of their ids. Those that j's worker may not read are left out.
func (j *Job) Parents(ctx context.Context) ([]Job, error) {
	s, ok := j.step.(interface {
		Parents(context.Context) ([]Job, error)
	})
	if !ok {
		return nil, errNotRunning()
	}
	return s.Parents(ctx)
}

// DependOn adds dependencies to a blocked job. ErrConflict if it is not blocked, or if they would
// close a cycle, which the error names.
func (j Jobs) DependOn(ctx context.Context, id ID, ds ...Dependency) error {
	return j.edit(ctx, id, Edit{Action: EditChange, DependOn: &ds})
}

// Undepend removes dependencies of a blocked job on these jobs, or all if none is named. With the
// last one it is released.
func (j Jobs) Undepend(ctx context.Context, id ID, parents ...ID) error {
	if parents == nil {
		parents = []ID{}
	}
	return j.edit(ctx, id, Edit{Action: EditChange, Undepend: &parents})
}
