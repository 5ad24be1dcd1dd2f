package sojourn

import (
	"context"
	"time"
)

// Claimer is the part of a Store that a worker needs. All methods are safe for concurrent use.
type Claimer interface {
	// Claim takes ready jobs under leases. It returns at once if there are any; otherwise it waits
	// up to r.Wait, which covers in-process wake-ups, notifications and long polls. A repeated
	// claim (same worker, same number) returns the same jobs whose leases are still valid, so a
	// lost answer loses no job. CodeDrained: see WorkerKeeper.
	Claim(ctx context.Context, r ClaimRequest) ([]Claimed, error)
	// Extend prolongs leases to at least now + lease and returns the ended ones as lost.
	Extend(ctx context.Context, leases []Lease) (lost []Lost, err error)
	// Save writes checkpoint, progress, key and log lines under the lease and extends it. It
	// returns one error per item: nil, ErrLeaseLost, ErrConflict for the key, or an *Error with
	// CodeInvalid or CodeTooLarge.
	Save(ctx context.Context, items []Saved) ([]error, error)
	// Finish ends steps. It is idempotent by lease and outcome; each item has its own result.
	Finish(ctx context.Context, outcomes []Outcome) ([]Finished, error)
}

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
	// them; one refusal does not stop the others.
	Edit(ctx context.Context, f Filter, e Edit) (Edited, error)
	// Find returns jobs in the order of their ids (Newest: descending). Without Full they lack
	// args, result, checkpoint and responses.
	Find(ctx context.Context, f Filter) ([]Job, error)
	// History returns the history of a job, oldest first: one entry per step or change. The first
	// and the newest MaxHistory are kept.
	History(ctx context.Context, id ID, f HistoryFilter) ([]Attempt, error)
	// Log returns the lines of a job's own log, oldest first.
	Log(ctx context.Context, id ID) ([]LogLine, error)
	// Queues lists all queues, or the named ones, with counts, in the order in which they were
	// first seen. ErrNotFound if a named queue does not exist.
	Queues(ctx context.Context, names ...string) ([]QueueStatus, error)
	// SetQueue stores settings and creates the queue if needed. They apply to new jobs at once.
	// When it returns, the waiting jobs have been reindexed too. Exception: on PostgreSQL, while an
	// open transaction has stored jobs by the old settings, the sweep reindexes after it ends.
	SetQueue(ctx context.Context, name string, s QueueSettings) error
	// ForgetQueue removes an empty queue; ErrConflict while it has jobs.
	ForgetQueue(ctx context.Context, name string) error
	// Inbox lists responses, newest first.
	Inbox(ctx context.Context, f InboxFilter) ([]Response, error)
	// Status describes the store. The error has CodeSchema if its tables have been migrated to a
	// version that this program cannot work with.
	Status(ctx context.Context) (Status, error)
	// Close ends blocked calls with ErrClosed and releases the database. It may be called again.
	Close() error
}

// Checker is an optional ability of a Store: its own invariants, as sojourn doctor runs them.
type Checker interface {
	// Check returns up to 20 violations of each invariant; none if the store is healthy.
	Check(ctx context.Context) ([]Violation, error)
	// Checks names the invariants that Check looks at.
	Checks() []string
}

// ProgressChecker is an optional ability of a Checker: it reports progress during a long check.
type ProgressChecker interface {
	Checker
	// CheckWith is Check that calls report from time to time, in the goroutine of the check.
	CheckWith(ctx context.Context, report func(CheckProgress)) ([]Violation, error)
}

// CheckProgress says how far a check of a store has come.
type CheckProgress struct {
	Check  string // that runs
	Number int    // of the check, from 1
	Of     int    // checks
	Rows   int64  // that were read so far, by all checks
}

// Repairer is an optional ability of a Store: it recomputes data derived from the jobs, as sojourn
// doctor --repair does.
type Repairer interface {
	// Repair recomputes the sums of the weight in flight from the jobs and returns the errors that
	// it corrected. The store may be in use. Other violations that Check finds are not repaired.
	Repair(ctx context.Context) ([]Violation, error)
}

// Migrator migrates the tables of a store, from any version. It is opened by sqlite.OpenMigrator,
// postgres.OpenMigrator or store.OpenMigrator. All methods are safe for concurrent use, in several
// processes too.
type Migrator interface {
	// Schema returns the version of the tables.
	Schema(ctx context.Context) (Schema, error)
	// Plan lists the steps from the current version to another one, 0 (no tables) to Schema.Newest,
	// with their statements and the data that a step down would delete. It changes nothing.
	Plan(ctx context.Context, to int) ([]Migration, error)
	// Migrate runs these steps, each in its own transaction, and returns the steps that it ran.
	// After an error the steps before it stay applied; another process may have run some of them.
	// It asks for no confirmation: show the Plan first.
	Migrate(ctx context.Context, to int) ([]Migration, error)
	// Drift lists how tables, columns, constraints and indexes differ from the migrations.
	Drift(ctx context.Context) ([]string, error)
	// Close closes the database.
	Close() error
}

// Schema is the version of a store's tables, and whether this program can use it. A program opens
// tables of its own version, and newer ones whose Needs is not above its version; otherwise Open
// returns an error with CodeSchema.
type Schema struct {
	Found  int `json:"found"`  // 0: there are none
	Newest int `json:"newest"` // that this program knows
	Needs  int `json:"needs"`  // the least Newest of a program that may work with them
}

// Migration is one step of the schema, up or down.
type Migration struct {
	Version int      `json:"version"` // that the step leads to, or down from
	Name    string   `json:"name"`
	Down    bool     `json:"down,omitempty"`
	Needs   int      `json:"needs"` // as in Schema, after the step
	SQL     []string `json:"sql"`   // its statements, all in one transaction
	Loses   []Loss   `json:"loses,omitempty"`
}

// Loss is a table with its rows, or a column of a table, that a step down deletes.
type Loss struct {
	Table  string `json:"table"`
	Column string `json:"column,omitempty"`
	Rows   int64  `json:"rows"` // that the table has now
}

// Owner is an optional ability of a Store that detects the death of a process on its machine:
// workers whose name starts with OwnerID and a dot then lose their leases at once.
type Owner interface {
	// OwnerID names this process. It is the same for the store's whole life.
	OwnerID() string
}

// TxStore is an optional ability of a Store that shares its database with the application. It
// writes inside a transaction that the application has begun, so that jobs and the application's
// own rows are committed together or not at all. Applications call it through the typed functions
// of the store's package, such as sqlite.EnqueueTx and postgres.FinishTx, which document the type
// of tx.
//
// The application commits or rolls back the transaction. A call that fails undoes its own writes.
// If the error is Retryable, roll back and repeat the whole transaction. Both methods wait for no
// other call of this store.
type TxStore interface {
	// EnqueueTx is Store.Enqueue, all or nothing. A job without an id gets one; only the result
	// shows it.
	EnqueueTx(ctx context.Context, tx any, jobs []Job) ([]Enqueued, error)
	// FinishTx is Claimer.Finish for one outcome. nil: it is applied once the transaction is
	// committed. ErrLeaseLost: the lease is not valid, or this outcome was reported before; roll
	// back all writes of the transaction for this step.
	FinishTx(ctx context.Context, tx any, o Outcome) error
}

// Holder is an optional ability of a Store: operators hold queues, as handlers do with Hold.
type Holder interface {
	// HoldQueue stops starts in a queue for d, up to MaxHold, and replaces an earlier hold; 0 ends
	// a hold at once and without a ramp. The reason is shown. ErrNotFound: no such queue.
	HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error
}

// QueueLister is an optional ability of a Store: it lists queues in pages.
type QueueLister interface {
	// ListQueues lists the queues that the Caller in ctx may read jobs of, with counts, in the
	// order of Queues. ErrNotFound if there is no queue f.After.
	ListQueues(ctx context.Context, f QueueFilter) (QueuePage, error)
}

// InboxKeeper is an optional ability of a Store: operators handle responses that no job took.
type InboxKeeper interface {
	// EditInbox matches, retries or discards one response. It returns the result of the new
	// response, or of the discarded one. ErrNotFound if there is no such response; ErrConflict if a
	// job has it or will get it automatically.
	EditInbox(ctx context.Context, e InboxEdit) (Responded, error)
	// CountInbox counts the responses in the inbox, and recent responses by source.
	CountInbox(ctx context.Context) (InboxCounts, error)
	// NearMisses finds up to MaxNearMisses keys, of live jobs and of responses without a job, that
	// differ from key in case, separators, leading zeros or one character.
	NearMisses(ctx context.Context, kind, key string) ([]NearMiss, error)
}

// Explainer is an optional ability of a Store: it explains why a job does not run.
type Explainer interface {
	// Why evaluates the gates of the job's queue for it, as the next claim would, or ErrNotFound.
	Why(ctx context.Context, id ID) (Why, error)
	// WhyQueue evaluates the gates for the jobs that a claim would take next, or ErrNotFound.
	WhyQueue(ctx context.Context, queue string) (QueueWhy, error)
}

// WorkerKeeper is an optional ability of a Store: it lists and drains the workers that use it.
type WorkerKeeper interface {
	// Workers lists the workers seen within the last WorkerLife and those that hold leases, in the
	// order of their ids.
	Workers(ctx context.Context, f WorkerFilter) ([]WorkerStatus, error)
	// DrainWorker gives a worker no more jobs: its waiting claim and each later one return at once
	// with CodeDrained. Its running jobs continue under their leases. The drain lasts while the
	// worker keeps claiming, and cannot be undone: start another worker. Draining again is no
	// error. ErrNotFound if Workers does not list it.
	DrainWorker(ctx context.Context, worker string) error
}

// Violation is a breach of an invariant.
type Violation struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
}

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	Worker    string         // random per process start; see Owner
	Name      string         // a label such as host-pid, shown by Workers; it has no effect
	Number    int64          // rising per Worker; the same number again is the same request. 0 = never repeated
	Queues    []string       // in the order in which to look
	Kinds     []string       // only these
	Decidable []string       // kinds among them whose retry handler this worker has
	Pollable  []string       // kinds among them whose poll function this worker has; a poll step uses 1 of Capacity
	Max       int            // jobs, 1 to MaxBatch; larger is clamped
	Capacity  int64          // summed weight that the worker has room for; a job that does not fit is passed over
	Lease     time.Duration  // length of the lease: 1 s to 1 h, default 30 s
	Wait      time.Duration  // how long to wait for a job: at most MaxWait
	Share     map[string]int // weights of the queues: claims are spread in this proportion; nil = strictly in order
	// Reserve prevents starvation of jobs that are heavier than Capacity. Once such a job has been
	// ready for this long, the claim takes no job behind it, so that the worker's capacity drains
	// until the job fits. 0 = such jobs are always passed over.
	Reserve time.Duration
	// Close takes no jobs. It returns the jobs that the claim with Number has taken, if that ran,
	// and closes the number: if that claim arrives later, it takes no jobs either. A worker that
	// stops before its claim was answered uses it. Wait must be 0.
	Close bool
}

// MaxWait bounds ClaimRequest.Wait and Filter.Wait; longer is clamped.
const MaxWait = time.Minute

// Claimed is a claimed job with its lease and its time limits. Durations count from the response of
// the store; a worker subtracts its own request time.
type Claimed struct {
	Job      Job // complete, with args, checkpoint, taken responses
	Lease    Lease
	Purpose  Purpose
	LeaseFor time.Duration
	Timeout  time.Duration // left of the attempt's timeout
	Deadline time.Duration // left of the life; 0 = none
	Window   time.Duration // left until the windows close; 0 = the step need not stop then
	History  []Attempt     // the errors so far, for kinds named in Decidable
}

// Lost gives the reason why a lease is no longer valid.
type Lost struct {
	Lease  Lease  `json:"lease"`
	Reason string `json:"reason"` // one of the Lost constants
}

// Why a lease is lost.
const (
	LostEnded     = "ended"     // the sweep or the worker's own Finish has ended it
	LostCancelled = "cancelled" // an operator has ended the job
	LostTaken     = "taken"     // another worker has claimed the job since
)

// Saved is one write under a lease that leaves the job running. Empty fields change nothing.
type Saved struct {
	Lease      Lease
	Checkpoint []byte  // replaces the checkpoint, if not nil
	Progress   *string // replaces the progress text
	Key        string  // gives a job without a key its key
	Log        []LogLine
}

// LogLine is one line of a job's own log.
type LogLine struct {
	At      time.Time `json:"at"` // set by the store
	Attempt int32     `json:"attempt"`
	Level   string    `json:"level"`
	Text    string    `json:"text"`              // message and attributes, cut at MaxProgress bytes
	Dropped int64     `json:"dropped,omitempty"` // lines before this one that were dropped
}

// Finished is the result of one Outcome.
type Finished struct {
	Status FinishStatus `json:"status"`
	State  State        `json:"state"`            // of the job after it
	Reason string       `json:"reason,omitempty"` // of lost: a Lost constant
	Err    error        `json:"-"`                // of refused: an *Error
}

// FinishStatus is the result of reporting an Outcome.
type FinishStatus string

// The results of reporting an Outcome.
const (
	FinishApplied  FinishStatus = "applied"
	FinishRepeated FinishStatus = "repeated" // executed before: the same outcome under the same lease
	FinishLost     FinishStatus = "lost"     // the lease had ended; nothing changed
	FinishRefused  FinishStatus = "refused"  // the store does not accept it; the lease stays valid, report an error instead
)

// Enqueued is the result for one job of Enqueue.
type Enqueued struct {
	ID        ID    `json:"id"` // of the job: the caller's, or the one that was there before
	State     State `json:"state"`
	Duplicate bool  `json:"duplicate,omitempty"` // the job was there before
	Replaced  bool  `json:"replaced,omitempty"`
	Err       error `json:"-"` // of this item, in partial mode
}

// HistoryFilter chooses a page of a job's history.
type HistoryFilter struct {
	After int32 // the Seq of the last entry of the page before; 0 = from the first
	Limit int   // 1 to MaxFind; 0 = 100
}

// Validate checks the ranges. The error is an *Error with CodeInvalid.
func (f HistoryFilter) Validate() error {
	if f.After < 0 {
		return Invalid("after", "%d is negative", f.After)
	}
	if f.Limit < 0 || f.Limit > MaxFind {
		return Invalid("limit", "%d is out of range: 1 to %d, or 0 for 100", f.Limit, MaxFind)
	}
	return nil
}

// Attempt is one entry of a job's history: a step that ended (Epoch > 0), or a change without a
// step.
type Attempt struct {
	Seq        int32     `json:"seq"`               // from 1, with a gap where entries were dropped
	Dropped    int32     `json:"dropped,omitempty"` // entries dropped between the previous entry and this one, see MaxHistory
	Generation int32     `json:"generation"`
	Attempt    int32     `json:"attempt"`
	Epoch      int64     `json:"epoch,omitempty"`
	Purpose    Purpose   `json:"purpose,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	Outcome    string    `json:"outcome"` // an OutcomeType, or lost, timed_out, deadline, responded, cancelled, failed, redriven, edited, replaced, decided
	State      State     `json:"state"`   // of the job after it
	Reason     string    `json:"reason,omitempty"`
	Error      string    `json:"error,omitempty"`
	By         string    `json:"by,omitempty"` // the operator of a change; the response, for responded
	BeganAt    time.Time `json:"began_at,omitzero"`
	EndedAt    time.Time `json:"ended_at"`
}

// Swept counts what a sweep handled.
type Swept struct {
	Due       int `json:"due"`       // scheduled jobs that became ready
	Lost      int `json:"lost"`      // leases that had ended
	TimedOut  int `json:"timed_out"` // attempts and waits
	Deadlines int `json:"deadlines"`
	Decided   int `json:"decided"` // errored jobs that no worker claimed in time
	Unmatched int `json:"unmatched"`
	Pruned    int `json:"pruned"`  // final jobs
	Resumed   int `json:"resumed"` // resumed jobs that lost the privilege
}

// Total is the number of all.
func (s Swept) Total() int {
	return s.Due + s.Lost + s.TimedOut + s.Deadlines + s.Decided + s.Unmatched + s.Pruned + s.Resumed
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
	Bytes      int64     `json:"bytes"` // on disk
	WALBytes   int64     `json:"wal_bytes"`
	Commits    int64     `json:"commits"` // transactions that this open store has committed; a group commit counts once
}

// Throttler decides which candidates of a queue may start, after all other gates have let them
// through. It runs inside the claim's transaction, once per candidate, one after the other: it must
// be quick, must not call the store, and may be called from several goroutines.
//
// An error, a panic and an answer that takes longer than MaxThrottle close the gate for the rest of
// that pass; they are counted and shown in the queue's status and by why.
type Throttler interface {
	// Throttle decides whether c starts. Do not change or keep c or f. ctx ends with the time
	// budget.
	Throttle(ctx context.Context, c *Candidate, f *Flight) (Admission, error)
}

// ThrottlerFunc is a function that implements Throttler.
type ThrottlerFunc func(ctx context.Context, c *Candidate, f *Flight) (Admission, error)

// Throttle calls the function.
func (f ThrottlerFunc) Throttle(ctx context.Context, c *Candidate, in *Flight) (Admission, error) {
	return f(ctx, c, in)
}

// Load is a number of jobs and their summed weight.
type Load struct {
	Jobs   int64 `json:"jobs"`
	Weight int64 `json:"weight"`
}

// Flight is the load in flight in a queue, including the jobs that the current claim has started.
// Resumed jobs count as Ready.
type Flight struct {
	Now   time.Time // by the store's clock
	Limit int64     // of the queue; 0 = none
	Loads []FlightLoad
	List  []FlightJob // of them, at most MaxFlight, in no order

	at map[FlightLoad]int // the place of a load in Loads, for Count
}

// FlightLoad is the load of one kind, group and state.
type FlightLoad struct {
	Kind, Group string
	State       State // Running, Awaiting, or Ready for resumed
	Load
}

// FlightJob is one job in flight.
type FlightJob struct {
	ID          ID
	Kind, Group string
	State       State
	Weight      int32
	Priority    int32
}

// Limits of a throttler.
const (
	MaxFlight   = 1000                   // entries of Flight.List
	MaxThrottle = 250 * time.Millisecond // time for all answers of one queue in one claim
)

// Sum adds the loads for which match returns true.
func (f *Flight) Sum(match func(FlightLoad) bool) (sum Load) {
	for _, l := range f.Loads {
		if match(l) {
			sum.Jobs += l.Jobs
			sum.Weight += l.Weight
		}
	}
	return sum
}

// Count adds to the loads.
func (f *Flight) Count(kind, group string, state State, n Load) {
	at := FlightLoad{Kind: kind, Group: group, State: state}
	i, ok := f.at[at]
	if !ok {
		if f.at == nil {
			f.at = map[FlightLoad]int{}
		}
		i = len(f.Loads)
		f.at[at] = i
		f.Loads = append(f.Loads, FlightLoad{Kind: kind, Group: group, State: state})
	}
	f.Loads[i].Jobs += n.Jobs
	f.Loads[i].Weight += n.Weight
}

// Add counts a candidate that starts.
func (f *Flight) Add(c *Candidate) {
	f.Count(c.Kind, c.Group, Running, Load{1, int64(c.Weight)})
	if len(f.List) < MaxFlight {
		f.List = append(f.List, FlightJob{ID: c.ID, Kind: c.Kind, Group: c.Group, State: Running, Weight: c.Weight, Priority: c.Priority})
	}
}

// Admission is a throttler's answer about one candidate. The zero value is "not now".
type Admission struct {
	Start     bool
	NotBefore time.Time // of one that does not start: scheduled to then, at most MaxHorizon ahead; counts as no attempt
	Fail      string    // of one that does not start: it fails at once with this reason
	Text      string    // of "not now" and "not before": the text that why shows
}
