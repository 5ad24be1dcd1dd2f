package sojourn

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Filter chooses jobs. Everything that is set must match. A nil list is no condition; a list that
// is not nil and has no entries matches nothing, so that a program which has found no ids does not
// choose all jobs.
type Filter struct {
	IDs           []ID
	Kind          string
	Key           string // of each kind the live job with the key, else the newest final one
	Queue         string
	States        []State
	Group         string
	Tag           string
	Reason        string // of final jobs
	CreatedAfter  time.Time
	CreatedBefore time.Time
	EndedAfter    time.Time         // of final jobs
	EndedBefore   time.Time         // of final jobs
	Failure       string            // the id of a failure group: its failed jobs, and live jobs whose last step failed with this cause; see package failure
	After         string            // Page.Next of the page before, which is the id of its last job; "" = from the start
	Limit         int               // 1 to MaxFind; 0 = 100
	Newest        bool              // descending
	Next          bool              // the jobs of Queue that are ready, or that the next claim makes ready, in the order of claims, without claiming them
	Full          bool              // with args, result, checkpoint, responses
	Wait          time.Duration     // with IDs: wait up to this long until one matches; at most MaxWait
	ParentsOf     ID                // the jobs that this job depends on, also those that have ended
	ChildrenOf    ID                // the jobs that depend on this one
	AwaitedBy     ID                // the children of this job: those that AwaitJobs has stored in its present generation and stage
	Fields        map[string]string // values of JSON by their paths, such as args.customer; of queues that index them: QueueSettings.Index
}

// Validate checks the ranges.
func (f Filter) Validate() error {
	if f.Next && (f.Queue == "" || f.Newest || f.After != "" || len(f.States) > 0) {
		return Invalid("next", "takes the queue, and neither states nor another order: it is the ready jobs in the order of claims")
	}
	if err := ValidLimit(f.Limit); err != nil {
		return err
	}
	if f.Wait < 0 {
		return Invalid("wait", "%v is negative", f.Wait)
	}
	if err := validCursor(f.After); err != nil {
		return err
	}
	if len(f.IDs) > MaxFind {
		return Invalid("ids", "%d ids exceed the limit of %d", len(f.IDs), MaxFind)
	}
	return validTexts([]named{{"kind", f.Kind}, {"queue", f.Queue}, {"tag", f.Tag}, {"key", f.Key}, {"group", f.Group}, {"reason", f.Reason}, {"failure", f.Failure}})
}

// validCursor checks a cursor, which is a positive number.
func validCursor(after string) error {
	if n, err := strconv.ParseInt(after, 10, 64); after != "" && (err != nil || n < 1) {
		return Invalid("after", "%.64q is not a cursor: pass the Next of the page before", after)
	}
	return nil
}

// named is a text of a filter with the name of its field.
type named struct{ field, text string }

// validTexts refuses texts that a database does not accept or that are longer than any stored text.
// A filter with any other text that no job has finds no jobs.
func validTexts(texts []named) error {
	for _, t := range texts {
		if len(t.text) > MaxKey {
			return Invalid(t.field, "has %d bytes; allowed are up to %d", len(t.text), MaxKey)
		}
		if !utf8.ValidString(t.text) || strings.Contains(t.text, "\x00") {
			return Invalid(t.field, "%.64q is not UTF-8, or has a NUL", t.text)
		}
	}
	return nil
}

// Empty reports whether f matches no job, because one of its lists is there and has no entries.
func (f Filter) Empty() bool {
	return f.IDs != nil && len(f.IDs) == 0 || f.States != nil && len(f.States) == 0
}

// EditAction is an action of Edit.
type EditAction string

// The actions of Edit.
const (
	EditCancel  EditAction = "cancel"  // any live job becomes cancelled, a running one at once
	EditFail    EditAction = "fail"    // any live job becomes failed
	EditRedrive EditAction = "redrive" // failed and cancelled jobs run again, with the new values: same id, next generation
	EditRelease EditAction = "release" // a running job is handed back: its lease ends, and its attempt goes on with the next claim
	EditPurge   EditAction = "purge"   // final jobs are deleted; their ids are never used again
	EditChange  EditAction = "change"  // blocked, scheduled, plain ready and errored jobs get new values; awaiting ones a new priority
)

// Edit is a change to jobs. The fields from RunAt on are new values, for EditChange and
// EditRedrive; nil changes nothing.
type Edit struct {
	Action     EditAction
	By         string // the operator, for the history
	Reason     string // why, for the history and for Job.Reason of cancel and fail
	Refuse     bool   // of cancel and fail: leave running jobs alone (ErrConflict)
	Generation int32  // only if the job is in this generation; 0 = any. Makes a repeated redrive safe
	All        bool   // edit every job of the store. Without it, a filter that has no condition is refused
	DryRun     bool   // change nothing, and only count the jobs that the filter matches: Page.Total
	Dependents string // of cancel and purge: what becomes of blocked jobs that would wait for ever, DependentsCancel or DependentsRelease; "" = refuse

	RunAt    *time.Time
	Delay    *time.Duration // RunAt counted by the store's clock
	Priority *int32
	Weight   *int32
	Queue    *string
	Group    *string
	Tags     *[]string // replaces all tags
	// RemoveTags and then AddTags change single tags, after Tags. Tags of any job may be changed,
	// of running and final ones too, if nothing else is. A handler that runs does not see it.
	RemoveTags *[]string
	AddTags    *[]string
	Args       *[]byte // only while never claimed in this generation
	// Checkpoint replaces that from which the next attempt starts; DropCheckpoint removes it.
	Checkpoint     *[]byte
	DropCheckpoint bool
	Policy         *Policy // its fields that are not zero, see Policy; a new deadline counts from the edit
	// DependOn adds and then Undepend removes dependencies, of a blocked job only. An empty
	// Undepend removes all of them.
	DependOn *[]Dependency
	Undepend *[]ID
}

// Values returns an edit with only the new values of e. It is the zero Edit if there are none.
func (e Edit) Values() Edit {
	e.Action, e.By, e.Reason, e.Refuse, e.Generation, e.All, e.DryRun, e.Dependents = "", "", "", false, 0, false, false, ""
	return e
}

// Validate checks the ranges. maxBytes bounds args and checkpoint.
func (e Edit) Validate(maxBytes int) error {
	if err := e.validDepends(); err != nil {
		return err
	}
	switch e.Action {
	case EditCancel, EditFail, EditRelease, EditPurge:
		return nil
	case EditRedrive, EditChange:
	default:
		return Invalid("action", "%.64q is not an action: use cancel, fail, redrive, release, purge or change", e.Action)
	}
	if e.Checkpoint != nil && e.DropCheckpoint {
		return Invalid("drop_checkpoint", "the checkpoint is either replaced or dropped: leave one of the two out")
	}
	if e.Checkpoint != nil && len(*e.Checkpoint) > maxBytes {
		return TooLarge("checkpoint", len(*e.Checkpoint), maxBytes)
	}
	if e.Action == EditChange && e.Values() == (Edit{}) {
		return Invalid("change", "nothing to change")
	}
	for _, tags := range []*[]string{e.Tags, e.RemoveTags, e.AddTags} {
		if tags == nil {
			continue
		}
		if err := ValidTags(*tags); err != nil {
			return err
		}
	}
	probe := NewJob("probe", nil)
	give(&probe.Weight, e.Weight)
	give(&probe.Queue, e.Queue)
	give(&probe.Group, e.Group)
	give(&probe.Args, e.Args)
	give(&probe.Delay, e.Delay)
	give(&probe.Policy, e.Policy)
	give(&probe.Depends, e.DependOn)
	return probe.Validate(maxBytes)
}

func give[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// Edited is the answer about one job. An id of the filter that no job has gets ErrNotFound.
type Edited struct {
	ID      ID    `json:"id"`
	State   State `json:"state"`
	Changed bool  `json:"changed"` // false without Err: it was so already
	Err     error `json:"-"`
}

// Why reports whether a job can be claimed now and, if not, why not. It evaluates the same gates as
// a claim.
type Why struct {
	ID        ID        `json:"id"`
	Kind      string    `json:"kind"`
	Queue     string    `json:"queue"`
	Group     string    `json:"group,omitempty"`
	State     State     `json:"state"`
	Resumed   bool      `json:"resumed,omitempty"`
	Claimable bool      `json:"claimable"`           // all gates are open: the next claim with room for it takes it, in its turn
	Waits     string    `json:"waits"`               // the reason, in words
	Gate      string    `json:"gate,omitempty"`      // the first closed one: a Gate constant
	Until     time.Time `json:"until,omitzero"`      // when that ends, if it is known
	Gates     []Gate    `json:"gates,omitempty"`     // the decision of each, in order; of ready and errored jobs
	Ahead     int64     `json:"ahead"`               // ready jobs that stand before it in its line, counted up to MaxAhead
	Unhandled bool      `json:"unhandled,omitempty"` // no worker has asked for its kind in its queue within the last day
	Worker    string    `json:"worker,omitempty"`    // of a running job
	Keys      []string  `json:"keys,omitempty"`      // of an awaiting job: the keys that it waits for
}

// MaxAhead bounds Why.Ahead and QueueWhy.Asked.
const MaxAhead = 1000

// QueueWhy reports which gates hold the jobs of a queue back.
type QueueWhy struct {
	Queue string `json:"queue"`
	Asked int64  `json:"asked"` // ready jobs that were asked about, from the front of each line, up to MaxAhead
	Open  int64  `json:"open"`  // of them, those that could be claimed now, each for itself
	Held  []Gate `json:"held"`  // the others by their first closed gate, most first
	// Of the queue's throttler, on all nodes: see QueueStatus.
	ThrottleErrors  int64     `json:"throttle_errors,omitempty"`
	ThrottleError   string    `json:"throttle_error,omitempty"`
	ThrottleErrorAt time.Time `json:"throttle_error_at,omitzero"`
}

// ProbeQueue is the queue in which servers claim to check that claims work. It has no jobs, and a
// caller that claims from it alone is not listed as a worker.
const ProbeQueue = "sojourn.readyz"

// WorkerLife is how long a worker stays listed after its last claim, by default; see store/config.
const WorkerLife = 24 * time.Hour

// WorkerStatus is a worker as its store knows it. An idle worker writes nothing, so through another
// process SeenAt is when it last got jobs (to ten seconds), changed its request or extended a
// lease; while it lives, at most half of WorkerLife ago.
type WorkerStatus struct {
	Worker  string        `json:"worker"`         // its id, as in leases
	Name    string        `json:"name,omitempty"` // the name that it sent
	Queues  []string      `json:"queues"`
	Kinds   []string      `json:"kinds"`
	Running int64         `json:"running"`           // jobs under its leases
	Stalled int64         `json:"stalled"`           // of them, those with an expired lease
	Jobs    []ID          `json:"jobs,omitempty"`    // the running ones, if ids were given; at most MaxFind of all of them
	SeenAt  time.Time     `json:"seen_at"`           // by the store's clock
	Waiting bool          `json:"waiting,omitempty"` // a claim of it waits in the process that answers
	Drained bool          `json:"drained,omitempty"`
	Life    time.Duration `json:"life,omitempty"` // how long the store lists a worker after its last sign of life; 0 = WorkerLife
}

// The gates, in the order in which a claim asks them. The first one that is closed holds a job
// back.
const (
	GatePause    = "pause"
	GateWindow   = "window"
	GateHold     = "hold"
	GateBreaker  = "breaker"
	GateLimit    = "limit"
	GateGroup    = "group_limit"
	GateShare    = "share"
	GateRate     = "rate"
	GateThrottle = "throttle"
)

// Gate is the decision of one gate about one job. In QueueWhy it is the decision about the first of
// the jobs that the gate holds back.
type Gate struct {
	Name  string    `json:"gate"` // one of the Gate constants
	Open  bool      `json:"open"`
	Scope string    `json:"scope"`           // of a closed gate: whom it holds back, job, group, kind or queue
	Used  int64     `json:"used,omitempty"`  // weight, starts or jobs, of gates that count
	Of    int64     `json:"of,omitempty"`    // how much there is
	Until time.Time `json:"until,omitzero"`  // when a closed gate opens, if that is known
	Text  string    `json:"text,omitempty"`  // why it is closed, in words
	Fail  string    `json:"fail,omitempty"`  // of the throttler: the job fails with this reason
	Later time.Time `json:"later,omitzero"`  // the job is scheduled to then
	Jobs  int64     `json:"jobs,omitempty"`  // in QueueWhy: how many jobs it holds back
	First ID        `json:"first,omitempty"` // and the first of them
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
