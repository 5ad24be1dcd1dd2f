package sojourn

import (
	"context"
	"time"
)

// Store keeps jobs. Each method is one atomic step, takes a batch and is durable when it returns
// nil. Applications use [Client]; storetest.Run checks every implementation. All methods are safe
// for concurrent use. After Close they return ErrClosed.
//
// When ctx ends during a write, the error has CodeUnknown: repeating the same call is safe.
type Store interface {
	// IDs leases n consecutive ids (1 to 10,000) for the Caller in ctx, valid for IDLife.
	IDs(ctx context.Context, n int) (first ID, err error)
	// Enqueue stores jobs that have ids. It checks the id first: a known id returns that job
	// unchanged, or ErrConflict if its first enqueue had other content. It checks the key next
	// (held by a live job: see OnConflict) and then inserts. All or nothing; with partial, each
	// refusal is in its item's Err.
	//
	// An id must come from a block that was leased for the Caller in ctx (see driver.IDOwner), else
	// CodeInvalid, even if a job has the id. ErrConflict if a job for which the Caller has no grant
	// holds the key. The store may fill defaults into jobs, so a repeated call must pass the jobs
	// as they were before the first call.
	Enqueue(ctx context.Context, jobs []Job, partial bool) ([]Enqueued, error)
	// Respond stores responses and matches them with jobs.
	Respond(ctx context.Context, rs []Response) ([]Responded, error)
	// Edit cancels, fails, redrives, purges or changes the jobs that f finds, at most MaxFind of
	// them; one refusal does not stop the others. An id of f that no job has is an item with
	// ErrNotFound.
	Edit(ctx context.Context, f Filter, e Edit) (Page[Edited], error)
	// Find returns jobs in the order of their ids (Newest: descending). Without Full they lack
	// args, result, checkpoint and responses.
	Find(ctx context.Context, f Filter) ([]Job, error)
	// History returns a page of the history of a job, oldest first: one entry per step or change.
	// The first and the newest MaxHistory are kept. after: the Seq of the last entry of the page
	// before, 0 = from the first. limit: 1 to MaxFind, 0 = 100.
	History(ctx context.Context, id ID, after int32, limit int) ([]HistoryEntry, error)
	// Log returns the lines of a job's own log, oldest first.
	Log(ctx context.Context, id ID) ([]LogLine, error)
	// Queues lists all queues, or the named ones, with counts, in the order in which they were
	// first seen. ErrNotFound if a named queue does not exist.
	Queues(ctx context.Context, names ...string) ([]QueueStatus, error)
	// DeclareQueue replaces the declared layer of a queue's settings, which s is without pauses. It
	// and the three methods below create the queue if needed; only a pause of an unknown queue is
	// ErrNotFound. Their results have no counts, and they write nothing if nothing changes.
	// When they return, the waiting jobs have been reindexed too. Exception: while an open
	// transaction of PostgreSQL has stored jobs by the old settings, the sweep reindexes after it.
	DeclareQueue(ctx context.Context, name string, s QueueSettings) (QueueStatus, error)
	// UpdateQueue changes the operator's layer.
	UpdateQueue(ctx context.Context, name string, p QueuePatch) (QueueStatus, error)
	// PauseQueue pauses or resumes these kinds; without kinds, the queue.
	PauseQueue(ctx context.Context, name string, paused bool, kinds ...string) (QueueStatus, error)
	// SetQueue makes s the settings in force, with its pauses; see Queues.Set.
	SetQueue(ctx context.Context, name string, s QueueSettings) (QueueStatus, error)
	// ForgetQueue removes an empty queue; ErrConflict while it has jobs or schedules. With o.Force
	// a call does one slice of the work and changes at most about 500 jobs; repeat it while its
	// answer says More. A call that is never repeated leaves the queue with the rest.
	ForgetQueue(ctx context.Context, name string, o ForgetOptions) (Forgotten, error)
	// Inbox lists responses, newest first.
	Inbox(ctx context.Context, f InboxFilter) ([]Response, error)
	// HoldQueue stops starts in a queue for d, up to MaxHold, and replaces an earlier hold; 0 ends
	// a hold at once and without a ramp. The reason is shown. ErrNotFound: no such queue.
	HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error
	// ListQueues lists a page of queues that the Caller in ctx may read jobs of, with counts, in
	// the order of Queues. limit: 1 to MaxFind, 0 = 100. ErrNotFound if there is no queue after.
	ListQueues(ctx context.Context, after string, limit int) (Page[QueueStatus], error)
	// EditInbox matches (with to's Job, or Kind and Key), retries or discards the response seq, for
	// the operator to.By. Match and retry store a new response with its content, under the same
	// source and a message id that begins with "replay:"; the old one keeps its outcome (an early
	// one becomes unmatched, so that no job gets it a second time) and names the new one in Replay.
	// A repeated call is a duplicate. The answer is that of the new response, or of the discarded
	// one. ErrNotFound if there is no such response; ErrConflict if a job has it or will get it
	// automatically.
	EditInbox(ctx context.Context, seq int64, action string, to Response) (Responded, error)
	// CountInbox counts the responses in the inbox, and recent responses by source.
	CountInbox(ctx context.Context) (InboxCounts, error)
	// NearMisses finds up to MaxNearMisses keys, of live jobs and of responses without a job, that
	// differ from key in case, separators, leading zeros or one character.
	NearMisses(ctx context.Context, kind, key string) ([]NearMiss, error)
	// Why evaluates the gates of the job's queue for it, as the next claim would, or ErrNotFound.
	Why(ctx context.Context, id ID) (Why, error)
	// WhyQueue evaluates the gates for the jobs that a claim would take next, or ErrNotFound.
	WhyQueue(ctx context.Context, queue string) (QueueWhy, error)
	// Workers lists the workers seen within the last WorkerLife and those that hold leases, in the
	// order of their ids. after: the last id of the page before, empty = from the start. limit: 1
	// to MaxFind, 0 = 100. Only ids, if there are any; then Jobs is set.
	Workers(ctx context.Context, after string, limit int, ids ...string) ([]WorkerStatus, error)
	// DrainWorker gives a worker no more jobs: its waiting claim and each later one return at once
	// with CodeDrained. Its running jobs continue under their leases. The drain lasts while the
	// worker keeps claiming, and cannot be undone: start another worker. Draining again is no
	// error. ErrNotFound if Workers does not list it.
	DrainWorker(ctx context.Context, worker string) error
	// Status describes the store. The error has CodeSchema if its tables have been migrated to a
	// version that this program cannot work with.
	Status(ctx context.Context) (Status, error)
	// Close ends blocked calls with ErrClosed and releases the database. It may be called again.
	Close() error
}

// MaxWait bounds ClaimRequest.Wait and Filter.Wait; longer is clamped.
const MaxWait = time.Minute

// LogLine is one line of a job's own log.
type LogLine struct {
	At      time.Time `json:"at"` // set by the store
	Attempt int32     `json:"attempt"`
	Level   string    `json:"level"`
	Text    string    `json:"text"`              // message and attributes, cut at MaxProgress bytes
	By      string    `json:"by,omitempty"`      // the operator who has written it; empty for the handler's lines
	Dropped int64     `json:"dropped,omitempty"` // lines before this one that were dropped
}

// Enqueued is the result for one job of Enqueue.
type Enqueued struct {
	ID        ID    `json:"id"` // of the job: the caller's, or the one that was there before
	State     State `json:"state"`
	Duplicate bool  `json:"duplicate,omitempty"` // the job was there before
	Replaced  bool  `json:"replaced,omitempty"`
	Err       error `json:"-"` // of this item, in partial mode
}

// HistoryEntry is one entry of a job's history: a step that ended (Epoch > 0), or a change without
// a step.
type HistoryEntry struct {
	Seq        int32   `json:"seq"`               // from 1, with a gap where entries were dropped
	Dropped    int32   `json:"dropped,omitempty"` // entries dropped between the previous entry and this one, see MaxHistory
	Generation int32   `json:"generation"`
	Stage      int32   `json:"stage,omitempty"` // in which it was an attempt; each counts its own
	Attempt    int32   `json:"attempt"`
	Epoch      int64   `json:"epoch,omitempty"`
	Purpose    Purpose `json:"purpose,omitempty"`
	Worker     string  `json:"worker,omitempty"`
	Outcome    string  `json:"outcome"` // an OutcomeType, or lost, timed_out, deadline, responded, cancelled, failed, redriven, revoked, edited, replaced, decided
	State      State   `json:"state"`   // of the job after it
	Reason     string  `json:"reason,omitempty"`
	Error      string  `json:"error,omitempty"`
	// ErrorDetail is the JSON that came with Error, see WithDetail. Of the entries that a retry
	// policy gets, only that of the present error has it.
	ErrorDetail     []byte    `json:"error_detail,omitempty"`
	CheckpointBytes int64     `json:"checkpoint_bytes,omitempty"` // the size of the job's checkpoint at the end of the step
	By              string    `json:"by,omitempty"`               // the operator of a change; the response, for responded
	BeganAt         time.Time `json:"began_at,omitzero"`
	EndedAt         time.Time `json:"ended_at"`
}

// Status describes a store.
type Status struct {
	Store      string    `json:"store"` // such as "sqlite"
	Location   string    `json:"location"`
	Version    string    `json:"version"`    // of the database
	Durability string    `json:"durability"` // "fsync": acknowledged is durable; "relaxed": by explicit option only; "memory"
	Schema     int       `json:"schema"`
	Instance   string    `json:"instance"` // first part of Job.IdempotencyKey
	MaxBytes   int       `json:"max_bytes"`
	Now        time.Time `json:"now"`   // the store's clock
	Clock      string    `json:"clock"` // "steady", or how often it was set forward and back
	// Wakeups is how commits of other processes wake blocked calls: "notify" and "inotify" at once,
	// "poll" when they poll next, "" if there are no other processes.
	Wakeups string `json:"wakeups"`
	// DeadLeases is when the leases of workers that use this open store end if the process dies:
	// "at_once", "by_time" when they expire, "" if there are no other processes. Leases of workers
	// over HTTP end by time.
	DeadLeases string `json:"dead_leases"`
	Bytes      int64  `json:"bytes"` // on disk
	WALBytes   int64  `json:"wal_bytes"`
	Commits    int64  `json:"commits"` // transactions that this open store has committed; a group commit counts once
}

// Limits of a throttler.
const (
	MaxFlight   = 1000                   // entries of Flight.List
	MaxThrottle = 250 * time.Millisecond // time for all answers of one queue in one claim
)
