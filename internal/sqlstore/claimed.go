package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
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

const qErrors = `select ` + historyColumns + `, job from sj_history /*, each*/ where job = each($1 bigint) and generation = each($2 bigint) and ` + endedInError + `
		order by job, seq`

// errorsOf reads the error histories of the jobs' generations, for retry policies.
func (t *tx) errorsOf(jobs map[sojourn.ID]*driver.Claimed) error {
	var ids, generations sqldb.Ints
	for id, c := range jobs {
		ids, generations = append(ids, int64(id)), append(generations, int64(c.Job.Generation))
	}
	return t.each(qErrors, func(r sqldb.Row) error {
		c := jobs[sojourn.ID(r.Int(historyCount))]
		c.History = append(c.History, scanHistory(r))
		return nil
	}, ids, generations)
}
