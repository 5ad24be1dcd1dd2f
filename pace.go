package sojourn

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// PaceState is the state of a queue's rate, holds and breaker. It is stored with the queue, so it is
// the same on all nodes and after a restart. Its methods are pure.
type PaceState Pace

// rampSteps: in the first tenth of the ramp one job starts, in each following one twice as many.
const rampSteps = 10

// rampRoom says how many jobs may have started in the time since a hold has ended.
func rampRoom(since time.Duration) int64 {
	if since < 0 || since >= HoldRamp {
		return math.MaxInt64
	}
	return 1<<(since/(HoldRamp/rampSteps)+1) - 1
}

// ownReasons say nothing about the other side.
var ownReasons = []string{ReasonLeaseLost, ReasonPanic, ReasonUndecodable, ReasonKeyConflict, ReasonDeadline}

// filled returns a breaker with its defaults; the zero Breaker for none.
func filled(b *Breaker) Breaker {
	if b == nil {
		return Breaker{}
	}
	c := *b
	c.Within = cmp.Or(c.Within, DefaultBreakerWithin)
	c.Open = cmp.Or(c.Open, DefaultBreakerOpen)
	c.Probes = cmp.Or(c.Probes, DefaultBreakerProbes)
	return c
}

// Counts reports whether a breaker counts a failure with this reason: whether it speaks against the other side.
func Counts(b Breaker, reason string) bool {
	if len(b.Reasons) == 0 {
		return !slices.Contains(ownReasons, reason)
	}
	return slices.ContainsFunc(b.Reasons, func(r string) bool {
		begin, any := strings.CutSuffix(r, "*")
		return reason == r || any && strings.HasPrefix(reason, begin)
	})
}

// Hold closes the queue until then; a longer hold stays.
func (f PaceState) Hold(until int64, reason string) PaceState {
	if until > f.HoldUntil {
		f.HoldUntil, f.HoldReason, f.RampFrom, f.RampStarts = until, Cut(reason, MaxReason), until, 0
	}
	return f
}

// Unhold ends a hold at once, without a ramp.
func (f PaceState) Unhold() PaceState {
	f.HoldUntil, f.HoldReason, f.RampFrom, f.RampStarts = 0, "", 0, 0
	return f
}

// Failed counts a failure of a step that began then (0 = unknown, such as a timeout of a waiting
// job).
func (f PaceState) Failed(setting *Breaker, reason string, began, now int64) PaceState {
	b := filled(setting)
	if b.Failures == 0 || !Counts(b, reason) {
		return f
	}
	switch {
	case f.Mode == BreakerClosed:
		recent := slices.DeleteFunc(slices.Clone(f.Failures), func(at int64) bool { return at <= now-b.Within.Microseconds() })
		f.Failures = append(recent, now)
		if len(f.Failures) >= b.Failures {
			f = f.open(b, now)
		}
	case f.Mode == BreakerProbes && began >= f.Since && began > 0:
		f = f.open(b, now)
	}
	return f
}

func (f PaceState) open(b Breaker, now int64) PaceState {
	f.Mode, f.Since, f.Until, f.Probes, f.Answered, f.Failures = BreakerOpen, now, now+b.Open.Microseconds(), 0, 0, nil
	return f
}

// Succeeded tells the breaker that a step which began then has got an answer. Only probes matter.
func (f PaceState) Succeeded(setting *Breaker, began, now int64) PaceState {
	b := filled(setting)
	if f.Mode != BreakerProbes || began < f.Since || began == 0 {
		return f
	}
	f.Answered++
	if f.Answered >= b.Probes {
		f.Mode, f.Since, f.Until, f.Probes, f.Answered = BreakerClosed, 0, 0, 0, 0
		f.RampFrom, f.RampStarts = now, 0
	}
	return f
}

// HoldRoom says how many jobs hold and ramp let start now and, if none, when the next may.
func (f PaceState) HoldRoom(now int64) (starts, next int64) {
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
		step := HoldRamp / rampSteps
		next = f.RampFrom + ((since/step + 1) * step).Microseconds()
	}
	return starts, next
}

// BreakerRoom returns how many jobs may start now and, if none, when the next may.
func (f PaceState) BreakerRoom(setting *Breaker, now int64) (starts, next int64) {
	b := filled(setting)
	switch {
	case b.Failures == 0 || f.Mode == BreakerClosed:
		return math.MaxInt64, 0
	case now >= f.Until: // the probes, or new ones instead of those without a result
		return int64(b.Probes), 0
	case f.Mode == BreakerProbes && f.Probes < b.Probes:
		return int64(b.Probes - f.Probes), 0
	}
	return 0, f.Until
}

// Started counts starts, at most the number that Rate.Room, HoldRoom and BreakerRoom allowed.
func (f PaceState) Started(r *Rate, setting *Breaker, starts, now int64) PaceState {
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
	if b.Failures > 0 && f.Mode != BreakerClosed {
		if now >= f.Until {
			f.Mode, f.Since, f.Until, f.Probes, f.Answered = BreakerProbes, now, now+b.Open.Microseconds(), 0, 0
		}
		f.Probes += int(starts)
	}
	return f
}
