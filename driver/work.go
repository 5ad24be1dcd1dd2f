package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Claimer is the part of a Store that a worker needs. All methods are safe for concurrent use.
// Extend, Save and Finish return one answer for each item, in the same order; Err of an answer is
// the refusal of this item, ErrLeaseLost if its lease is lost.
type Claimer interface {
	// Claim takes ready jobs under leases. It returns at once if there are any; otherwise it waits
	// up to r.Wait, which covers in-process wake-ups, notifications and long polls. A repeated
	// claim (same worker, same number) returns the same jobs whose leases are still valid, so a
	// lost answer loses no job. CodeDrained: see sojourn.Store.DrainWorker.
	//
	// A pattern in r.Queues stands for the queues that exist at that time, also for those made
	// during the wait; they have a random order. On behalf of an access token it stands only for
	// queues in which the token may work on all of r.Kinds. Names are not checked.
	Claim(ctx context.Context, r ClaimRequest) ([]Claimed, error)
	// Extend prolongs leases to at least now + lease.
	Extend(ctx context.Context, leases []sojourn.Lease) ([]Extended, error)
	// Save writes checkpoint, progress, key and log lines under the lease and extends it. Err of an
	// answer is nil, ErrLeaseLost, ErrConflict for the key, or an *Error with CodeInvalid,
	// CodeInvalidJSON or CodeTooLarge.
	Save(ctx context.Context, items []Saved) ([]Extended, error)
	// Finish ends steps. It is idempotent by lease and outcome.
	Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]Finished, error)
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

// Owner is an optional ability of a Store that detects the death of a process: workers whose name
// starts with OwnerID and a dot then lose their leases at once.
type Owner interface {
	// OwnerID names this process. It is the same for the store's whole life. Call it before the
	// first claim: it makes the process hold the lock that shows that it lives.
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
	EnqueueTx(ctx context.Context, tx any, jobs []sojourn.Job) ([]sojourn.Enqueued, error)
	// FinishTx is Claimer.Finish for one outcome. nil: it is applied once the transaction is
	// committed. ErrLeaseLost: the lease is not valid, or this outcome was reported before; roll
	// back all writes of the transaction for this step.
	FinishTx(ctx context.Context, tx any, o sojourn.Outcome) error
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
	Queues    []string       // in the order in which to look; names, patterns and exclusions, see ValidQueues
	Kinds     []string       // only these
	Decidable []string       // kinds among them whose retry handler this worker has
	Pollable  []string       // kinds among them whose poll function this worker has; a poll step uses 1 of Capacity
	Max       int            // jobs, 1 to MaxBatch; larger is clamped
	Capacity  int64          // summed weight that the worker has room for; a job that does not fit is passed over
	Lease     time.Duration  // length of the lease: 1 s to 1 h, default 30 s
	Wait      time.Duration  // how long to wait for a job: at most MaxWait
	Share     map[string]int // weights of the entries of Queues: claims are spread in this proportion; nil = strictly in order
	// Reserve prevents starvation of jobs that are heavier than Capacity. Once such a job has been
	// ready for this long, the claim takes no job behind it, so that the worker's capacity drains
	// until the job fits. 0 = such jobs are always passed over.
	Reserve time.Duration
	// Close takes no jobs. It returns the jobs that the claim with Number has taken, if that ran,
	// and closes the number: if that claim arrives later, it takes no jobs either. A worker that
	// stops before its claim was answered uses it. Wait must be 0.
	Close bool
}

// Claimed is a claimed job with its lease and its time limits. Durations count from the response of
// the store; a worker subtracts its own request time.
type Claimed struct {
	Job      sojourn.Job // complete, with args, checkpoint, taken responses
	Lease    sojourn.Lease
	Purpose  sojourn.Purpose
	LeaseFor time.Duration
	Timeout  time.Duration          // left of the attempt's timeout
	Deadline time.Duration          // left of the life; 0 = none
	Window   time.Duration          // left until the windows close; 0 = the step need not stop then
	History  []sojourn.HistoryEntry // the errors so far, for kinds named in Decidable
}

// Extended is the answer for one lease of Extend, and for one item of Save.
type Extended struct {
	Until  time.Time `json:"lease_until,omitzero"` // end of the lease, by the store's clock
	Reason string    `json:"reason,omitempty"`     // of a lost lease: a Lost constant
	Err    error     `json:"-"`
}

// LeaseLost returns the error of a lost lease. reason is a Lost constant.
func LeaseLost(l sojourn.Lease, reason string) *sojourn.Error {
	return &sojourn.Error{Code: sojourn.CodeLeaseLost, Index: -1, Err: sojourn.ErrLeaseLost,
		Message: fmt.Sprintf("the lease of job %d is lost: %s", l.ID, reason)}
}

// Why a lease is lost.
const (
	LostEnded     = "ended"     // the sweep or the worker's own Finish has ended it
	LostCancelled = "cancelled" // an operator has ended the job
	LostRevoked   = "revoked"   // an operator has released the job
	LostTaken     = "taken"     // another worker has claimed the job since
)

// Saved is one write under a lease that leaves the job running. Empty fields change nothing.
type Saved struct {
	Lease      sojourn.Lease
	Checkpoint []byte  // replaces the checkpoint, if not nil
	Progress   *string // replaces the progress text
	Key        string  // gives a job without a key its key
	Log        []sojourn.LogLine
}

// Finished is the result of one Outcome.
type Finished struct {
	Status FinishStatus  `json:"status"`
	State  sojourn.State `json:"state"`            // of the job after it
	Reason string        `json:"reason,omitempty"` // of lost: a Lost constant
	Err    error         `json:"-"`                // of refused: an *Error; of lost: ErrLeaseLost
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

// Swept counts what a sweep handled.
type Swept struct {
	Due       int `json:"due"`       // scheduled jobs that became ready
	Lost      int `json:"lost"`      // leases that had ended
	TimedOut  int `json:"timed_out"` // attempts and waits
	Deadlines int `json:"deadlines"`
	Decided   int `json:"decided"` // errored jobs that no worker claimed in time
	Unmatched int `json:"unmatched"`
	Pruned    int `json:"pruned"`          // final jobs
	Resumed   int `json:"resumed"`         // resumed jobs that lost the privilege
	Ticks     int `json:"ticks,omitempty"` // schedules whose ticks were handled
	// NextTick is the time until a schedule is due, so that the next sweep can come in time. 0 = no
	// schedule is due.
	NextTick time.Duration `json:"next_tick,omitempty"`
}

// Total is the number of all.
func (s Swept) Total() int {
	return s.Due + s.Lost + s.TimedOut + s.Deadlines + s.Decided + s.Unmatched + s.Pruned + s.Resumed + s.Ticks
}
