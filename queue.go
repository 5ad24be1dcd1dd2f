package sojourn

import (
	"time"

	"github.com/sojourn-queue/sojourn/internal/layers"
)

// Retention says how long final jobs of a queue are kept. Completed and cancelled jobs go after an
// age or above a count; failed ones are kept until they are redriven, cancelled or purged, unless a
// cap is set. Nothing goes within IDLife of its end.
type Retention struct {
	Age         time.Duration `json:"age,omitempty"`          // completed and cancelled; default 7 days, -1 = for ever
	Count       int64         `json:"count,omitempty"`        // completed and cancelled, each; default 50,000, -1 = any number
	FailedAge   time.Duration `json:"failed_age,omitempty"`   // default 0 = for ever
	FailedCount int64         `json:"failed_count,omitempty"` // default 0 = any number
}

// AllQueues names, in Queues.Pause and Queues.Get, what holds for every queue: Paused and
// PausedKinds. No queue can have this name.
const AllQueues = "*"

// QueueSettings are what is in force in a queue, from two layers: a program declares settings with
// Client.DeclareQueue, and an operator replaces single ones with Queues.Update. Every process obeys
// a change with its next transaction. The pauses belong to no layer: see Queues.Pause.
type QueueSettings struct {
	Paused      bool     `json:"paused,omitempty"`       // hands out nothing; responses, timeouts and lease ends go on
	PausedKinds []string `json:"paused_kinds,omitempty"` // these kinds are not handed out
	// Defaults are for jobs where neither option nor kind says anything. They have no Windows.
	Defaults  Policy    `json:"defaults,omitzero"`
	Retention Retention `json:"retention,omitzero"`

	// Windows say when its jobs may start; those of the jobs must be open too. Default always.
	Windows Windows `json:"windows,omitempty"`

	// Limit bounds the summed weight of running, awaiting and resumed jobs. Below 1: no limit.
	Limit int64 `json:"limit,omitempty"`
	// ReserveAfter is how long a job may be overtaken for lack of weight before what becomes free
	// is kept for it: default 30 s, up to 24 h. It also happens after 100 claims.
	ReserveAfter time.Duration `json:"reserve_after,omitempty"`
	// MaxDepth refuses an Enqueue that would leave more ready jobs than this: CodeQueueFull,
	// retryable. 0 = any number. Next jobs are never refused.
	MaxDepth int64 `json:"max_depth,omitempty"`

	Order   string        `json:"order,omitempty"`    // default OrderPriority
	Bucket  time.Duration `json:"bucket,omitempty"`   // of OrderTime: run_at is cut to this; default 1 min, 1 s to 24 h
	AgeStep time.Duration `json:"age_step,omitempty"` // of OrderPriority: waiting this long counts as one priority; 0 = no ageing, 1 ms to 24 h

	// GroupLimit bounds the summed weight in flight of each group. Below 1 there is none; 1 with
	// jobs of weight 1 is strict FIFO per group.
	GroupLimit int64 `json:"group_limit,omitempty"`
	// Shares are the parts of Limit that groups may use, as fractions above 0 that add up to at
	// most 1. Groups without a share divide the rest.
	Shares map[string]float64 `json:"shares,omitempty"`
	Borrow bool               `json:"borrow,omitempty"` // shares that their groups leave idle may be used by others
	Fair   bool               `json:"fair,omitempty"`   // groups take turns also without GroupLimit, Shares and GroupRate

	Rate      *Rate    `json:"rate,omitempty"`       // starts of the queue
	GroupRate *Rate    `json:"group_rate,omitempty"` // starts of each group
	Breaker   *Breaker `json:"breaker,omitempty"`    // default none
	Throttle  string   `json:"throttle,omitempty"`   // a CEL rule; see package rule
	Index     []string `json:"index,omitempty"`      // paths of JSON by which jobs are found, such as args.customer; at most 8
}

// The orders in which the ready jobs of a queue start: QueueSettings.Order.
const (
	OrderPriority = "priority" // priority, then run_at
	OrderTime     = "time"     // run_at cut to the bucket, then priority
)

// Rate bounds how many jobs start per time: a bucket that holds Burst starts and gains Count of
// them each Per. In any span of time d at most Burst + Count × d / Per jobs start, over all nodes
// and restarts. Steps that only resume or decide a job are free.
type Rate struct {
	Count int64         `json:"count"`           // 1 to 1,000,000
	Per   time.Duration `json:"per"`             // 1 ms to 24 h, and at least 1 µs a start
	Burst int64         `json:"burst,omitempty"` // 1 to 1,000,000; default: what one second brings, at least 1
}

// Defaults and bounds of QueueSettings.
const (
	DefaultRetentionAge   = 7 * 24 * time.Hour
	DefaultRetentionCount = 50_000
	DefaultReserveAfter   = 30 * time.Second
	DefaultBucket         = time.Minute
	MaxLimit              = 1_000_000_000 // of Limit, GroupLimit and MaxDepth
	MaxShares             = 1000          // groups with a share
	MaxStarts             = 1_000_000     // of Rate.Count and Rate.Burst
	MaxRule               = 8 << 10       // bytes of Throttle
)

// QueueStatus is a queue with its counts.
type QueueStatus struct {
	Name      string        `json:"name"`
	Settings  QueueSettings `json:"settings"`           // in force: Overrides over Declared, and the pauses
	Declared  QueueSettings `json:"declared,omitzero"`  // by a program
	Overrides QueuePatch    `json:"overrides,omitzero"` // by operators
	Revision  int64         `json:"revision,omitempty"` // counts the changes of settings and pauses

	Counts  map[State]int64 `json:"counts"`  // by state; states without jobs are missing
	Resumed int64           `json:"resumed"` // of the ready ones
	Stalled int64           `json:"stalled"` // running with a lease past its end
	// Unhandled counts ready jobs by kind, for kinds that no worker has claimed in this queue
	// within the last day: no worker will run them.
	Unhandled map[string]int64 `json:"unhandled,omitempty"`
	InFlight  int64            `json:"in_flight"` // summed weight of running, awaiting and resumed jobs, to be compared with Settings.Limit
	// OldestReady is since when the job is ready that has been so for longest, of the first ready
	// jobs of each kind and priority; a change of the job begins anew.
	OldestReady time.Time `json:"oldest_ready,omitzero"`
	HeldUntil   time.Time `json:"held_until,omitzero"` // end of the latest hold, which may be over
	HoldReason  string    `json:"hold_reason,omitempty"`
	// Breaker is the state of the circuit breaker; BreakerUntil, unless it is closed, when the next
	// probe starts, or probes without a result are given up.
	Breaker      string    `json:"breaker,omitempty"`
	BreakerUntil time.Time `json:"breaker_until,omitzero"`
	// ThrottleErrors counts the failed answers of its throttler so far, on all nodes. ThrottleError
	// is the text of the last one.
	ThrottleErrors  int64     `json:"throttle_errors,omitempty"`
	ThrottleError   string    `json:"throttle_error,omitempty"`
	ThrottleErrorAt time.Time `json:"throttle_error_at,omitzero"`
}

// QueuePatch changes single settings for an operator. nil leaves a setting as it is; a pointer to a
// zero value says that there is none, or the default. Names are those of the JSON.
type QueuePatch struct {
	Revision     int64               `json:"revision,omitempty"` // ErrConflict unless QueueStatus.Revision is this; 0 = any
	Reset        []string            `json:"reset,omitempty"`    // these settings become the declared ones again; "*" = all
	Defaults     *Policy             `json:"defaults,omitempty"`
	Retention    *Retention          `json:"retention,omitempty"`
	Windows      *Windows            `json:"windows,omitempty"`
	Limit        *int64              `json:"limit,omitempty"`
	ReserveAfter *time.Duration      `json:"reserve_after,omitempty"`
	MaxDepth     *int64              `json:"max_depth,omitempty"`
	Order        *string             `json:"order,omitempty"`
	Bucket       *time.Duration      `json:"bucket,omitempty"`
	AgeStep      *time.Duration      `json:"age_step,omitempty"`
	GroupLimit   *int64              `json:"group_limit,omitempty"`
	Shares       *map[string]float64 `json:"shares,omitempty"`
	Borrow       *bool               `json:"borrow,omitempty"`
	Fair         *bool               `json:"fair,omitempty"`
	Rate         *Rate               `json:"rate,omitempty"`
	GroupRate    *Rate               `json:"group_rate,omitempty"`
	Breaker      *Breaker            `json:"breaker,omitempty"`
	Throttle     *string             `json:"throttle,omitempty"`
	Index        *[]string           `json:"index,omitempty"`
}

// Fields returns the names of the settings that p sets.
func (p QueuePatch) Fields() []string { return layers.Names(p) }

// ForgetOptions are the options of Queues.Forget. The zero value removes an empty queue.
type ForgetOptions struct {
	Force  bool // cancel and purge the jobs, and delete the schedules into the queue
	DryRun bool // with Force: change nothing, and only count
	// Dependents says what becomes of blocked jobs of other queues that would wait for ever:
	// DependentsCancel or DependentsRelease; "" = refuse (ErrConflict). Other dependents follow
	// OnFailure of their edge.
	Dependents string
	By         string // the operator, for the history; default that of Client.As
	Reason     string // why, for the history and for Job.Reason; default "queue forgotten"
}

// Forgotten says what Queues.Forget has done; after a dry run, what it would do.
type Forgotten struct {
	Cancelled int64 `json:"cancelled"` // live jobs
	Purged    int64 `json:"purged"`    // jobs that were deleted, cancelled ones included
	Schedules int64 `json:"schedules"` // schedules that were deleted
	// Young counts jobs that have ended and stay for now: the enqueue of a job may be repeated for
	// IDLife, and would run it again. Call Forget again at YoungUntil.
	Young      int64     `json:"young"`
	YoungUntil time.Time `json:"young_until,omitzero"`
	Gone       bool      `json:"gone"` // the queue was removed
	More       bool      `json:"more"` // of Store.ForgetQueue: call it again
}

// add adds the answer of a further slice.
func (f *Forgotten) add(g Forgotten) {
	f.Cancelled, f.Purged, f.Schedules = f.Cancelled+g.Cancelled, f.Purged+g.Purged, f.Schedules+g.Schedules
	f.Young, f.YoungUntil, f.Gone = g.Young, g.YoungUntil, g.Gone
}
