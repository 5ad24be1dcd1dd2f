package rules

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Pace is the state of a queue's rate, holds and breaker. It is stored with the queue, so it is the
// same on all nodes and after a restart. Its methods are pure. Times are microseconds since 1970 by
// the store's clock; 0 = none.
type Pace struct {
	RateFullAt int64   `json:"rate_full_at_ns,omitempty"` // see Rate.Room
	HoldUntil  int64   `json:"hold_until_us,omitempty"`
	HoldReason string  `json:"hold_reason,omitempty"`
	RampFrom   int64   `json:"ramp_from_us,omitempty"` // when the hold ends or ended, or the breaker closed
	RampStarts int64   `json:"ramp_starts,omitempty"`
	Mode       string  `json:"breaker,omitempty"`
	Since      int64   `json:"breaker_since_us,omitempty"`
	Until      int64   `json:"breaker_until_us,omitempty"` // open: the first probe; half-open: unanswered probes are given up
	Probes     int     `json:"probes,omitempty"`           // started
	Answered   int     `json:"answered,omitempty"`         // of them, without a failure
	Failures   []int64 `json:"failures_us,omitempty"`      // that count, while closed
}

// rampSteps: in the first tenth of the ramp one job starts, in each following one twice as many.
const rampSteps = 10

// rampRoom says how many jobs may have started in the time since a hold has ended.
func rampRoom(since time.Duration) int64 {
	if since < 0 || since >= sojourn.HoldRamp {
		return math.MaxInt64
	}
	return 1<<(since/(sojourn.HoldRamp/rampSteps)+1) - 1
}

// ownReasons say nothing about the other side.
var ownReasons = []string{sojourn.ReasonLeaseLost, sojourn.ReasonPanic, sojourn.ReasonUndecodable, sojourn.ReasonKeyConflict, sojourn.ReasonDeadline}

// filled returns a breaker with its defaults; the zero Breaker for none.
func filled(b *sojourn.Breaker) sojourn.Breaker {
	if b == nil {
		return sojourn.Breaker{}
	}
	c := *b
	c.Within = cmp.Or(c.Within, sojourn.DefaultBreakerWithin)
	c.Open = cmp.Or(c.Open, sojourn.DefaultBreakerOpen)
	c.Probes = cmp.Or(c.Probes, sojourn.DefaultBreakerProbes)
	return c
}

// Counts reports whether a breaker counts a failure with this reason: whether it speaks against the
// other side.
func Counts(b sojourn.Breaker, reason string) bool {
	if len(b.Reasons) == 0 {
		return !slices.Contains(ownReasons, reason)
	}
	return slices.ContainsFunc(b.Reasons, func(r string) bool {
		begin, any := strings.CutSuffix(r, "*")
		return reason == r || any && strings.HasPrefix(reason, begin)
	})
}

// Hold closes the queue until then; a longer hold stays.
func (f Pace) Hold(until int64, reason string) Pace {
	if until > f.HoldUntil {
		f.HoldUntil, f.HoldReason, f.RampFrom, f.RampStarts = until, sojourn.Cut(reason, sojourn.MaxReason), until, 0
	}
	return f
}

// Unhold ends a hold at once, without a ramp.
func (f Pace) Unhold() Pace {
	f.HoldUntil, f.HoldReason, f.RampFrom, f.RampStarts = 0, "", 0, 0
	return f
}

// Failed counts a failure of a step that began then (0 = unknown, such as a timeout of a waiting
// job).
func (f Pace) Failed(setting *sojourn.Breaker, reason string, began, now int64) Pace {
	b := filled(setting)
	if b.Failures == 0 || !Counts(b, reason) {
		return f
	}
	switch {
	case f.Mode == sojourn.BreakerClosed:
		recent := slices.DeleteFunc(slices.Clone(f.Failures), func(at int64) bool { return at <= now-b.Within.Microseconds() })
		f.Failures = append(recent, now)
		if len(f.Failures) >= b.Failures {
			f = f.open(b, now)
		}
	case f.Mode == sojourn.BreakerProbes && began >= f.Since && began > 0:
		f = f.open(b, now)
	}
	return f
}

func (f Pace) open(b sojourn.Breaker, now int64) Pace {
	f.Mode, f.Since, f.Until, f.Probes, f.Answered, f.Failures = sojourn.BreakerOpen, now, now+b.Open.Microseconds(), 0, 0, nil
	return f
}

// Succeeded tells the breaker that a step which began then has got an answer. Only probes matter.
func (f Pace) Succeeded(setting *sojourn.Breaker, began, now int64) Pace {
	b := filled(setting)
	if f.Mode != sojourn.BreakerProbes || began < f.Since || began == 0 {
		return f
	}
	f.Answered++
	if f.Answered >= b.Probes {
		f.Mode, f.Since, f.Until, f.Probes, f.Answered = sojourn.BreakerClosed, 0, 0, 0, 0
		f.RampFrom, f.RampStarts = now, 0
	}
	return f
}

// HoldRoom says how many jobs hold and ramp let start now and, if none, when the next may.
func (f Pace) HoldRoom(now int64) (starts, next int64) {
	switch {
	case now < f.HoldUntil:
		return 0, f.HoldUntil
	case f.RampFrom == 0:
		return math.MaxInt64, 0
	}
	since := time.Duration(now-f.RampFrom) * time.Microsecond
	room := rampRoom(since)
	if room == math.MaxInt64 {
		return room, 0
	}
	starts = max(room-f.RampStarts, 0)
	if starts == 0 {
		step := sojourn.HoldRamp / rampSteps
		next = f.RampFrom + ((since/step + 1) * step).Microseconds()
	}
	return starts, next
}

// BreakerRoom returns how many jobs may start now and, if none, when the next may.
func (f Pace) BreakerRoom(setting *sojourn.Breaker, now int64) (starts, next int64) {
	b := filled(setting)
	switch {
	case b.Failures == 0 || f.Mode == sojourn.BreakerClosed:
		return math.MaxInt64, 0
	case now >= f.Until: // the probes, or new ones instead of those without a result
		return int64(b.Probes), 0
	case f.Mode == sojourn.BreakerProbes && f.Probes < b.Probes:
		return int64(b.Probes - f.Probes), 0
	}
	return 0, f.Until
}

// Started counts starts, at most the number that Rate.Room, HoldRoom and BreakerRoom allowed.
func (f Pace) Started(r *sojourn.Rate, setting *sojourn.Breaker, starts, now int64) Pace {
	b := filled(setting)
	if starts == 0 {
		return f
	}
	f.RateFullAt = RateTake(r, f.RateFullAt, now*1000, starts)
	if f.RampFrom > 0 {
		f.RampStarts += starts
		if rampRoom(time.Duration(now-f.RampFrom)*time.Microsecond) == math.MaxInt64 {
			f = f.Unhold()
		}
	}
	if b.Failures > 0 && f.Mode != sojourn.BreakerClosed {
		if now >= f.Until {
			f.Mode, f.Since, f.Until, f.Probes, f.Answered = sojourn.BreakerProbes, now, now+b.Open.Microseconds(), 0, 0
		}
		f.Probes += int(starts)
	}
	return f
}
