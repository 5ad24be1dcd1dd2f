package sojourn

import (
	"math"
	"time"

	"github.com/sojourn-queue/sojourn/internal/inside"
)

// Policy is how a job's errors, losses and clocks are handled. It is resolved at enqueue (option,
// kind, queue, built-in default) and stored with the job, so that every worker in any language gets
// the same answer. A zero field takes the value of the next one in that order. To take a default
// back: None for RunTimeout, Deadline and KeepKey, Retry for OnLost and OnPanic,
// new(false) for NoExtend, LateToInbox and StopAtWindowEnd, and a list of Windows that is not nil
// and has no entries. In a stored policy everything is decided: 0 is none there.
type Policy struct {
	MaxAttempts  int32         `json:"max_attempts,omitempty"`  // errors and timeouts until failed: default 5, 1 = no retry, -1 = unlimited
	MaxCrashes   int32         `json:"max_crashes,omitempty"`   // leases that end without a report: default 3, -1 = unlimited
	RunTimeout   time.Duration `json:"run_timeout,omitempty"`   // one execution of the handler: default none; None
	Timeout      time.Duration `json:"timeout,omitempty"`       // the attempt with its waiting: default 24 h
	Deadline     time.Duration `json:"deadline,omitempty"`      // the whole life, counted from enqueue or redrive: default none; None
	DecideWithin time.Duration `json:"decide_within,omitempty"` // how long an errored job waits for its retry handler: default 5 min
	KeepKey      time.Duration `json:"keep_key,omitempty"`      // how long a final job still holds its key: default 0; None
	Backoff      Backoff       `json:"backoff,omitzero"`
	OnLost       Recovery      `json:"on_lost,omitempty"`   // a lease that ends without a report: default Retry
	OnPanic      Recovery      `json:"on_panic,omitempty"`  // a panic of the handler: default Retry
	NoExtend     *bool         `json:"no_extend,omitempty"` // strict lease: a step lasts at most one lease; new(true)
	// LateToInbox is about a response that comes while a retry waits: new(true) leaves it in the
	// inbox for the next Await. By default the retry is ready at once and has taken the response.
	LateToInbox *bool `json:"late_to_inbox,omitempty"`

	// Priority and Weight are for Kind.Policy, WithPolicy and the defaults of a queue, which set
	// those of the job. The policy of a stored job and of an edit has neither.
	Priority *int32 `json:"priority,omitempty"` // lower first, default 100; new(int32(0)) for 0
	Weight   *int32 `json:"weight,omitempty"`   // 0 to MaxWeight, default 1

	// Windows say when attempts may start: at moments at which all of them are open, and those of
	// the queue. Default always; at most 8.
	Windows []Windows `json:"windows,omitzero"`
	// StopAtWindowEnd ends the handler's context when the windows close. An error that it then
	// returns hands the job back, to continue the attempt at the next opening. Otherwise a running
	// step may continue. Steps resumed by a response are not stopped.
	StopAtWindowEnd *bool `json:"stop_at_window_end,omitempty"`
}

// Recovery is what follows when an attempt ends without a report or by a panic.
type Recovery uint8

// The recoveries.
const (
	Retry Recovery = 1 + iota // run the job again (default): a lost lease within MaxCrashes (at least once), a panic as any error
	Fail                      // fail the job: after a lost lease, its handler has run at most once
)

// None as a duration of a Policy takes a default back: no such time.
const None time.Duration = -1

// Strict reports whether a step lasts at most one lease: NoExtend.
func (p Policy) Strict() bool { return p.NoExtend != nil && *p.NoExtend }

// InboxLate reports whether a waiting retry takes no response: LateToInbox.
func (p Policy) InboxLate() bool { return p.LateToInbox != nil && *p.LateToInbox }

// Stops reports whether the end of its windows ends a step: StopAtWindowEnd.
func (p Policy) Stops() bool { return p.StopAtWindowEnd != nil && *p.StopAtWindowEnd }

// withDefaults replaces zero fields with the built-in defaults, and resolves removed defaults.
func (p Policy) withDefaults() Policy {
	for _, d := range []*time.Duration{&p.RunTimeout, &p.Deadline, &p.KeepKey} {
		*d = max(*d, 0)
	}
	pick(&p.OnLost, Retry)
	pick(&p.OnPanic, Retry)
	if !p.Strict() {
		p.NoExtend = nil
	}
	if !p.InboxLate() {
		p.LateToInbox = nil
	}
	if !p.Stops() {
		p.StopAtWindowEnd = nil
	}
	if len(p.Windows) == 0 {
		p.Windows = nil
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.MaxCrashes == 0 {
		p.MaxCrashes = DefaultMaxCrashes
	}
	if p.Timeout == 0 {
		p.Timeout = DefaultTimeout
	}
	if p.DecideWithin == 0 {
		p.DecideWithin = DefaultDecideWithin
	}
	p.Backoff = p.Backoff.withDefaults()
	return p
}

// or returns p with its zero fields set from q.
func (p Policy) or(q Policy) Policy {
	pick(&p.MaxAttempts, q.MaxAttempts)
	pick(&p.MaxCrashes, q.MaxCrashes)
	pick(&p.RunTimeout, q.RunTimeout)
	pick(&p.Timeout, q.Timeout)
	pick(&p.Deadline, q.Deadline)
	pick(&p.DecideWithin, q.DecideWithin)
	pick(&p.KeepKey, q.KeepKey)
	pick(&p.Backoff, q.Backoff)
	pick(&p.OnLost, q.OnLost)
	pick(&p.OnPanic, q.OnPanic)
	pick(&p.LateToInbox, q.LateToInbox)
	pick(&p.NoExtend, q.NoExtend)
	pick(&p.StopAtWindowEnd, q.StopAtWindowEnd)
	if p.Windows == nil {
		p.Windows = q.Windows
	}
	return p
}

// Changed returns a stored policy with the fields that an edit sets, see Edit.Policy.
func (p Policy) Changed(by *Policy) Policy {
	if by == nil {
		return p
	}
	return by.or(p).withDefaults()
}

// Explicit is a policy in which everything is said, made of a stored one: no default changes it.
func (p Policy) Explicit() Policy {
	p = p.withDefaults()
	pick(&p.RunTimeout, None)
	pick(&p.Deadline, None)
	pick(&p.KeepKey, None)
	pick(&p.NoExtend, new(false))
	pick(&p.LateToInbox, new(false))
	pick(&p.StopAtWindowEnd, new(false))
	if p.Windows == nil {
		p.Windows = []Windows{}
	}
	return p
}

func pick[T comparable](dst *T, other T) {
	var zero T
	if *dst == zero {
		*dst = other
	}
}

func (p Policy) validate() error {
	if p.Priority != nil || p.Weight != nil {
		return Invalid("policy", "the policy of a job or of an edit has no priority and no weight: set them beside the policy")
	}
	for _, c := range []struct {
		field string
		v     int32
	}{{"max_attempts", p.MaxAttempts}, {"max_crashes", p.MaxCrashes}} {
		if c.v < Unlimited {
			return Invalid(c.field, "%d is out of range: 1 to %d, -1 for unlimited, 0 for the default", c.v, math.MaxInt32)
		}
	}
	for _, c := range []struct {
		field string
		v     time.Duration
		least time.Duration
	}{{"run_timeout", p.RunTimeout, None}, {"timeout", p.Timeout, 0}, {"deadline", p.Deadline, None}, {"decide_within", p.DecideWithin, 0},
		{"keep_key", p.KeepKey, None}} {
		if c.v < c.least || c.v > MaxHorizon {
			return Invalid(c.field, "%v is out of range: 0 (the default) to 10 years", c.v)
		}
	}
	for _, c := range []struct {
		field       string
		v, greatest uint8
	}{{"on_lost", uint8(p.OnLost), uint8(Fail)}, {"on_panic", uint8(p.OnPanic), uint8(Fail)}} {
		if c.v > c.greatest {
			return Invalid(c.field, "%d is not one of its values: 0 to %d", c.v, c.greatest)
		}
	}
	if len(p.Windows) > maxSets {
		return Invalid("windows", "%d sets of windows exceed the limit of %d", len(p.Windows), maxSets)
	}
	if _, err := calendarOf(p.Windows); err != nil {
		return err
	}
	return p.Backoff.validate()
}

// Backoff is the stored delay before the next attempt: First × Factor^(n-1), at most Limit, of
// which the part Jitter is random. n counts the failures (or losses) so far, from 1. The formula is
// Effectum's with a cap; the default is full jitter with the floor First or 1 s, whichever is less.
// Safe at any n.
type Backoff struct {
	First  time.Duration `json:"first,omitempty"`  // default 5 s; -1 = no delay at all
	Factor float64       `json:"factor,omitempty"` // default 4; at least 1
	Limit  time.Duration `json:"limit,omitempty"`  // default 1 h
	Jitter float64       `json:"jitter,omitempty"` // 0 to 1; default 1, -1 = none
}

func (b Backoff) withDefaults() Backoff {
	pick(&b.First, 5*time.Second)
	pick(&b.Factor, 4)
	pick(&b.Limit, time.Hour)
	pick(&b.Jitter, 1)
	return b
}

func (b Backoff) validate() error {
	if b.First < -1 || b.First > MaxHorizon {
		return Invalid("backoff.first", "%v is out of range: -1 (no delay), 0 (default 5s) to 10 years", b.First)
	}
	if b.Limit < 0 || b.Limit > MaxHorizon {
		return Invalid("backoff.limit", "%v is out of range: 0 (default 1h) to 10 years", b.Limit)
	}
	if b.Factor != 0 && !(b.Factor >= 1 && b.Factor <= 1000) {
		return Invalid("backoff.factor", "%v is out of range: 1 to 1000, or 0 for the default 4", b.Factor)
	}
	if b.Jitter != -1 && !(b.Jitter >= 0 && b.Jitter <= 1) {
		return Invalid("backoff.jitter", "%v is out of range: 0 (the default, full) to 1, or -1 for none", b.Jitter)
	}
	return nil
}

// Delay is the wait after the n-th failure of a job. The random part is derived from id and n, so
// the same failure always waits the same time and a run can be replayed.
func (b Backoff) Delay(id ID, n int32) time.Duration {
	b = b.withDefaults()
	if b.First < 0 {
		return 0
	}
	d := float64(b.First) * math.Pow(b.Factor, float64(max(n, 1)-1)) // +Inf at large n, capped below
	d = min(d, float64(b.Limit))
	jitter := max(b.Jitter, 0)
	d = d*(1-jitter) + d*jitter*inside.Unit(uint64(id), uint64(n))
	return max(min(time.Duration(d), b.Limit), min(b.First, b.Limit, time.Second)) // above 2^53 a float64 is rounded, maybe up
}

// Verdict is the answer of a retry handler, see worker.Retry. The zero Verdict means: retry after
// the stored Backoff.
type Verdict struct {
	Final      bool          `json:"final,omitempty"`      // fail the job now
	Delay      time.Duration `json:"delay,omitempty"`      // until the next attempt; 0 = the stored Backoff; Now = at once
	RunAt      time.Time     `json:"run_at,omitzero"`      // wins over Delay
	Priority   *int32        `json:"priority,omitempty"`   // a new priority
	Checkpoint []byte        `json:"checkpoint,omitempty"` // replaces the checkpoint, if not nil
	Again      bool          `json:"again,omitempty"`      // detach the taken response, as [Again] does
}

// Now as Verdict.Delay means without any delay. It is not None, which is no delay that was asked
// for.
const Now time.Duration = math.MinInt64

// Holds.
const (
	MaxHold  = 24 * time.Hour   // longer ones are cut; the other side's word for "come back later" is no reason to stand still for days
	HoldRamp = 10 * time.Second // how long after a hold, or after the breaker has closed, starts are few
)

// Breaker is a circuit breaker: it closes a queue when the service that its jobs call seems to be
// down, and starts a few probes to detect its recovery.
type Breaker struct {
	Failures int           `json:"failures"`          // failures within Within that open it: 1 to 1,000
	Within   time.Duration `json:"within,omitempty"`  // default 1 min, 1 s to 24 h
	Open     time.Duration `json:"open,omitempty"`    // until the probes, and as long for their answers; default 30 s, 1 s to 24 h
	Probes   int           `json:"probes,omitempty"`  // that must all succeed: 1 to 100, default 1
	Reasons  []string      `json:"reasons,omitempty"` // that count; a trailing * matches any ending. Default: all but reasons of our own side
}

// Breaker defaults.
const (
	DefaultBreakerWithin = time.Minute
	DefaultBreakerOpen   = 30 * time.Second
	DefaultBreakerProbes = 1
)

// The states of a breaker: QueueStatus.Breaker.
const (
	BreakerClosed = ""          // jobs start; failures are counted
	BreakerOpen   = "open"      // nothing starts
	BreakerProbes = "half_open" // the probes are running
)
