package sojourn

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/inside"
)

// OutcomeType is the type of a worker's report about a step.
type OutcomeType string

// The types of reports. The first group ends a step with purpose start or resume, OutcomeDecided
// one with purpose decide, OutcomeNoAnswer and OutcomeAnswer one with purpose poll; OutcomeReleased
// ends any.
const (
	OutcomeCompleted   OutcomeType = "completed"
	OutcomeError       OutcomeType = "error"       // with Reason, Text and the Verdict on what follows
	OutcomeAwait       OutcomeType = "await"       // park the job until a response comes
	OutcomeSnooze      OutcomeType = "snooze"      // run again after Delay; counts as no error
	OutcomeHold        OutcomeType = "hold"        // close Queue for Delay; the job goes back, and counts as no error
	OutcomeAbort       OutcomeType = "abort"       // fail now, even if attempts remain
	OutcomeCancelled   OutcomeType = "cancel"      // end as cancelled
	OutcomeUndecodable OutcomeType = "undecodable" // the args did not decode; no handler ran
	OutcomeAdvance     OutcomeType = "advance"     // go on as the next stage of the job, in Queue
	OutcomeAwaitJobs   OutcomeType = "await_jobs"  // store Next as children, and park the job until all are final
	OutcomeReleased    OutcomeType = "released"    // shutdown: undo the claim
	OutcomeDecided     OutcomeType = "decided"     // the retry handler's Verdict
	OutcomeNoAnswer    OutcomeType = "no_answer"
	OutcomeAnswer      OutcomeType = "answer" // Result is the answer's body
)

// Outcome is a worker's report of the result of a step. Workers in every language send outcomes,
// never transitions.
type Outcome struct {
	Lease      Lease         `json:"lease"`
	Type       OutcomeType   `json:"type"`
	Result     []byte        `json:"result,omitempty"` // of answer, and of each outcome that ends the job
	ResultType string        `json:"result_type,omitempty"`
	Reason     string        `json:"reason,omitempty"`       // short stable class of an error
	Text       string        `json:"error,omitempty"`        // the error itself
	Detail     []byte        `json:"error_detail,omitempty"` // JSON about the error, see WithDetail; stored as CutDetail returns it
	Verdict    Verdict       `json:"verdict,omitzero"`       // of error and decided; its Checkpoint of any outcome
	Delay      time.Duration `json:"delay,omitempty"`        // of snooze, hold and advance; a no_answer with a delay holds Queue too
	RunAt      time.Time     `json:"run_at,omitzero"`        // of advance: the earliest start; wins over Delay
	Priority   *int32        `json:"priority,omitempty"`
	Weight     *int32        `json:"weight,omitempty"`     // of advance, as Priority: nil = as before
	Queue      string        `json:"queue,omitempty"`      // to hold, or of the next stage; none = the job's own
	Wait       Wait          `json:"wait,omitzero"`        // of await; of await_jobs its Within
	Ask        []byte        `json:"ask,omitempty"`        // of await: the question for a person, a JSON object; see package ask
	Depends    []Dependency  `json:"depends_on,omitempty"` // of advance: what the next stage waits for
	Next       []Job         `json:"next,omitempty"`       // enqueued with completed or await_jobs, in the same transaction; without an id, the store draws one
	Log        []LogLine     `json:"log,omitempty"`        // the rest of the step's log
}

// Wait describes the responses that an awaiting job waits for.
type Wait struct {
	Mode   WaitMode      `json:"mode,omitempty"`
	Keys   []string      `json:"keys,omitempty"`   // of the job's kind; none = the job's own key
	Within time.Duration `json:"within,omitempty"` // 0 = until the attempt's timeout
	Beat   time.Duration `json:"beat,omitempty"`   // longest silence between two progress responses; 0 = any
	Poll   Backoff       `json:"poll,omitzero"`    // when poll steps come, from First on; the zero value = never
	Polls  int32         `json:"polls,omitempty"`  // poll steps without an answer so far; the rules count them
}

// MinPoll bounds how often a waiting job can be polled.
const MinPoll = 100 * time.Millisecond

// WaitMode says which responses end a wait.
type WaitMode uint8

// The modes of a wait.
const (
	WaitAny WaitMode = iota // the first response under any of the keys
	WaitAll                 // one response under each of the keys
)

// MarshalText gives "any" or "all".
func (m WaitMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads "any" or "all".
func (m *WaitMode) UnmarshalText(b []byte) error {
	switch string(b) {
	case "any":
		*m = WaitAny
	case "all":
		*m = WaitAll
	default:
		return Invalid("wait.mode", "%.64q is not a mode: use any or all", b)
	}
	return nil
}

func (m WaitMode) String() string {
	if m == WaitAll {
		return "all"
	}
	return "any"
}

// verdictError is the error value that Await, AwaitJobs, Snooze, Hold, Abort, Cancel, Then, Advance
// and Again return. It carries an outcome.
type verdictError struct {
	out   Outcome
	cause error
}

func (e *verdictError) Error() string {
	if e.cause == nil {
		return "sojourn: " + string(e.out.Type)
	}
	return e.cause.Error()
}

func (e *verdictError) Unwrap() error { return e.cause }

// Ask is for package ask.
func (e *verdictError) Ask(q []byte) error { out := e.out; out.Ask = q; return &verdictError{out: out} }

// Await parks the job until a response for its key (or its id, or its capability token) comes. The
// worker is free; the job's weight stays in the queue's limit. The response makes the job ready for
// the same attempt, and the handler runs with Job.Response set. within bounds the wait; 0 means
// until the attempt's timeout. When the wait ends without a response, the attempt ends with the
// reason "timeout".
func Await(within time.Duration) error {
	return &verdictError{out: Outcome{Type: OutcomeAwait, Wait: Wait{Within: within}}}
}

// AwaitAny is Await for the first response with any of the keys, success or failure: give one key
// per expected event. The keys are of the job's kind and belong to the job until it is final;
// Job.Response has the key of the response in Key. Responses with the other keys are kept for a
// later Await of these keys, and become late when the job ends. A key that belongs to another live
// job ends the attempt with the reason "key_conflict".
func AwaitAny(within time.Duration, keys ...string) error { return awaitKeys(WaitAny, within, keys) }

// AwaitAll is Await for one response under each of the keys: the handler runs once all are there,
// and finds them in Job.Responses and by Job.ResponseTo. An error response under any of them ends
// the attempt at once. A response by id or token has no key and does not count.
func AwaitAll(within time.Duration, keys ...string) error { return awaitKeys(WaitAll, within, keys) }

func awaitKeys(mode WaitMode, within time.Duration, keys []string) error {
	if len(keys) == 0 {
		return Invalid("keys", "no keys: give AwaitAny and AwaitAll at least one key, or use Await for the job's own key")
	}
	return &verdictError{out: Outcome{Type: OutcomeAwait, Wait: Wait{Mode: mode, Keys: slices.Clone(keys), Within: within}}}
}

// WithBeat ends a wait with the reason "beat" when progress responses (Response.Progress) stop:
// when none has arrived for the duration every, counted from the beginning of the wait. It takes
// the result of Await, AwaitAny or AwaitAll; every is more than 0.
func WithBeat(every time.Duration, await error) error {
	v, ok := errors.AsType[*verdictError](await)
	if !ok || v.out.Type != OutcomeAwait {
		if _, ours := errors.AsType[*Error](await); ours {
			return await // what AwaitAny says of its keys
		}
		return Invalid("beat", "this error is not a wait: pass WithBeat the result of Await, AwaitAny or AwaitAll")
	}
	if every <= 0 {
		return Invalid("beat", "%v is out of range: more than 0, up to 10 years", every)
	}
	out := v.out
	out.Wait.Beat = every
	return &verdictError{out: out}
}

// Snooze runs the job again after d, at least. It counts neither as an error nor as an attempt.
func Snooze(d time.Duration) error {
	return &verdictError{out: Outcome{Type: OutcomeSnooze, Delay: d}}
}

// Hold closes a queue on all nodes. A handler returns it when the other side answers 429 or
// Retry-After. An empty queue is the job's own. d is at least a second and is cut at MaxHold; a
// longer hold stays. It counts neither as an error nor as an attempt: a job of that queue returns
// to its place in line, one of another queue runs again after d. After the hold the queue's jobs
// start on a ramp: one in the first second and twice as many in each following one, until HoldRamp
// has passed. Responses and resumed jobs are not held. A poll function may return it as well: its
// job goes on waiting.
func Hold(queue string, d time.Duration) error {
	if d >= 0 {
		d = min(max(d, time.Second), MaxHold)
	}
	return &verdictError{out: Outcome{Type: OutcomeHold, Queue: queue, Delay: d}}
}

// Abort fails the job at once, even if attempts remain. A nil err is allowed. What Job.SetResult
// has set is stored with the job, as with Cancel.
func Abort(err error) error {
	return &verdictError{out: Outcome{Type: OutcomeAbort}, cause: err}
}

// Cancel ends the job as cancelled. A nil err is allowed.
func Cancel(err error) error {
	return &verdictError{out: Outcome{Type: OutcomeCancelled}, cause: err}
}

// Then completes the job, and enqueues jobs in the same transaction: either all of this happens, or
// nothing. A report that is repeated makes none twice, and max_depth refuses none of them. The jobs
// are options of New with their own delays; the queues must be those that the worker's access token
// may enqueue to. Whatever refuses one of them (CodeInvalid, a key with ReturnError) makes the step
// an error with that code. At most MaxBatch jobs.
func Then(jobs ...*Job) error {
	out := Outcome{Type: OutcomeCompleted, Next: make([]Job, len(jobs))}
	for i, j := range jobs {
		if j.err != nil {
			return AtIndex(i, j.err)
		}
		out.Next[i] = *j
	}
	return &verdictError{out: out}
}

// Advance ends this stage of the job and goes on with the next one, in a queue ("" = the same): the
// job keeps its id, key, args, checkpoint and history, and Job.Stage rises by one. The stage begins
// with attempt 0, no failures and no response, and its weight is free until it starts. Options are
// Delay, RunAt, Priority, Weight, DependsOn and WithDependency; Advance returns a CodeInvalid for
// any other, so that the step counts as an error. With dependencies the job is blocked until they
// are resolved, and a delay, counted from now, is honoured too. A dependency that the store refuses
// (ErrNotFound, ErrConflict for a cycle) makes the step an error. A response that comes under the
// job's key meanwhile is kept for the first Await of the next stage; one by a capability of an
// earlier stage is stale.
func Advance(queue string, options ...Option) error {
	var j, rest Job
	for _, o := range options {
		o(&j)
	}
	out := Outcome{Type: OutcomeAdvance, Queue: queue, Delay: j.Delay, RunAt: j.RunAt, Depends: j.Depends}
	if j.set&setPriority != 0 {
		out.Priority = &j.Priority
	}
	if j.set&setWeight != 0 {
		out.Weight = &j.Weight
	}
	rest = j
	rest.Delay, rest.RunAt, rest.Priority, rest.Weight, rest.Depends, rest.set = 0, time.Time{}, 0, 0, nil, j.set&^(setPriority|setWeight)
	if !reflect.DeepEqual(rest, Job{}) {
		return Invalid("advance", "takes the options Delay, RunAt, Priority, Weight, DependsOn and WithDependency; leave out the others, which stay as they are")
	}
	return &verdictError{out: out}
}

// AwaitJobs stores children and parks the job until all of them are final: fan-out and fan-in. The
// job is blocked meanwhile and holds no weight. Then the same attempt goes on, with
// Job.ChildrenDone set and the children in Job.Children; a child that has failed or was cancelled
// counts as final too. Without children the job goes on at once.
//
// A child is identified by its Name, by default its place ("0", "1", ...), within the job's
// generation and stage. A child that was stored before is the same job: a step that is repeated,
// after a lost answer or in a retry, stores none twice. Look at Job.ChildrenDone first: retries
// after the wait keep it, and a call that names only children that are final is then refused. A
// redrive and a next stage begin with other children.
//
// within bounds the wait; 0 means until the attempt's timeout. When it ends, the attempt ends with
// the reason "timeout"; the children go on, and the retry waits for them again. They also go on
// when the job is cancelled or fails: end them by Filter.AwaitedBy. At most MaxBatch children: let
// children await children of their own if there are more. Their queues must be those that the
// worker's access token may enqueue to; max_depth refuses none of them.
func AwaitJobs(within time.Duration, children ...*Job) error {
	if len(children) > MaxBatch {
		return Invalid("children", "%d jobs exceed the limit of %d; divide them among children that await their own part", len(children), MaxBatch)
	}
	out := Outcome{Type: OutcomeAwaitJobs, Wait: Wait{Within: within}, Next: make([]Job, len(children))}
	at := make(map[string]int, len(children))
	for i, j := range children {
		if j.err != nil {
			return AtIndex(i, j.err)
		}
		out.Next[i] = *j
		name := &out.Next[i].Name
		if *name == "" {
			*name = strconv.Itoa(i)
		}
		if first, ok := at[*name]; ok {
			return AtIndex(i, Invalid("name", "%.64q is the name of child %d too; give each child a name of its own", *name, first))
		}
		at[*name] = i
	}
	return &verdictError{out: out}
}

// WithCheckpoint stores a checkpoint together with what err means: with the end of the job, the
// next attempt, stage or wait. A nil err stays nil; use SaveCheckpoint before a completion.
func WithCheckpoint(checkpoint []byte, err error) error {
	if err == nil || checkpoint == nil {
		return err
	}
	return &checkpointError{checkpoint, err}
}

type checkpointError struct {
	checkpoint []byte
	cause      error
}

func (e *checkpointError) Error() string { return e.cause.Error() }
func (e *checkpointError) Unwrap() error { return e.cause }

// Again is an error that requests a new attempt without the taken response: the response is
// detached, so that the next attempt runs with Job.Response nil. Any other error leaves the
// response for the next attempt.
func Again(err error) error {
	return &verdictError{out: Outcome{Type: OutcomeError, Verdict: Verdict{Again: true}}, cause: err}
}

// WithReason sets the reason of an error: the short stable class by which failures are grouped (cut
// at MaxReason bytes). Without it the reason is the error's type or a fingerprint of its text. A
// nil err stays nil, and an empty reason changes nothing.
func WithReason(reason string, err error) error {
	if err == nil || reason == "" {
		return err
	}
	return &reasonError{reason, err}
}

type reasonError struct {
	reason string
	cause  error
}

func (e *reasonError) Error() string { return e.cause.Error() }
func (e *reasonError) Unwrap() error { return e.cause }

// WithDetail adds a JSON value to an error, for people and programs that look at the failure: the
// answer of the other side, the line of the input. It is stored with the error of the attempt, of
// Abort and of Cancel, and is at most MaxError bytes of JSON; see CutDetail. The outermost detail
// of a chain counts. A nil err stays nil.
func WithDetail(detail any, err error) error {
	if err == nil {
		return nil
	}
	b, failed := json.Marshal(detail)
	if failed != nil {
		b, _ = json.Marshal(map[string]string{"$invalid": Cut(failed.Error(), MaxProgress)})
	}
	return &detailError{b, err}
}

type detailError struct {
	detail []byte
	cause  error
}

func (e *detailError) Error() string { return e.cause.Error() }
func (e *detailError) Unwrap() error { return e.cause }

// CutDetail returns the detail of an error as stores keep it. JSON cannot be cut, and a report that
// was refused would lose the error. So a detail of more than MaxError bytes is replaced by
// {"$cut": BYTES}, and bytes that are not JSON by {"$invalid": TEXT}.
func CutDetail(detail []byte) []byte {
	if len(detail) > MaxError {
		return fmt.Appendf(nil, `{"$cut":%d}`, len(detail))
	}
	if err := ValidJSON("error_detail", "", detail); err != nil {
		b, _ := json.Marshal(map[string]string{"$invalid": err.Error()})
		return b
	}
	return detail
}

// OutcomeOf converts the error of a handler. The worker sets Lease, Result and the Verdict on
// retries.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Type: OutcomeCompleted}
	}
	out := Outcome{Type: OutcomeError}
	if v, ok := errors.AsType[*verdictError](err); ok {
		out = v.out
		if out.Wait.Within < 0 || out.Delay < 0 {
			return Outcome{Type: OutcomeError, Reason: CodeInvalid, Text: fmt.Sprintf("sojourn: %s with a negative duration", out.Type)}
		}
	}
	if c, ok := errors.AsType[*checkpointError](err); ok {
		out.Verdict.Checkpoint = c.checkpoint
	}
	switch out.Type {
	case OutcomeAwait, OutcomeAwaitJobs, OutcomeSnooze, OutcomeHold, OutcomeAdvance, OutcomeCompleted:
	default:
		out.Reason, out.Text = ReasonOf(err), Cut(err.Error(), MaxError)
		if d, ok := errors.AsType[*detailError](err); ok {
			out.Detail = CutDetail(d.detail)
		}
	}
	return out
}

// ReasonOf classifies an error: the reason of WithReason, else the name of the first type in its
// chain that is not one of the errors and fmt packages, else a fingerprint of its text, in which
// numbers and quoted parts are masked.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*reasonError](err); ok {
		return Cut(r.reason, MaxReason)
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code != "" {
		return e.Code
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e.(type) {
		case *verdictError, *checkpointError, *detailError:
			continue
		}
		name := strings.TrimPrefix(reflect.TypeOf(e).String(), "*")
		if !strings.HasPrefix(name, "errors.") && !strings.HasPrefix(name, "fmt.") {
			return Cut(name, MaxReason)
		}
	}
	return inside.Fingerprint(err.Error())
}

// Reasons that the rules set.
const (
	ReasonLeaseLost   = "lease_lost"
	ReasonTimeout     = "timeout"
	ReasonRunTimeout  = "run_timeout"
	ReasonBeat        = "beat"
	ReasonDeadline    = "deadline"
	ReasonKeyConflict = "key_conflict"
	ReasonUndecodable = "undecodable"
	ReasonDependency  = "dependency" // a job that it depends on has failed, was cancelled or was purged
	ReasonPanic       = "panic"
	ReasonRolledBack  = "rolled_back" // the handler returned nil, but the transaction of its FinishTx was not committed
)
