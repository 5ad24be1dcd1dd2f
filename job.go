package sojourn

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
	"github.com/sojourn-queue/sojourn/internal/inside"
)

// ID names a job: positive, below 2^53, unique in its store for ever. Clients draw IDs in blocks
// ([Store.IDs]) before the insert, so the same call repeated after an unknown outcome means the
// same job.
type ID int64

// String returns the decimal digits of the id.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// IDLife is how long the ids of a block are good for new jobs, counted from the lease of the block.
// No final job is pruned or purged within this time of its enqueue, so an id is never inserted
// twice.
const IDLife = 15 * time.Minute

func init() {
	inside.Attach = func(job any, s inside.Step) { job.(*Job).step = s }
	inside.Of = func(job any) inside.Step { return job.(*Job).step }
	inside.Calendar = func(windows any) (calendar.Calendar, error) { return calendarOf(windows.([]Windows)) }
	inside.FromServer = func(job any) bool { return job.(*Job).set&setServerID != 0 }
}

// idBlock hands out ids from a block that the store has leased to this client. All callers wait
// for the lease of the next block, so a client that has used a block up leases larger ones, until
// one expires.
type idBlock struct {
	mu        sync.Mutex // guards the fields below, and keeps callers from leasing two blocks
	at, limit ID
}

const (
	idBlockSize = 1000
	idBlockNext = 10_000 // the maximum of Store.IDs
)

func (b *idBlock) next(ctx context.Context, s Store) (ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == b.limit {
		if err := b.lease(ctx, s, b.nextSize()); err != nil {
			return 0, err
		}
	}
	b.at++
	return b.at - 1, nil
}

func (b *idBlock) nextSize() int {
	if b.limit == 0 {
		return idBlockSize
	}
	return idBlockNext
}

// reserve takes n ids from the front of a new block, so that they are valid for all of IDLife. What
// is left of it is for the next enqueues.
func (b *idBlock) reserve(ctx context.Context, s Store, n int) ([]ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.lease(ctx, s, min(n+idBlockSize, idBlockNext)); err != nil {
		return nil, err
	}
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = b.at
		b.at++
	}
	return ids, nil
}

func (b *idBlock) lease(ctx context.Context, s Store, n int) error {
	first, err := s.IDs(ctx, n)
	if err != nil {
		return err
	}
	b.at, b.limit = first, first+ID(n)
	return nil
}

func (b *idBlock) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.limit = 0, 0
}

// Defaults of a job. An option wins over its kind, the kind over its queue, the queue over these.
const (
	DefaultQueue        = "default"
	DefaultPriority     = 100
	DefaultWeight       = 1
	DefaultMaxAttempts  = 5
	DefaultMaxCrashes   = 3
	DefaultTimeout      = 24 * time.Hour
	DefaultDecideWithin = 5 * time.Minute
	DefaultLease        = 30 * time.Second
	// MaxHorizon bounds every delay, timeout, deadline and run_at.
	MaxHorizon = 10 * 365 * 24 * time.Hour
	// MaxWeight bounds a job's weight.
	MaxWeight = 1_000_000
	// Unlimited as MaxAttempts or MaxCrashes: errors (lost leases) never end the job.
	Unlimited = -1
)

// Job is one unit of work. [Kind.New] and [NewJob] make it, the store keeps it, a handler gets it.
// The fields of the first group are input; the store sets the rest. A Job is not safe for
// concurrent use, except its methods that take a context.
type Job struct {
	ID          ID                `json:"id"`
	Kind        string            `json:"kind"`
	Queue       string            `json:"queue"`
	Key         string            `json:"key,omitempty"`   // the application's own name; unique per kind while the job is live
	Group       string            `json:"group,omitempty"` // label inside the queue: tenant, region, merchant
	Args        []byte            `json:"args,omitempty"`  // never changed, kept byte for byte
	ContentType string            `json:"content_type,omitempty"`
	Priority    int32             `json:"priority"` // lower first
	Weight      int32             `json:"weight"`   // 0 counts against no limit and is held back by none
	Tags        []string          `json:"tags,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"` // at most MaxMeta bytes: trace context, tenant
	RunAt       time.Time         `json:"run_at,omitzero"`
	Delay       time.Duration     `json:"-"` // input only: RunAt counted by the store's clock
	Policy      Policy            `json:"policy"`
	OnConflict  OnConflict        `json:"-"`              // action of Enqueue when a live job has the key
	Depends     []Dependency      `json:"-"`              // input only: the jobs that it waits for
	Name        string            `json:"name,omitempty"` // of a child in AwaitJobs, and of one that was read by Filter.AwaitedBy

	State      State       `json:"state"`
	Resumed    bool        `json:"resumed,omitempty"` // ready, with its answer, still holding its weight
	Instance   string      `json:"-"`
	Generation int32       `json:"generation"`
	Stage      int32       `json:"stage,omitempty"` // how often the job has advanced, see Advance; a redrive keeps it
	Epoch      int64       `json:"epoch"`           // number of claims ever
	Attempt    int32       `json:"attempt"`
	Failures   int32       `json:"failures"`
	Crashes    int32       `json:"crashes"`
	Worker     string      `json:"worker,omitempty"`
	Purpose    Purpose     `json:"purpose,omitempty"`
	Checkpoint []byte      `json:"checkpoint,omitempty"`
	Progress   string      `json:"progress,omitempty"`
	Response   *Response   `json:"response,omitempty"`  // the taken response, nil if there is none
	Responses  []*Response `json:"responses,omitempty"` // all taken responses
	Kept       int32       `json:"kept,omitempty"`      // responses attached that no handler has yet
	WaitsFor   int32       `json:"waits_for,omitempty"` // of a blocked job: dependencies that are not resolved yet, or children that are not final yet
	// ChildrenDone says that the children of AwaitJobs, in this stage, are final.
	ChildrenDone bool     `json:"children_done,omitempty"`
	Waiting      *Waiting `json:"waiting,omitempty"` // while it awaits or is polled
	Result       []byte   `json:"result,omitempty"`
	ResultType   string   `json:"result_type,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	// Error says, with Reason, how the newest attempt that has ended ended: while attempt 3 runs,
	// how attempt 2 failed. A completed job has none.
	Error string `json:"error,omitempty"`
	// ErrorDetail is the JSON that came with Error, see WithDetail. A job that was read with all
	// fields has it, one that was claimed has not.
	ErrorDetail []byte    `json:"error_detail,omitempty"`
	OrigRunAt   time.Time `json:"orig_run_at,omitzero"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`  // of the running step, by the store's clock
	LeaseUntil  time.Time `json:"lease_until,omitzero"` // of the running step, when it was read
	WakeAt      time.Time `json:"wake_at,omitzero"`     // when the sweep looks at it next
	// Schedule has made the job, for its tick at ScheduledFor: the nominal time, before any jitter.
	Schedule     string    `json:"schedule,omitempty"`
	ScheduledFor time.Time `json:"scheduled_for,omitzero"`
	// Workflow has made the job: as its member, or as a callback without a member's name. See
	// package workflow.
	Workflow string `json:"workflow,omitempty"`
	Member   string `json:"member,omitempty"`
	Virtual  bool   `json:"virtual,omitempty"` // the next tick of a schedule, in Jobs.Peek: not stored, without an id
	Token    string `json:"-"`                 // capability of the present wait, or of the next; a secret

	sent ID    // the id under which Enqueue sent this job, if the result replaced it with the id of another job
	kept ID    // that other id
	set  field // fields that were set explicitly, so that defaults of the kind and queue do not overwrite them
	err  error // an error of New (the args did not encode), reported by Enqueue
	step inside.Step
}

// Waiting describes the wait of a job. The attempt's timeout and the deadline may end it earlier.
type Waiting struct {
	Mode     WaitMode  `json:"mode"`
	Keys     []string  `json:"keys,omitempty"`     // none: it is answered by its id or a token
	Answered []string  `json:"answered,omitempty"` // those of Keys that have a response already; read with Filter.Full only
	Until    time.Time `json:"until,omitzero"`     // the end of within
	Beat     time.Time `json:"beat,omitzero"`      // silence until then ends the wait
	Poll     time.Time `json:"poll,omitzero"`      // the next poll step; none while one runs, or if the wait has no polls
	Polls    int32     `json:"polls,omitempty"`    // poll steps without an answer
}

// ResponseTo returns the taken response with this key, nil if there is none.
func (j *Job) ResponseTo(key string) *Response {
	for _, r := range j.Responses {
		if r.Key == key {
			return r
		}
	}
	return nil
}

// State of a job. The last three are final: such a job never changes.
type State uint8

// The states, in the order of a job's life.
const (
	Blocked   State = 1 + iota // waits for jobs it depends on
	Scheduled                  // waits for its run_at
	Ready                      // may be claimed
	Running                    // a worker holds its lease
	Awaiting                   // no worker; waits for a response, holding its weight
	Errored                    // an attempt ended where no handler code could decide; its retry handler will
	Completed
	Failed
	Cancelled
)

var stateNames = []string{"none", "blocked", "scheduled", "ready", "running", "awaiting", "errored", "completed", "failed", "cancelled"}

func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Final reports whether s is completed, failed or cancelled.
func (s State) Final() bool { return s >= Completed }

// Live reports whether s is a state that is not final.
func (s State) Live() bool { return s >= Blocked && s < Completed }

// MarshalText gives the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name, or "none", which a job has that no store has seen yet.
func (s *State) UnmarshalText(b []byte) error {
	if string(b) == stateNames[0] {
		*s = 0
		return nil
	}
	v, err := ParseState(string(b))
	*s = v
	return err
}

// ParseState reads a state's name.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name && i > 0 {
			return State(i), nil
		}
	}
	return 0, Invalid("state", "%.64q is not a state: use blocked, scheduled, ready, running, awaiting, errored, completed, failed or cancelled", name)
}

// Purpose is the purpose of a claimed step.
type Purpose uint8

// The purposes of a step.
const (
	NoPurpose     Purpose = iota
	PurposeStart          // run the handler, fresh
	PurposeResume         // run the handler, its wait was answered
	PurposeDecide         // run the retry handler only
	PurposePoll           // run the poll function
)

var purposeNames = []string{"", "start", "resume", "decide", "poll"}

func (p Purpose) String() string {
	if int(p) >= len(purposeNames) {
		return fmt.Sprintf("Purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}

// MarshalText gives the purpose's name.
func (p Purpose) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a purpose's name.
func (p *Purpose) UnmarshalText(b []byte) error {
	for i, n := range purposeNames {
		if n == string(b) {
			*p = Purpose(i)
			return nil
		}
	}
	return Invalid("purpose", "%.64q is not a purpose", b)
}

// Lease is time-limited ownership of a running job. All three fields and the state running must
// match for a write to be accepted: the epoch rises with every claim, and Worker is random per
// process start.
type Lease struct {
	ID     ID     `json:"id"`
	Epoch  int64  `json:"epoch"`
	Worker string `json:"worker"`
}

// OnConflict selects the action of Enqueue when another live job of the kind holds the key.
type OnConflict uint8

// The actions of Enqueue on a key conflict.
const (
	ReturnExisting OnConflict = iota // answer with the existing job, change nothing (default)
	ReturnError                      // refuse with ErrConflict
	Replace                          // give the existing job these args, run_at, priority and so on, if it was never claimed
)

// RespondURL returns a capability URL: a caller that knows it may answer the current wait of this
// job with a POST, and nothing else. If no wait was begun, or the last one was answered, it is for
// the next wait. It is valid until the wait is answered or the next attempt begins, and at most for
// within, counted from the claim by the store's clock; 0 sets no such bound. Treat it as a secret.
// CodeInvalid if the worker has no Options.RespondURL, or within is negative.
func (j *Job) RespondURL(within time.Duration) (string, error) {
	s, _ := j.step.(interface{ RespondURL() string })
	if s == nil || s.RespondURL() == "" {
		return "", Invalid("respond_url", "is not set: set worker.Options.RespondURL to the URL of the webhook receiver")
	}
	token := j.Token
	if within < 0 || within > MaxHorizon {
		return "", Invalid("within", "%v is out of range: 0 to 10 years", within)
	}
	if within > 0 {
		var ok bool
		if token, ok = inside.Expiring(token, j.UpdatedAt.Add(within)); !ok {
			return "", Invalid("token", "the token is invalid or has expired; use one that the store has issued")
		}
	}
	return s.RespondURL() + "/respond/" + token, nil
}

// Clone makes a new job from one that was read with all fields: with its kind, queue, key, group,
// args, priority, weight, tags, meta and policy, to run at once. It copies nothing of the state or
// the results of j. Options change it.
func (j *Job) Clone(options ...Option) *Job {
	c := NewJob(j.Kind, j.Args, Queue(j.Queue), Key(j.Key), Group(j.Group), Priority(j.Priority), Weight(j.Weight), Tags(j.Tags...),
		WithPolicy(j.Policy.Explicit()), OnKeyConflict(ReturnError))
	c.ContentType, c.Meta = j.ContentType, maps.Clone(j.Meta)
	for _, o := range options {
		o(c)
	}
	return c
}

// resend gives a job the id again under which it was sent before: a repeated call is the same call.
func (j *Job) resend() {
	if j.sent != 0 && j.ID == j.kept {
		j.ID = j.sent
	}
	j.sent, j.kept = 0, 0
}

// errNotRunning refuses a Job that no worker has passed to a handler.
func errNotRunning() error {
	return Invalid("job", "this Job is not running: only the Job that a handler was given can save")
}

// Parents returns the jobs that j depended on when it became blocked, with their results, in the
// order of their ids. Those that j's worker may not read, and the children of AwaitJobs, are left
// out.
func (j *Job) Parents(ctx context.Context) ([]Job, error) {
	s, ok := j.step.(interface {
		Parents(context.Context) ([]Job, error)
	})
	if !ok {
		return nil, errNotRunning()
	}
	return s.Parents(ctx)
}

// Children returns the jobs that AwaitJobs has stored in this stage, with their results and names,
// in the order of their ids. Those that j's worker may not read, or that were deleted, are left
// out; retention keeps the others until j has ended. After an error the iteration ends.
func (j *Job) Children(ctx context.Context) iter.Seq2[*Job, error] {
	s, ok := j.step.(interface {
		Children(context.Context) iter.Seq2[*Job, error]
	})
	if !ok {
		return func(yield func(*Job, error) bool) { yield(nil, errNotRunning()) }
	}
	return s.Children(ctx)
}

// DecodeResult decodes the result of a job that was read with all fields into v, a pointer: as
// JSON, or the bytes as they are into a *[]byte. CodeInvalid if there is no result or it is no JSON
// for v.
func (j *Job) DecodeResult(v any) error {
	if b, ok := v.(*[]byte); ok {
		*b = j.Result
		return nil
	}
	if len(j.Result) == 0 {
		return Invalid("result", "job %d has none; read it with all fields once it is final", j.ID)
	}
	if err := json.Unmarshal(j.Result, v); err != nil {
		return Invalid("result", "of job %d does not decode into %T: %v", j.ID, v, err)
	}
	return nil
}

// SaveCheckpoint stores progress that later attempts start from (Job.Checkpoint). It is durable
// when it returns nil, and extends the lease. ErrLeaseLost means the step no longer owns the job.
func (j *Job) SaveCheckpoint(ctx context.Context, b []byte) error {
	if b == nil {
		b = []byte{}
	}
	if j.step == nil {
		return errNotRunning()
	}
	if err := j.step.SaveCheckpoint(ctx, b); err != nil {
		return err
	}
	j.Checkpoint = b
	return nil
}

// SetProgress stores a short text for people (cut at MaxProgress bytes) and extends the lease.
func (j *Job) SetProgress(ctx context.Context, text string) error {
	if j.step == nil {
		return errNotRunning()
	}
	return j.step.SetProgress(ctx, text)
}

// SetKey gives a job without a key its key, at once and durably, so that responses find it.
// ErrConflict: another live job of the kind has that key, or this job has another one.
func (j *Job) SetKey(ctx context.Context, key string) error {
	if err := ValidKey("key", key); err != nil {
		return err
	}
	if j.step == nil {
		return errNotRunning()
	}
	if err := j.step.SetKey(ctx, key); err != nil {
		return err
	}
	j.Key = key
	return nil
}

// Log returns a logger whose lines are stored with the job: the newest 100, and the first is kept.
// Outside a handler it discards.
func (j *Job) Log() *slog.Logger {
	if j.step == nil {
		return slog.New(slog.DiscardHandler)
	}
	return j.step.Logger()
}

// SetResult sets the result that is stored when the handler ends the job, as completed, failed or
// cancelled: []byte as it is, any other value as JSON.
func (j *Job) SetResult(v any) error {
	if b, ok := v.([]byte); ok {
		j.Result, j.ResultType = b, "application/octet-stream"
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return Invalid("result", "does not encode as JSON: %v", err)
	}
	j.Result, j.ResultType = b, "application/json"
	return nil
}

// IdempotencyKey returns a key that a handler sends with external requests to deduplicate repeated
// ones: instance-id-generation-stage. It is the same over all attempts of a stage, and different
// after a redrive and in the next stage.
func (j *Job) IdempotencyKey() string {
	return fmt.Sprintf("%s-%d-%d-%d", j.Instance, j.ID, j.Generation, j.Stage)
}

// Fence is the epoch: strictly rising with every claim of the job. An outside system that remembers
// the highest one it has seen can refuse a zombie.
func (j *Job) Fence() int64 { return j.Epoch }

// Lease returns the fence of the present step.
func (j *Job) Lease() Lease { return Lease{ID: j.ID, Epoch: j.Epoch, Worker: j.Worker} }
