package wire

import (
	"errors"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/filter"
)

// Filter is sojourn.Filter, in a body or in a query.
type Filter struct {
	IDs           []sojourn.ID    `json:"ids,omitzero" query:"id" doc:"an empty list matches nothing; leave it out for no condition"`
	Kind          string          `json:"kind,omitempty" query:"kind"`
	Key           string          `json:"key,omitempty" query:"key" doc:"of each kind the live job with the key, else the newest final one"`
	Queue         string          `json:"queue,omitempty" query:"queue"`
	States        []sojourn.State `json:"states,omitzero" query:"state" doc:"an empty list matches nothing"`
	Group         string          `json:"group,omitempty" query:"group"`
	Tag           string          `json:"tag,omitempty" query:"tag"`
	Reason        string          `json:"reason,omitempty" query:"reason" doc:"of final jobs"`
	CreatedAfter  time.Time       `json:"created_after,omitzero" query:"created_after"`
	CreatedBefore time.Time       `json:"created_before,omitzero" query:"created_before"`
	EndedAfter    time.Time       `json:"ended_after,omitzero" query:"ended_after" doc:"of final jobs"`
	EndedBefore   time.Time       `json:"ended_before,omitzero" query:"ended_before" doc:"of final jobs"`
	Failure       string          `json:"failure,omitempty" query:"failure" doc:"the id of a failure group: its failed jobs, and live jobs whose last step failed with this cause"`
	After         sojourn.ID      `json:"after,omitempty" query:"after" doc:"the last id of the page before"`
	Limit         int             `json:"limit,omitempty" query:"limit" doc:"1 to 1,000; default 100"`
	Newest        bool            `json:"newest,omitempty" query:"newest" doc:"descending"`
	Next          bool            `json:"next,omitempty" query:"next" doc:"the jobs of the queue that are ready, or that the next claim makes ready, in the order of claims"`
	Full          bool            `json:"full,omitempty" query:"full" doc:"with args, result, checkpoint and responses"`
	Wait          time.Duration   `json:"wait,omitempty" query:"wait" doc:"with ids: wait up to this long until one matches; at most 60s"`
	ParentsOf     sojourn.ID      `json:"parents_of,omitempty" query:"parents_of" doc:"the jobs that this job depends on"`
	ChildrenOf    sojourn.ID      `json:"children_of,omitempty" query:"children_of" doc:"the jobs that depend on this one"`
	AwaitedBy     sojourn.ID      `json:"awaited_by,omitempty" query:"awaited_by" doc:"the children of this job: those that its outcome await_jobs has stored in its present generation and stage"`
	Where         string          `json:"where,omitempty" query:"where" doc:"more conditions as text, such as kind:charge state:awaiting age:>10m; one that another field has is refused"`
}

// InboxFilter is sojourn.InboxFilter, in a query.
type InboxFilter struct {
	Outcomes []sojourn.ResponseOutcome `json:"outcomes,omitzero" query:"outcome" doc:"an empty list matches nothing"`
	Kind     string                    `json:"kind,omitempty" query:"kind"`
	Key      string                    `json:"key,omitempty" query:"key"`
	Job      sojourn.ID                `json:"job,omitempty" query:"job"`
	Source   string                    `json:"source,omitempty" query:"source"`
	Before   int64                     `json:"before,omitempty" query:"before" doc:"the last seq of the page before"`
	Limit    int                       `json:"limit,omitempty" query:"limit" doc:"1 to 1,000; default 100"`
}

// FilterOf is f for the wire.
func FilterOf(f sojourn.Filter) Filter {
	return Filter{f.IDs, f.Kind, f.Key, f.Queue, f.States, f.Group, f.Tag, f.Reason, f.CreatedAfter, f.CreatedBefore, f.EndedAfter, f.EndedBefore, f.Failure, sojourn.ID(number(f.After)), f.Limit, f.Newest,
		f.Next, f.Full, f.Wait, f.ParentsOf, f.ChildrenOf, f.AwaitedBy, filter.Paths(f.Fields)}
}

// Domain is f for a store. Ages in its text count from now.
func (f Filter) Domain(now time.Time) (sojourn.Filter, error) {
	out := sojourn.Filter{IDs: f.IDs, Kind: f.Kind, Key: f.Key, Queue: f.Queue, States: f.States, Group: f.Group, Tag: f.Tag, Reason: f.Reason, CreatedAfter: f.CreatedAfter,
		CreatedBefore: f.CreatedBefore, EndedAfter: f.EndedAfter, EndedBefore: f.EndedBefore, Failure: f.Failure, After: cursor(int64(f.After)), Limit: f.Limit, Newest: f.Newest, Next: f.Next, Full: f.Full, Wait: f.Wait, ParentsOf: f.ParentsOf, ChildrenOf: f.ChildrenOf, AwaitedBy: f.AwaitedBy}
	if f.Where == "" {
		return out, nil
	}
	read, err := filter.Parse(f.Where, now)
	if err != nil {
		return out, err
	}
	return filter.Join(out, read)
}

// Domain is f for a store.
func (f InboxFilter) Domain() sojourn.InboxFilter {
	return sojourn.InboxFilter{Outcomes: f.Outcomes, Kind: f.Kind, Key: f.Key, Job: f.Job, Source: f.Source, After: cursor(f.Before), Limit: f.Limit}
}

// number is the number of a cursor. The client has validated it.
func number(after string) int64 {
	n, _ := strconv.ParseInt(after, 10, 64)
	return n
}

func cursor(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Response is sojourn.Response with TTL, which the former omits from its JSON.
type Response struct {
	sojourn.Response
	TTL time.Duration `json:"ttl,omitempty" doc:"of an early one without a live job: at least 1s; default the store's own"`
}

// ResponseOf is r on the wire.
func ResponseOf(r sojourn.Response) Response { return Response{r, r.TTL} }

// Domain is the response again.
func (r Response) Domain() sojourn.Response {
	r.Response.TTL = r.TTL
	return r.Response
}

// InboxEdit is rules.InboxEdit.
type InboxEdit struct {
	Seq    int64      `json:"seq"`
	Action string     `json:"action" enum:"match,retry,discard"`
	Job    sojourn.ID `json:"job,omitempty" doc:"of match: this job"`
	Kind   string     `json:"kind,omitempty" doc:"or the job that has this key, now or later"`
	Key    string     `json:"key,omitempty"`
	By     string     `json:"by,omitempty" doc:"who; shown with the response"`
}

// ClaimRequest is driver.ClaimRequest.
type ClaimRequest struct {
	Worker    string         `json:"worker" doc:"random per process start"`
	Name      string         `json:"name,omitempty" doc:"what people call it, such as host-pid"`
	Number    int64          `json:"number,omitempty" doc:"rising per worker; the same number again is the same request, so a lost answer costs nothing, and ends a call of that number or an earlier one that still waits (conflict); 0 is never repeated"`
	Queues    []string       `json:"queues" doc:"in the order in which to look: names, patterns such as payments-* and exclusions such as !payments-test; the queues of a pattern take turns, also those made later"`
	Kinds     []string       `json:"kinds" doc:"only these"`
	Decidable []string       `json:"decidable,omitempty" doc:"kinds among them whose retry handler this worker has"`
	Pollable  []string       `json:"pollable,omitempty" doc:"kinds among them whose poll function this worker has"`
	Max       int            `json:"max" doc:"jobs, 1 to 1,000; larger is clamped"`
	Capacity  int64          `json:"capacity" required:"false" doc:"summed weight that the worker has room for; default: no bound"`
	Lease     time.Duration  `json:"lease,omitempty" doc:"1s to 1h, default 30s"`
	Wait      time.Duration  `json:"wait,omitempty" doc:"how long to wait for a job: at most 60s"`
	Share     map[string]int `json:"share,omitempty" doc:"weights of the queues and patterns: claims are spread in this proportion; none = strictly in order"`
	Reserve   time.Duration  `json:"reserve,omitempty" doc:"a job that does not fit into capacity and has been ready for this long is not passed over: nothing behind it is taken, so that room drains for it; none = passed over"`
	Close     bool           `json:"close,omitempty" doc:"take nothing, answer what the claim with this number has taken, and let a claim with it that arrives later take nothing: for a worker that stops; without wait"`
}

// Saved is driver.Saved.
type Saved struct {
	Lease      sojourn.Lease     `json:"lease"`
	Checkpoint []byte            `json:"checkpoint,omitzero" doc:"replaces the checkpoint"`
	Progress   *string           `json:"progress,omitempty" doc:"replaces the progress text"`
	Key        string            `json:"key,omitempty" doc:"gives a job without a key its key"`
	Log        []sojourn.LogLine `json:"log,omitempty"`
}

// Edit is sojourn.Edit.
type Edit struct {
	Action     sojourn.EditAction `json:"action" enum:"cancel,fail,redrive,release,purge,change"`
	By         string             `json:"by,omitempty" doc:"who, for the history"`
	Reason     string             `json:"reason,omitempty" doc:"why, for the history and for the reason of cancel and fail"`
	Refuse     bool               `json:"refuse,omitempty" doc:"of cancel and fail: leave running jobs alone"`
	Generation int32              `json:"generation,omitempty" doc:"only if the job is in this generation; makes a repeated redrive safe"`
	All        bool               `json:"all,omitempty" doc:"edit every job of the store; without it, a filter that has no condition is refused"`
	DryRun     bool               `json:"dry_run,omitempty" doc:"change nothing, and only count the jobs that the filter matches"`
	Dependents string             `json:"dependents,omitempty" doc:"of cancel and purge: what becomes of blocked jobs that would wait for ever, cancel or release; default: the job is refused, with their ids"`
	Change     Change             `json:"change,omitzero" doc:"the new values, of change and redrive"`
}

// Change has the new values of sojourn.Edit.
type Change struct {
	RunAt          *time.Time            `json:"run_at,omitempty"`
	Delay          *time.Duration        `json:"delay,omitempty"`
	Priority       *int32                `json:"priority,omitempty"`
	Weight         *int32                `json:"weight,omitempty"`
	Queue          *string               `json:"queue,omitempty"`
	Group          *string               `json:"group,omitempty"`
	Tags           *[]string             `json:"tags,omitempty" doc:"replaces all tags"`
	RemoveTags     *[]string             `json:"remove_tags,omitempty"`
	AddTags        *[]string             `json:"add_tags,omitempty"`
	Args           *[]byte               `json:"args,omitempty" doc:"only while never claimed in this generation"`
	Checkpoint     *[]byte               `json:"checkpoint,omitempty" doc:"from which the next attempt starts"`
	DropCheckpoint bool                  `json:"drop_checkpoint,omitempty"`
	Policy         *sojourn.Policy       `json:"policy,omitempty" doc:"its fields that are given"`
	DependOn       *[]sojourn.Dependency `json:"depend_on,omitempty" doc:"dependencies that are added to a blocked job"`
	Undepend       *[]sojourn.ID         `json:"undepend,omitempty" doc:"the jobs on which a blocked job depends no more; an empty list means all"`
}

// EditOf is e on the wire.
func EditOf(e sojourn.Edit) Edit {
	return Edit{e.Action, e.By, e.Reason, e.Refuse, e.Generation, e.All, e.DryRun, e.Dependents, Change{e.RunAt, e.Delay, e.Priority, e.Weight, e.Queue, e.Group, e.Tags,
		e.RemoveTags, e.AddTags, e.Args, e.Checkpoint, e.DropCheckpoint, e.Policy, e.DependOn, e.Undepend}}
}

// Domain is e for a store.
func (e Edit) Domain() sojourn.Edit {
	c := e.Change
	return sojourn.Edit{Action: e.Action, By: e.By, Reason: e.Reason, Refuse: e.Refuse, Generation: e.Generation, All: e.All, DryRun: e.DryRun, Dependents: e.Dependents, RunAt: c.RunAt,
		Delay: c.Delay, Priority: c.Priority, Weight: c.Weight, Queue: c.Queue, Group: c.Group, Tags: c.Tags, RemoveTags: c.RemoveTags, AddTags: c.AddTags,
		Args: c.Args, Checkpoint: c.Checkpoint, DropCheckpoint: c.DropCheckpoint, Policy: c.Policy, DependOn: c.DependOn, Undepend: c.Undepend}
}

// Lists in requests and responses are wrapped in an object, so that fields can be added.
type (
	// EnqueueRequest is a batch.
	EnqueueRequest struct {
		Jobs    []NewJob `json:"jobs" doc:"1 to 1,000"`
		Partial bool     `json:"partial,omitempty" doc:"each for itself, instead of all or none"`
	}
	// Enqueued is the answer about one job.
	Enqueued struct {
		sojourn.Enqueued
		Error *Problem `json:"error,omitempty"`
	}
	// EnqueueAnswer has one entry per job, in order.
	EnqueueAnswer struct {
		Jobs []Enqueued `json:"jobs"`
	}
	// ClaimAnswer holds the claimed jobs.
	ClaimAnswer struct {
		Jobs []Claimed `json:"jobs"`
	}
	// ExtendRequest names leases.
	ExtendRequest struct {
		Leases []sojourn.Lease `json:"leases"`
	}
	// Extended is the answer about one lease.
	Extended struct {
		driver.Extended
		Error *Problem `json:"error,omitempty"`
	}
	// Lost names a lease that is lost.
	Lost struct {
		Lease  sojourn.Lease `json:"lease"`
		Reason string        `json:"reason" enum:"ended,cancelled,revoked,taken"`
	}
	// ExtendAnswer has one entry a lease, in order.
	ExtendAnswer struct {
		Leases []Extended `json:"leases" doc:"one entry a lease: its new end, or why it is lost"`
		Lost   []Lost     `json:"lost" doc:"those of the leases that are lost, by name"`
	}
	// SaveRequest holds writes under leases.
	SaveRequest struct {
		Items []Saved `json:"items"`
	}
	// SaveAnswer has one entry per item, in order.
	SaveAnswer struct {
		Leases []Extended `json:"leases" doc:"one entry an item: the new end of its lease, or what was wrong with it"`
		Errors []*Problem `json:"errors" doc:"one entry an item: null, or what was wrong with it"`
	}
	// FinishRequest holds outcomes.
	FinishRequest struct {
		Outcomes []Outcome `json:"outcomes"`
	}
	// Finished is the answer about one outcome.
	Finished struct {
		driver.Finished
		Error *Problem `json:"error,omitempty"`
	}
	// FinishAnswer has one entry an outcome, in order.
	FinishAnswer struct {
		Outcomes []Finished `json:"outcomes"`
	}
	// IDsRequest requests a block of ids.
	IDsRequest struct {
		Count int `json:"count" doc:"1 to 10,000"`
	}
	// IDsAnswer is the first id of the block; they are consecutive.
	IDsAnswer struct {
		First sojourn.ID `json:"first"`
	}
	// RespondRequest is a batch.
	RespondRequest struct {
		Responses []Response `json:"responses"`
	}
	// RespondAnswer has one entry a response, in order.
	RespondAnswer struct {
		Responses []sojourn.Responded `json:"responses"`
	}
	// EditRequest selects jobs and states the change.
	EditRequest struct {
		Filter Filter `json:"filter"`
		Edit   Edit   `json:"edit"`
	}
	// EditedItem is the answer about one job.
	EditedItem struct {
		sojourn.Edited
		Error *Problem `json:"error,omitempty"`
	}
	// EditAnswer is the result of an EditRequest.
	EditAnswer struct {
		Matched int          `json:"matched,omitempty" doc:"of a dry run: the jobs that the filter matches, on all pages"`
		Changed int          `json:"changed"`
		Items   []EditedItem `json:"items"`
		More    bool         `json:"more" doc:"the filter may match further jobs: call again"`
	}
	// JobsAnswer is a page of jobs.
	JobsAnswer struct {
		Jobs []JobView `json:"jobs"`
	}
	// HistoryAnswer is oldest first.
	HistoryAnswer struct {
		History []sojourn.HistoryEntry `json:"history"`
	}
	// LogAnswer is oldest first.
	LogAnswer struct {
		Log []sojourn.LogLine `json:"log"`
	}
	// NewLogLine is a line of an operator for the log of a job.
	NewLogLine struct {
		Text string `json:"text" doc:"at most 4,096 bytes"`
		By   string `json:"by,omitempty" doc:"who; the log shows it after the id of the token"`
	}
	// QueuesAnswer is a page of queues.
	QueuesAnswer struct {
		Queues []sojourn.QueueStatus `json:"queues"`
		Next   string                `json:"next,omitempty" doc:"the parameter after of the next page; absent = there is none"`
	}
	// WorkersAnswer lists workers.
	WorkersAnswer struct {
		Workers []sojourn.WorkerStatus `json:"workers"`
	}
	// HoldRequest holds a queue; 0s ends a hold.
	HoldRequest struct {
		For    time.Duration `json:"for"`
		Reason string        `json:"reason,omitempty"`
	}
	// PauseRequest pauses or resumes kinds in a queue; without kinds, the queue.
	PauseRequest struct {
		Paused bool     `json:"paused"`
		Kinds  []string `json:"kinds,omitempty"`
	}
	// InboxAnswer is newest first.
	InboxAnswer struct {
		Responses []Response `json:"responses"`
	}
	// NearAnswer lists near misses.
	NearAnswer struct {
		Near []sojourn.NearMiss `json:"near"`
	}
	// SweepRequest bounds a sweep.
	SweepRequest struct {
		Limit int `json:"limit" doc:"overdue things of each sort"`
	}
	// CheckAnswer is empty for a healthy store.
	CheckAnswer struct {
		Checks     []string           `json:"checks"`
		Violations []driver.Violation `json:"violations"`
	}
	// AuditAnswer is newest first.
	AuditAnswer struct {
		Entries []access.AuditEntry `json:"entries"`
	}
	// RepairAnswer lists the violations that were repaired.
	RepairAnswer struct {
		Repaired []driver.Violation `json:"repaired"`
	}
	// Empty is an answer without fields.
	Empty struct{}
)

// problemOf shows the error of an item.
func problemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sojourn.Error](err); ok {
		return Item(e)
	}
	for code, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return &Problem{Code: code, Detail: err.Error()}
		}
	}
	return &Problem{Code: CodeInternal, Detail: "the item failed"}
}

// each applies f to all items.
func each[A, B any](items []A, f func(A) B) []B {
	out := make([]B, len(items))
	for i, a := range items {
		out[i] = f(a)
	}
	return out
}

// Each applies f to all items. The result is never nil.
func Each[A, B any](items []A, f func(A) B) []B { return each(items, f) }

// EnqueuedOf returns the wire form of an enqueued job.
func EnqueuedOf(e sojourn.Enqueued) Enqueued { return Enqueued{e, problemOf(e.Err)} }

// Domain is the answer again.
func (e Enqueued) Domain() sojourn.Enqueued {
	e.Enqueued.Err = e.Error.Err()
	return e.Enqueued
}

// FinishedOf shows an answer about an outcome.
func FinishedOf(f driver.Finished) Finished { return Finished{f, problemOf(f.Err)} }

// Domain is the answer again.
func (f Finished) Domain() driver.Finished {
	f.Finished.Err = f.Error.Err()
	return f.Finished
}

// EditedOf returns the wire form of an edit's result.
func EditedOf(e sojourn.Page[sojourn.Edited]) EditAnswer {
	a := EditAnswer{Matched: e.Total, More: e.Next != ""}
	a.Items = each(e.Items, func(i sojourn.Edited) EditedItem {
		if i.Changed {
			a.Changed++
		}
		return EditedItem{i, problemOf(i.Err)}
	})
	return a
}

// Domain is the answer again.
func (a EditAnswer) Domain() sojourn.Page[sojourn.Edited] {
	p := sojourn.Page[sojourn.Edited]{Total: a.Matched, Items: each(a.Items, func(i EditedItem) sojourn.Edited {
		i.Edited.Err = i.Error.Err()
		return i.Edited
	})}
	if n := len(p.Items); a.More && n > 0 {
		p.Next = p.Items[n-1].ID.String()
	}
	return p
}

// ExtendedOf shows an answer about a lease.
func ExtendedOf(e driver.Extended) Extended { return Extended{e, problemOf(e.Err)} }

// Domain is the answer again.
func (e Extended) Domain() driver.Extended {
	e.Extended.Err = e.Error.Err()
	return e.Extended
}

// Broken reports whether e is no answer: it has neither an end of the lease nor an error.
func (e Extended) Broken() bool {
	return e.Until.IsZero() && (e.Error == nil || e.Error.Code == "")
}

// ExtendAnswerOf shows the answers about leases.
func ExtendAnswerOf(leases []sojourn.Lease, answers []driver.Extended) ExtendAnswer {
	a := ExtendAnswer{each(answers, ExtendedOf), []Lost{}}
	for i, e := range answers {
		if e.Reason != "" {
			a.Lost = append(a.Lost, Lost{leases[i], e.Reason})
		}
	}
	return a
}

// SaveAnswerOf shows the answers about saved items.
func SaveAnswerOf(answers []driver.Extended) SaveAnswer {
	return SaveAnswer{each(answers, ExtendedOf), each(answers, func(e driver.Extended) *Problem { return problemOf(e.Err) })}
}

// ForgetQuery is sojourn.ForgetOptions in a path and a query.
type ForgetQuery struct {
	Queue      string `path:"queue"`
	Force      bool   `query:"force" doc:"cancel and purge its jobs and delete its schedules, one slice a call: repeat it while the answer says more"`
	DryRun     bool   `query:"dry_run" doc:"with force: only count"`
	Dependents string `query:"dependents" doc:"what becomes of blocked jobs of other queues that would wait for ever: cancel or release; default: refuse"`
	By         string `query:"by" doc:"who, for the history"`
	Reason     string `query:"reason" doc:"why, for the history"`
}

// Options are those of a call by a caller.
func (q ForgetQuery) Options(by string) sojourn.ForgetOptions {
	return sojourn.ForgetOptions{Force: q.Force, DryRun: q.DryRun, Dependents: q.Dependents, By: by, Reason: q.Reason}
}
