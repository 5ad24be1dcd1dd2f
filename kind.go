package sojourn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/calendar"
	"github.com/sojourn-queue/sojourn/internal/tracecontext"
)

// Kind declares one kind of job with arguments of type T: its name, which is stored and must stay
// stable, and its defaults. A Kind is a value without state; declare it once, as a package
// variable. Safe for concurrent use.
type Kind[T any] struct {
	Name   string         // 1-128 bytes of A-Za-z0-9_.:/-
	Queue  string         // default "default"
	Key    func(T) string // the key of a job, from its arguments; nil or "" = none
	Group  func(T) string // the label of a job inside its queue, from its arguments; nil or "" = none
	Tags   []string       // of every job; options add to them
	Codec  Codec          // default JSON
	Policy Policy         // options of New win, and add to Policy.Windows
}

// Codec turns arguments into bytes and back.
type Codec interface {
	// Encode gives the bytes of v, a T of the kind. Enqueue reports its error as CodeInvalid.
	Encode(v any) ([]byte, error)
	// Decode fills v, a pointer to a T. Its error shelves the job as undecodable.
	Decode(b []byte, v any) error
	// ContentType is stored with the job: a media type, at most MaxKey bytes.
	ContentType() string
}

// The codecs of this package. JSON is the default; Bytes is for opaque args of a Kind[[]byte].
var (
	JSON  Codec = jsonCodec{}
	Bytes Codec = bytesCodec{}
)

type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Decode(b []byte, v any) error { return json.Unmarshal(b, v) }

func (jsonCodec) ContentType() string { return "application/json" }

type bytesCodec struct{}

func (bytesCodec) Encode(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("the Bytes codec takes []byte, not %T", v)
	}
	return b, nil
}

func (bytesCodec) Decode(b []byte, v any) error {
	p, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("the Bytes codec fills *[]byte, not %T", v)
	}
	*p = b
	return nil
}

func (bytesCodec) ContentType() string { return "application/octet-stream" }

// New makes a job of this kind. Nothing is checked or stored before [Client.Enqueue], which also
// reports args that do not encode.
func (k Kind[T]) New(args T, options ...Option) *Job {
	b, err := k.codec().Encode(args)
	if err != nil {
		err = Invalid("args", "do not encode: %v", err)
	}
	j := NewJob(k.Name, b)
	j.err, j.ContentType = err, k.codec().ContentType()
	if k.Queue != "" {
		j.Queue, j.set = k.Queue, j.set|setQueue
	}
	if k.Key != nil {
		j.Key = k.Key(args)
	}
	if k.Group != nil {
		j.Group = k.Group(args)
	}
	j.Tags = slices.Clone(k.Tags)
	WithPolicy(k.Policy)(j)
	kind := j.Policy
	j.Policy = Policy{}
	for _, o := range options {
		o(j)
	}
	own := j.Policy.Windows // both must be open, unless the options take the kind's back
	j.Policy = j.Policy.or(kind)
	if len(own) > 0 {
		j.Policy.Windows = slices.Concat(own, kind.Windows)
	}
	return j
}

// Decode reads the arguments of a job of this kind.
func (k Kind[T]) Decode(j *Job) (T, error) {
	var v T
	err := k.codec().Decode(j.Args, &v)
	return v, err
}

func (k Kind[T]) codec() Codec {
	if k.Codec == nil {
		return JSON
	}
	return k.Codec
}

// NewJob makes a job of a kind that is known by name only. Args of kinds declared elsewhere are
// usually JSON; set Job.ContentType where they are not.
func NewJob(kind string, args []byte, options ...Option) *Job {
	j := &Job{Kind: kind, Queue: DefaultQueue, Args: args, ContentType: "application/json", Priority: DefaultPriority, Weight: DefaultWeight, set: setMade}
	for _, o := range options {
		o(j)
	}
	return j
}

// field marks the fields that were set explicitly.
type field uint8

const (
	setMade field = 1 << iota // by New or NewJob: a Job literal would have priority and weight 0 by accident
	setQueue
	setPriority
	setWeight
	setServerID // the id was drawn by the Client of a server, see NewServerClient
)

// Option sets one property of a job that New or NewJob makes.
type Option func(*Job)

// Key sets the application's own name of the job, by which responses find it.
func Key(key string) Option { return func(j *Job) { j.Key = key } }

// WithID sets an id from [Client.Reserve]. Without it, Enqueue draws one.
func WithID(id ID) Option { return func(j *Job) { j.ID = id } }

// Queue sets the queue.
func Queue(name string) Option { return func(j *Job) { j.Queue, j.set = name, j.set|setQueue } }

// Group sets the label inside the queue.
func Group(name string) Option { return func(j *Job) { j.Group = name } }

// Priority sets the priority: lower first, default 100.
func Priority(p int32) Option { return func(j *Job) { j.Priority, j.set = p, j.set|setPriority } }

// Weight sets how much of the queue's limit and the worker's concurrency the job uses, 0 to
// MaxWeight, default 1.
func Weight(w int32) Option { return func(j *Job) { j.Weight, j.set = w, j.set|setWeight } }

// RunAt sets the earliest start. A time in the past means now.
func RunAt(t time.Time) Option { return func(j *Job) { j.RunAt, j.Delay = t, 0 } }

// Delay sets the earliest start relative to the store's clock at the enqueue.
func Delay(d time.Duration) Option { return func(j *Job) { j.Delay, j.RunAt = d, time.Time{} } }

// Tags adds labels to search by, at most 64, each a name.
func Tags(tags ...string) Option { return func(j *Job) { j.Tags = append(j.Tags, tags...) } }

// Meta adds one entry of the string map that travels with the job.
func Meta(name, value string) Option {
	return func(j *Job) {
		m := make(map[string]string, len(j.Meta)+1)
		for k, v := range j.Meta {
			m[k] = v
		}
		m[name] = value
		j.Meta = m
	}
}

// MaxAttempts sets how many errors and timeouts end the job: default 5, 1: no retry, -1: no limit.
func MaxAttempts(n int32) Option { return func(j *Job) { j.Policy.MaxAttempts = n } }

// MaxCrashes sets how many lost leases end the job: default 3, -1 = unlimited.
func MaxCrashes(n int32) Option { return func(j *Job) { j.Policy.MaxCrashes = n } }

// RunTimeout bounds one execution of the handler: default none.
func RunTimeout(d time.Duration) Option { return func(j *Job) { j.Policy.RunTimeout = d } }

// Timeout bounds an attempt with its waiting: default 24 h.
func Timeout(d time.Duration) Option { return func(j *Job) { j.Policy.Timeout = d } }

// Deadline bounds the whole life, counted from the enqueue: default none.
func Deadline(d time.Duration) Option { return func(j *Job) { j.Policy.Deadline = d } }

// KeepKey holds the key for d after the job ends, so that a redelivered event does not run it
// twice: default 0.
func KeepKey(d time.Duration) Option { return func(j *Job) { j.Policy.KeepKey = d } }

// RetryBackoff sets the stored delay between attempts.
func RetryBackoff(b Backoff) Option { return func(j *Job) { j.Policy.Backoff = b } }

// OnKeyConflict sets the action of Enqueue when another live job of the kind has the key: default
// ReturnExisting.
func OnKeyConflict(c OnConflict) Option { return func(j *Job) { j.OnConflict = c } }

// WithPolicy sets every field of p that is not its zero value. A default of the kind or the queue
// is taken back by None, Retry, new(false) and so on, see Policy.
func WithPolicy(p Policy) Option {
	return func(j *Job) {
		if p.Priority != nil {
			Priority(*p.Priority)(j)
		}
		if p.Weight != nil {
			Weight(*p.Weight)(j)
		}
		own := p // a job has its priority and weight beside its policy
		own.Priority, own.Weight = nil, nil
		j.Policy = own.or(j.Policy)
	}
}

// In lets the job start only while one of the windows is open. It adds to the windows of its kind:
// all must be open, as those of the queue.
func In(windows ...Window) Option {
	return func(j *Job) {
		j.Policy.Windows = append(j.Policy.Windows[:len(j.Policy.Windows):len(j.Policy.Windows)], windows)
	}
}

// Window is a time of day in which jobs may start: from Start until End, without End, by the wall
// clock of Zone. A time of day means the first instant at which that clock has reached it: a time
// that a clock change skips means the moment of the change, a repeated time its first occurrence.
type Window struct {
	Days   []string `json:"days,omitempty"`   // on which it opens: mon, or a range such as mon-fri; none = every day
	Start  string   `json:"start"`            // 22:00 or 22:00:00
	End    string   `json:"end"`              // at most 24:00; before Start it is on the next day, equal to it means 24 hours
	Zone   string   `json:"zone,omitempty"`   // an IANA name such as Europe/Berlin; default UTC
	Except []string `json:"except,omitempty"` // dates such as 2026-12-25 on which it does not open, at most MaxExcept
}

// Windows are open when at least one of them is. None means always.
type Windows []Window

// Limits of windows.
const (
	MaxWindows = 32  // windows of a job, a kind or a queue each
	MaxExcept  = 400 // dates of one window
	// WindowHorizon is how far ahead an opening is looked for. Windows that do not open within it
	// are refused.
	WindowHorizon = 5 * 365 * 24 * time.Hour
	// TZVersion is the release of the IANA time zone database that all windows are read with. It is
	// part of the program: the zone files of the machine do not count.
	TZVersion = calendar.TZVersion
)

// maxSets bounds how many sets of windows a policy has: its kind's, and one for each In.
const maxSets = 8

// ParseWindow reads a window as [DAYS] START-END [ZONE] [except DATES]: "mon-fri 22:00-06:00
// Europe/Berlin except 2026-12-24,2026-12-25".
func ParseWindow(text string) (Window, error) {
	var w Window
	words := strings.Fields(text)
	if n := len(words); n > 2 && words[n-2] == "except" {
		w.Except, words = strings.Split(words[n-1], ","), words[:n-2]
	}
	if len(words) > 0 && !strings.Contains(words[0], ":") {
		w.Days, words = strings.Split(words[0], ","), words[1:]
	}
	if len(words) == 2 {
		w.Zone, words = words[1], words[:1]
	}
	if len(words) != 1 || !strings.Contains(words[0], "-") {
		return w, Invalid("window", "%.100q is not a window such as \"mon-fri 22:00-06:00 Europe/Berlin except 2026-12-25\"", text)
	}
	w.Start, w.End, _ = strings.Cut(words[0], "-")
	_, err := w.compile()
	return w, err
}

// String writes a window as ParseWindow reads it.
func (w Window) String() string {
	var words []string
	if len(w.Days) > 0 {
		words = append(words, strings.Join(w.Days, ","))
	}
	words = append(words, w.Start+"-"+w.End)
	if w.Zone != "" {
		words = append(words, w.Zone)
	}
	if len(w.Except) > 0 {
		words = append(words, "except", strings.Join(w.Except, ","))
	}
	return strings.Join(words, " ")
}

func (w Window) compile() (calendar.Window, error) {
	if len(w.Except) > MaxExcept {
		return calendar.Window{}, Invalid("windows.except", "%d dates exceed the limit of %d", len(w.Except), MaxExcept)
	}
	c, err := calendar.New(w.Days, w.Start, w.End, w.Zone, w.Except)
	if e, ok := errors.AsType[*calendar.FieldError](err); ok {
		return c, Invalid("windows."+e.Field, "%s", e.Text)
	}
	return c, err
}

func (ws Windows) compile() (calendar.Set, error) {
	if len(ws) > MaxWindows {
		return nil, Invalid("windows", "%d windows exceed the limit of %d", len(ws), MaxWindows)
	}
	set := make(calendar.Set, len(ws))
	for i, w := range ws {
		var err error
		if set[i], err = w.compile(); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// calendarOf combines windows that all must be open.
func calendarOf(all []Windows) (c calendar.Calendar, err error) {
	for _, ws := range all {
		set, err := ws.compile()
		if err != nil {
			return nil, err
		}
		if len(set) > 0 {
			c = append(c, set)
		}
	}
	return c, nil
}

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

// Name names a child of AwaitJobs within its parent's stage, up to MaxKey bytes: the same name is
// the same job, however often the step runs.
func Name(name string) Option { return func(j *Job) { j.Name = name } }

// ValidDepends checks dependencies: ids, actions, and at most MaxDepends jobs.
func ValidDepends(ds []Dependency) error {
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

// Names in Job.Meta of the trace context of the W3C. A job keeps the one with which it was
// enqueued; each of its steps, and the jobs that follow it, belong to that trace. It says nothing
// about the work, so a repeated enqueue with another trace context is a duplicate.
const (
	MetaTraceparent = tracecontext.Parent
	MetaTracestate  = tracecontext.State
)

// TraceContext returns the trace context of the job; parent is "" if it has none, or one that is
// not in the form of the W3C.
func (j *Job) TraceContext() (parent, state string) { return tracecontext.Of(j.Meta) }

// InheritTrace gives the job a trace context if it has none in Meta: that of a request, or of the
// job that it follows. A traceparent that is not one of the W3C, or for which Meta has no room, is
// ignored, because a trace is never a reason to refuse a job. Meta is replaced, not changed.
func (j *Job) InheritTrace(parent, state string) {
	parent, state = tracecontext.Of(map[string]string{MetaTraceparent: parent, MetaTracestate: state})
	if parent == "" || j.Meta[MetaTraceparent] != "" {
		return
	}
	if meta := tracecontext.With(j.Meta, parent, state); validMeta(meta) == nil {
		j.Meta = meta
	}
}
