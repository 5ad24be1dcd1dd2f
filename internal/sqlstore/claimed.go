package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// claimed builds the answer for running rows, in their order.
func (c *claims) claimed(rows []*live, carries map[sojourn.ID]*carried, r driver.ClaimRequest) ([]driver.Claimed, error) {
	out := make([]driver.Claimed, len(rows))
	jobs := &jobs{}
	decidable := map[sojourn.ID]*driver.Claimed{}
	for i, l := range rows {
		one := &out[i]
		l.job(&one.Job, c.s)
		one.Lease, one.Purpose = l.leaseOf(), l.Purpose
		one.LeaseFor, one.Timeout, one.Deadline = c.left(l.leaseUntil), c.left(l.timeoutAt), c.left(l.deadline)
		var err error
		if one.Window, err = c.windowLeft(l); err != nil {
			return nil, err
		}
		if err = carries[l.ID].give(&one.Job); err != nil {
			return nil, err
		}
		if l.Waits > 0 {
			if c.ended == nil {
				c.ended = map[sojourn.ID]int32{}
			}
			c.ended[l.ID] = l.Waits
		}
		jobs.add(&one.Job, l.hasData, l.InHand > 0 && l.Purpose != sojourn.PurposeDecide)
		if slices.Contains(r.Decidable, l.kind) {
			decidable[l.ID] = one
		}
	}
	err := c.lastErrors(jobs)
	if err == nil {
		err = c.errorsOf(decidable)
	}
	if err == nil {
		err = c.fill(jobs)
	}
	return out, err
}
