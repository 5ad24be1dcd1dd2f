package server

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// maxKinds bounds the kinds and the queues of one claim.
const maxKinds = 256

type claimIn struct{ Body wire.ClaimRequest }

// defaults: a worker that states no capacity has unlimited capacity.
func (in *claimIn) defaults() { in.Body.Capacity = math.MaxInt64 }

func claim(c *call, in *claimIn) (wire.ClaimAnswer, error) {
	b := in.Body
	if len(b.Kinds) > maxKinds || len(b.Queues) > maxKinds {
		return wire.ClaimAnswer{}, sojourn.Invalid("kinds", "a claim names at most %d kinds and %d queues", maxKinds, maxKinds)
	}
	needs := func(h *holder) error {
		if slices.ContainsFunc(b.Queues, driver.IsPattern) && !h.caller.SameGrants(c.who.caller) { // with which the store resolves them
			return wire.Refusal(wire.CodeForbidden, "the grants of the token have changed during the wait; claim again")
		}
		for _, queue := range slices.DeleteFunc(slices.Clone(b.Queues), driver.IsPattern) {
			for _, kind := range b.Kinds {
				if err := h.may(access.VerbWork, queue, kind); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := needs(c.who); err != nil {
		return wire.ClaimAnswer{}, err
	}
	r := driver.ClaimRequest(b)
	r.Worker = c.who.worker(b.Worker)
	ctx, end, err := c.waiting(r.Wait, needs)
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	defer end()
	ctx, leave, err := c.claimants.Enter(ctx, r.Worker, r.Number)
	if err != nil {
		if c.cut() { // not that there is nothing: the claim before may have taken jobs
			err = draining()
		}
		return wire.ClaimAnswer{}, cmp.Or(denied(ctx), err)
	}
	c.answered = leave
	c.claimed, err = c.store.Claim(ctx, r)
	if no := denied(ctx); no != nil {
		c.giveBack() // jobs that were claimed at the moment at which the token became invalid
		return wire.ClaimAnswer{}, no
	}
	switch again := context.Cause(ctx); {
	case err == nil:
	case c.cut():
		err = nil
	case sojourn.ErrorCode(again) != "":
		err = again
	}
	return wire.ClaimAnswer{Jobs: wire.Each(c.claimed, wire.ClaimedOf)}, err
}

// cut reports whether only a drain ended the long poll. The answer is then an empty result.
func (c *call) cut() bool { return c.drained.Err() != nil && c.ctx.Err() == nil }

// giveBack releases claimed jobs that could not be delivered to the caller. Otherwise they would
// wait until their lease expires, and a crash would be counted.
func (c *call) giveBack() {
	if len(c.claimed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 10*time.Second)
	defer cancel()
	released := make([]sojourn.Outcome, len(c.claimed))
	for i, j := range c.claimed {
		released[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeReleased}
	}
	if _, err := c.store.Finish(ctx, released); err != nil {
		c.log.Warn("claimed jobs could not be given back", "jobs", len(released), "error", err)
	}
	c.claimed = nil
}

type extendIn struct{ Body wire.ExtendRequest }

func extend(c *call, in *extendIn) (wire.ExtendAnswer, error) {
	for _, l := range in.Body.Leases {
		if err := c.who.holds(l); err != nil {
			return wire.ExtendAnswer{}, err
		}
	}
	answers, err := c.store.Extend(c.ctx, in.Body.Leases)
	return wire.ExtendAnswerOf(in.Body.Leases, answers), err
}

type saveIn struct{ Body wire.SaveRequest }

func save(c *call, in *saveIn) (wire.SaveAnswer, error) {
	for _, s := range in.Body.Items {
		if err := c.who.holds(s.Lease); err != nil {
			return wire.SaveAnswer{}, err
		}
	}
	answers, err := c.store.Save(c.ctx, wire.Each(in.Body.Items, func(s wire.Saved) driver.Saved { return driver.Saved(s) }))
	return wire.SaveAnswerOf(answers), err
}

type finishIn struct{ Body wire.FinishRequest }

func finish(c *call, in *finishIn) (wire.FinishAnswer, error) {
	for i, o := range in.Body.Outcomes {
		if err := c.who.holds(o.Lease); err != nil {
			return wire.FinishAnswer{}, sojourn.AtIndex(i, err)
		}
		if o.Type == sojourn.OutcomeHold && o.Queue != "" && !c.who.everywhere(access.VerbWork) {
			if err := c.who.may(access.VerbWork, o.Queue, ""); err != nil {
				return wire.FinishAnswer{}, err
			}
		}
	}
	finished, err := c.store.Finish(c.ctx, wire.Each(in.Body.Outcomes, wire.Outcome.Domain))
	return wire.FinishAnswer{Outcomes: wire.Each(finished, wire.FinishedOf)}, err
}

type idsIn struct{ Body wire.IDsRequest }

func leaseIDs(c *call, in *idsIn) (wire.IDsAnswer, error) {
	first, err := c.store.IDs(c.ctx, in.Body.Count)
	return wire.IDsAnswer{First: first}, err
}
