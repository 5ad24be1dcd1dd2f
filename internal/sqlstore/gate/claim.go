package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Claim is the part of a claim that concerns one queue with gates. Its Admission has the jobs that
// may start. The caller first passes the jobs that it has chosen to Close, then those that it has
// started to RecordStarts.
type Claim struct {
	*Admission
	t     *txn.Tx
	gates *Gates
	place map[int64]int // the index of each admitted candidate, by its id
}

// newClaim is a claim that admits nothing.
func (g *Gates) newClaim(t *txn.Tx, queue string, r driver.ClaimRequest) *Claim {
	q := &queueGates{Queue: queue, now: t.Now}
	return &Claim{t: t, gates: g, Admission: newAdmission(q, &sqlSource{t, queue, r}, r)}
}

// decide reads the gates, and checks the candidates of the queue. A pause needs no further read.
func (c *Claim) decide() error {
	q, err := c.gates.read(c.t, c.Queue)
	if err != nil {
		return err
	}
	if c.restart(q); q.Flow.Settings.Paused || q.Flow.All.Paused {
		return nil
	}
	if err := c.gates.beginThrottle(c.t, c.Admission); err != nil {
		return err
	}
	defer c.End()
	if c.Pass == nil {
		return c.run()
	}
	c.cursor = c.gates.cursors.get(c.Queue)
	err = c.run()
	c.gates.cursors.set(c.Queue, c.cursor)
	return err
}

// restart discards all decisions. It keeps the time at which a gate opens.
func (c *Claim) restart(q *queueGates) {
	opens := c.Opens
	c.Admission = newAdmission(q, c.Source, c.r)
	c.Opens = opens
}

const (
	// qFreeAgain locks those of some jobs that may still start.
	qFreeAgain = `select id from sj_live where id in (ints($1)) and queue = $2 and state in (3, 5, 6) /*lock*/`
	// qSetFlow changes nothing if another transaction has changed the state of the gates.
	qSetFlow = `update sj_queue set flow = $1, max_weight = $2, gated = $3 where name = $4 and flow = $5`
)

// Close locks those of the chosen jobs that were admitted here, and returns the chosen ones without
// those that it cannot lock. It also puts off and fails jobs as the gates have decided. If Admit
// has admitted any job, the queue is locked.
func (c *Claim) Close(chosen []jobrow.Candidate) ([]jobrow.Candidate, error) {
	c.place = map[int64]int{}
	for i := range c.Admitted {
		c.place[c.Admitted[i].ID] = i
	}
	var ids sqldb.Ints
	for _, e := range chosen {
		if _, ok := c.place[e.ID]; ok {
			ids = append(ids, e.ID)
		}
	}
	if c.t.Concurrent() && len(ids) > 0 {
		free := map[int64]bool{}
		if err := c.t.Read(qFreeAgain, func(r sqldb.Row) error { free[r.Int(0)] = true; return nil }, ids, c.Queue); err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(e jobrow.Candidate) bool { _, here := c.place[e.ID]; return here && !free[e.ID] })
	}
	return chosen, c.applyMoves()
}

// applyMoves puts jobs off, and fails them, as the gates decided.
func (c *Claim) applyMoves() error {
	ids := make(sqldb.Ints, len(c.moves))
	for i, m := range c.moves {
		ids[i] = m.id
	}
	if len(ids) == 0 {
		return nil
	}
	var free sqldb.Ints
	if err := c.t.Read(qFreeAgain, func(r sqldb.Row) error { free = append(free, r.Int(0)); return nil }, ids, c.Queue); err != nil {
		return err
	}
	rows, err := c.t.Load(free)
	if err != nil {
		return err
	}
	for _, m := range c.moves {
		row := rows[sojourn.ID(m.id)]
		if row == nil || row.State != sojourn.Ready || row.Resumed {
			continue
		}
		e := rules.Event{Type: rules.EventPutOff, Delay: max(m.later.Sub(jobrow.Time(c.now)), 0)}
		if m.fail != "" {
			e = rules.Event{Type: rules.EventFail, Reason: m.fail, Error: "sojourn: the throttler of queue " + c.Queue + " failed it"}
		}
		e.Delay = min(e.Delay, sojourn.MaxHorizon)
		if err := lifecycle.ApplyEvent(c.t, row, e); err != nil {
			return err
		}
	}
	return nil
}

// RecordStarts charges the gates for the jobs that have started, and stores their state. Of the
// jobs that Close returned, the claim may have put some off.
func (c *Claim) RecordStarts(rows []*jobrow.Row) error {
	last := -1
	var started []*Candidate
	for _, row := range rows {
		if i, ok := c.place[int64(row.ID)]; ok {
			last, started = max(last, i), append(started, &c.Admitted[i])
		}
	}
	flow := c.Flow.Close()
	var err error
	if flow.Pace, err = c.charge(started); err != nil {
		return err
	}
	flow.Trouble = c.addTrouble(flow.Trouble)
	if last >= 0 && rules.Grouped(c.Row.QueueSettings) && c.Admitted[last].Lane >= jobrow.LaneGroup {
		flow.Turn = c.Admitted[last].Lane
	}
	allowed := c.Row.MaxWeight
	if limit := c.Row.Limit; limit > 0 && allowed > limit && !flow.Counting { // a lowered limit drains, and does not fill again
		allowed = max(limit, min(allowed, c.Flow.Used))
	}
	return c.saveFlow(flow, allowed)
}

// saveFlow stores the state of the gates and the weight that may be in flight, if either has
// changed: each write wakes the claims of other processes.
func (c *Claim) saveFlow(flow rules.FlowState, allowed int64) error {
	text, err := jobrow.JSONText(flow)
	same := text == c.Row.FlowText || c.Row.FlowText == "" && text == "{}"
	if err != nil || !c.Row.Found || same && allowed == c.Row.MaxWeight {
		return err
	}
	row := c.Row
	row.Flow = flow
	_, err = c.t.Write(qSetFlow, text, allowed, HasGates(&row), c.Queue, c.Row.FlowText)
	return err
}

// troubleEvery limits how often errors of a throttler are written: each write wakes the other
// processes' claims.
const troubleEvery = 10 * time.Second

// addTrouble adds the throttler's errors to the stored state of the queue.
func (c *Claim) addTrouble(was rules.Trouble) rules.Trouble {
	if c.Pass == nil {
		return was
	}
	failures := c.gates.Throttlers.addFailures(c.Queue, c.Pass.failed)
	if failures == 0 || c.Pass.last == nil || jobrow.Time(c.now).Sub(was.At).Abs() < troubleEvery {
		return was
	}
	c.t.Events.After = append(c.t.Events.After, func() { c.gates.Throttlers.addFailures(c.Queue, -failures) })
	return rules.Trouble{Count: was.Count + failures, Text: cmp.Or(firstLine(c.Pass.last), "error"), At: jobrow.Time(c.now)}
}
