package claim

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// claimed builds the answer for running rows, in their order.
func (c *batch) claimed(rows []*jobrow.Row, carries map[sojourn.ID]*txn.JobColumns, r driver.ClaimRequest) ([]driver.Claimed, error) {
	out := make([]driver.Claimed, len(rows))
	jobs := &jobview.List{}
	decidable := map[sojourn.ID]*driver.Claimed{}
	for i, l := range rows {
		one := &out[i]
		jobview.Fill(l, &one.Job, c.Core)
		one.Lease, one.Purpose = l.Lease(), l.Purpose
		one.LeaseFor, one.Timeout, one.Deadline = lifecycle.TimeLeft(c.Tx, l.LeaseUntil), lifecycle.TimeLeft(c.Tx, l.TimeoutAt), lifecycle.TimeLeft(c.Tx, l.Deadline)
		var err error
		if one.Window, err = gate.WindowLeft(c.Tx, l); err != nil {
			return nil, err
		}
		if err = carries[l.ID].SetOn(&one.Job); err != nil {
			return nil, err
		}
		if l.Waits > 0 {
			if c.ended == nil {
				c.ended = map[sojourn.ID]int32{}
			}
			c.ended[l.ID] = l.Waits
		}
		jobs.Add(&one.Job, l.HasData, l.InHand > 0 && l.Purpose != sojourn.PurposeDecide)
		if slices.Contains(r.Decidable, l.Kind) {
			decidable[l.ID] = one
		}
	}
	err := jobview.LastErrors(c.Tx, jobs)
	if err == nil {
		err = jobview.ErrorsOf(c.Tx, decidable)
	}
	if err == nil {
		err = jobs.Fill(c.Tx)
	}
	return out, err
}
