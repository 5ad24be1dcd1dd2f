package claim

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// qTakeRows locks the rows of picked jobs, unless others have, and reads the data for their worker.
var qTakeRows = `select ` + jobrow.LiveColumns + `, ` + txn.JobColumnList + `, j.args from sj_live l join sj_job j on j.id = l.id
		where l.id in (ints($1)) order by l.id /*lock l*/`

// take starts the picked jobs and returns them with the data for their worker. Jobs that have
// changed since they were picked, or are outside their windows, do not start; none may be left.
// last is the number of the worker's last claim.
func (c *batch) take(r driver.ClaimRequest, last int64, picked []jobrow.Candidate) ([]driver.Claimed, error) {
	ids := make(sqldb.Ints, len(picked))
	for i, p := range picked {
		ids[i] = p.ID
	}
	found, columns, rest := c.takePrefetched(ids)
	if rest = c.TakeInserts(rest, found, columns); len(rest) > 0 {
		err := c.LoadInto(found, qTakeRows, rest, func(r sqldb.Row, l *jobrow.Row) error {
			columns[l.ID] = txn.ScanJobColumns(r, jobrow.LiveColumnCount)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var starts []*jobrow.Row
	for _, id := range ids {
		was := found[sojourn.ID(id)]
		if was == nil || was.State == sojourn.Awaiting && !gate.MayPoll(c.Tx, was, r) {
			continue
		}
		if put, err := gate.PutOff(c.Tx, was); err != nil {
			return nil, err
		} else if !put {
			starts = append(starts, was)
		}
	}
	if err := c.recordStarts(starts); err != nil {
		return nil, err
	}
	rows := make([]*jobrow.Row, 0, len(starts))
	for _, was := range starts {
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, was.Kind)})
		if err != nil {
			return nil, err
		}
		l := was
		if !c.bulk.has(was) {
			l = new(jobrow.Row)
			*l = *was
		}
		back := was.BeganAt // before lease, because a bulk-started row is changed in place
		l.Row = tr.To
		lease(c.Tx, was, l, r)
		lifecycle.MeasureStart(c.Tx, l, back)
		started, err := c.noteBulkStarted(l)
		if err == nil && !started {
			err = c.SaveStart(was, l)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, l)
	}
	if len(rows) > 0 {
		note := c.registerWorker
		if r.Number > 0 {
			note = func(r driver.ClaimRequest) error { return c.saveClaim(r, last, rows) }
		}
		if err := note(r); err != nil {
			return nil, err
		}
	}
	return c.claimed(rows, columns, r)
}

// lease gives the row a new epoch and sets its clocks. A start restarts the attempt's timeout. A
// resume continues the attempt's clock, which stood still while the job was ready. If that has run
// out while a response waited for the end of a poll step, the handler of the response gets one
// lease (docs/concepts.md#the-clocks).
func lease(t *txn.Tx, was, l *jobrow.Row, r driver.ClaimRequest) {
	l.Epoch, l.Worker, l.BeganAt = was.Epoch+1, r.Worker, max(t.Now, was.UpdatedAt)
	l.LeaseUs, l.LeaseUntil = r.Lease.Microseconds(), t.Now+r.Lease.Microseconds()
	t.Core.Leasing.Store(true)
	switch l.Purpose {
	case sojourn.PurposeStart:
		l.TimeoutAt = t.Now + l.Policy.Timeout.Microseconds()
	case sojourn.PurposeResume:
		if l.TimeoutAt += t.Now - was.ResumedAt; l.TimeoutAt <= t.Now {
			l.TimeoutAt = t.Now + min(l.LeaseUs, l.Policy.Timeout.Microseconds())
		}
	}
	l.ResumedAt, l.DecideBy, l.PollAt = 0, 0, 0
}

// claimed builds the answer for running rows, in their order.
func (c *batch) claimed(rows []*jobrow.Row, columns map[sojourn.ID]*txn.JobColumns, r driver.ClaimRequest) ([]driver.Claimed, error) {
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
		if err = columns[l.ID].SetOn(&one.Job); err != nil {
			return nil, err
		}
		if l.Waits > 0 {
			if c.waits == nil {
				c.waits = map[sojourn.ID]int32{}
			}
			c.waits[l.ID] = l.Waits
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
