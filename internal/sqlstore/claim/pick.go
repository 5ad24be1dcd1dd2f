package claim

import (
	"cmp"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// TextPick selects a claim's candidates, for Dialect.Over: queue, kind, how far to read, the
// greatest weight, the limit, and the run_at of jobs that may be heavier, see reserves. Where
// transactions run concurrently, only the selected rows may be locked, and rows locked by others
// must not count.
const TextPick = `select id, r1, r2, weight from (select id, r1, r2, weight, run_at_us from sj_live where queue = $1 and kind = $2 and state = 3
	order by r1, r2, id limit $3) c where weight <= $4 or run_at_us <= $6 order by r1, r2, id limit $5`

const (
	qNext = `select id, r1, r2, weight from sj_live where queue = $1 and kind = $2 and state = 3 order by r1, r2, id limit $3`
)

// pick chooses the jobs of a claim: from each queue that is not paused the first in order that fit
// and that its gates admit, then over the queues as the request says. It reads at most
// Max + gate.ScanDepth candidates a queue and kind, by index, however long the queue. The caller
// ends it with settle.
func (c *batch) pick(r driver.ClaimRequest) ([]jobrow.Candidate, error) {
	lines := make([][]jobrow.Candidate, len(r.Queues))
	c.lines = nil
	found := 0
	c.opens = 0
	for i, q := range r.Queues {
		if r.Share == nil && found >= r.Max {
			break
		}
		switch d := c.door(q); {
		case d.Paused:
			continue
		case d.Gated:
			l, err := c.svc.gates.Admit(c.Tx, q, r)
			if err = cmp.Or(err, l.Err); err != nil {
				return nil, err
			}
			c.lines = append(c.lines, l)
			if l.Opens > 0 {
				c.opens = jobrow.Earliest(c.opens, l.Opens)
			}
			if l.Heavy != nil {
				lines[i] = append(lines[i], *l.Heavy)
			}
			for _, e := range l.Admitted {
				lines[i] = append(lines[i], e.Candidate)
			}
		default:
			var err error
			if lines[i], err = c.line(q, r); err != nil {
				return nil, err
			}
			if len(lines[i]) > 0 {
				c.AssumeSettings(q, d.Layout)
			}
		}
		found += len(lines[i])
	}
	chosen, err := choose(lines, r, c.Reserves)
	if err != nil {
		return nil, err
	}
	for _, l := range c.lines {
		if chosen, err = l.Close(chosen); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// line is the head of a queue without gates, for the kinds that this worker handles.
func (c *batch) line(queue string, r driver.ClaimRequest) ([]jobrow.Candidate, error) {
	var line []jobrow.Candidate
	add := func(row sqldb.Row) error {
		line = append(line, jobrow.Candidate{ID: row.Int(0), R1: row.Int(1), R2: row.Int(2), Weight: row.Int(3)})
		return nil
	}
	for _, kind := range r.Kinds {
		if first, ok := c.prefetchedLine(queue, kind); ok {
			line = append(line, first...) // a copy, which is sorted and cut
		} else if err := c.Read(TextPick, add, queue, kind, r.Max+gate.ScanDepth, r.Capacity, r.Max, txn.ReserveBefore(c.Now, r)); err != nil {
			return nil, err
		}
		line = c.InsertsOf(line, queue, kind, r)
	}
	for _, kind := range r.Decidable {
		if !slices.Contains(r.Kinds, kind) {
			continue
		}
		if err := c.Read(txn.QPickErrored, add, queue, kind, r.Max); err != nil {
			return nil, err
		}
	}
	polls, err := gate.DuePolls(c.Tx, queue, r)
	for _, p := range polls {
		line = append(line, p.Candidate)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(line, jobrow.Before)
	return line[:min(len(line), r.Max)], nil
}

// ReadyKinds lists the kinds of a queue's ready jobs. One probe of the claim index finds each.
func ReadyKinds(t *txn.Tx, queue string) (kinds []string, err error) {
	for kind := ""; ; {
		after := kind
		if err := t.Read(`select coalesce(min(kind), '') from sj_live where queue = $1 and state = 3 and kind > $2`, func(r sqldb.Row) error {
			kind = r.Text(0)
			return nil
		}, queue, after); err != nil || kind == "" {
			return kinds, err
		}
		kinds = append(kinds, kind)
	}
}

// Front is the head of a queue in the order of claims, for all kinds and regardless of its gates.
func Front(t *txn.Tx, f sojourn.Filter) ([]sojourn.ID, error) {
	kinds, err := ReadyKinds(t, f.Queue)
	if err != nil {
		return nil, err
	}
	if f.Kind != "" {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind != f.Kind })
	}
	q, err := t.ReadQueue(f.Queue)
	if err != nil {
		return nil, err
	}
	var line []jobrow.Candidate
	if rules.Grouped(q.QueueSettings) {
		if line, err = gate.NextTurns(t, f.Queue, kinds, f.Limit); err != nil {
			return nil, err
		}
	} else {
		for _, kind := range kinds {
			if err := t.Read(qNext, func(r sqldb.Row) error {
				line = append(line, jobrow.Candidate{ID: r.Int(0), R1: r.Int(1), R2: r.Int(2), Weight: r.Int(3)})
				return nil
			}, f.Queue, kind, f.Limit); err != nil {
				return nil, err
			}
		}
	}
	due, err := dueNext(t, f, q.QueueSettings)
	if err != nil {
		return nil, err
	}
	if line = append(line, due...); !rules.Grouped(q.QueueSettings) { // else jobs that are not ready yet have no turn, and come last
		slices.SortFunc(line, jobrow.Before)
	}
	ids := make([]sojourn.ID, min(len(line), f.Limit))
	for i := range ids {
		ids[i] = sojourn.ID(line[i].ID)
	}
	return ids, nil
}

// dueNext are the jobs of a queue that the next claim makes ready before it takes any: due jobs,
// and jobs whose lease has ended.
func dueNext(t *txn.Tx, f sojourn.Filter, q sojourn.QueueSettings) (due []jobrow.Candidate, err error) {
	var rows []*jobrow.Row
	if err := t.Read(qOverdueRows, func(r sqldb.Row) error {
		l, err := t.Core.Decoder.Scan(r)
		if err == nil && l.Queue == f.Queue && (f.Kind == "" || l.Kind == f.Kind) {
			rows = append(rows, l)
		}
		return err
	}, t.Now, sweepPerClaim); err != nil {
		return nil, err
	}
	for _, l := range rows {
		e, ended, err := lifecycle.OverdueEvent(t, l, &driver.Swept{})
		if err != nil {
			return nil, err
		}
		if ended == nil {
			continue
		}
		tr, err := rules.Decide(l.Row, e)
		if err != nil {
			return nil, err
		}
		if tr.To.State == sojourn.Ready && (l.State == sojourn.Scheduled || l.State == sojourn.Running) {
			r1, r2 := rules.Rank(q, l.Priority, jobrow.Time(l.RunAt), tr.To.Resumed)
			due = append(due, jobrow.Candidate{ID: int64(l.ID), R1: r1, R2: r2, Weight: int64(tr.To.Weight)})
		}
	}
	return due, nil
}

// choose merges the queues' lines: strictly in order, or in rounds in which each queue gives as
// many as its share. A job that does not fit into the remaining capacity is skipped, unless
// reserves forbids it: then no job behind it is taken, so that room drains.
func choose(lines [][]jobrow.Candidate, r driver.ClaimRequest, reserves func(driver.ClaimRequest, int64) (bool, error)) ([]jobrow.Candidate, error) {
	n := 0
	for _, line := range lines {
		n += len(line)
	}
	out := make([]jobrow.Candidate, 0, min(n, r.Max))
	room := r.Capacity
	for more := true; more && len(out) < r.Max; {
		more = false
		for i, q := range r.Queues {
			quantum := r.Max
			if r.Share != nil {
				quantum = max(r.Share[q], 1)
			}
			for ; quantum > 0 && len(lines[i]) > 0 && len(out) < r.Max; more = true {
				c := lines[i][0]
				lines[i] = lines[i][1:]
				if c.Weight > room {
					if stop, err := reserves(r, c.ID); stop || err != nil {
						return out, err
					}
					continue
				}
				room -= c.Weight
				quantum--
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// putOffFront puts off the next jobs in line, besides those that the claim has picked: the jobs of
// a kind mostly have the same windows.
func (c *batch) putOffFront(r driver.ClaimRequest) error {
	r.Max, r.Capacity = max(r.Max, 100), math.MaxInt64
	picked, err := c.pick(r)
	if err != nil {
		return err
	}
	ids := make(sqldb.Ints, len(picked))
	for i, p := range picked {
		ids[i] = p.ID
	}
	found, err := c.Load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if l := found[sojourn.ID(id)]; l != nil {
			if _, err := gate.PutOff(c.Tx, l); err != nil {
				return err
			}
		}
	}
	return c.settle(nil)
}

// settle ends the work of pick: it tells the gates of its queues which jobs have started. A job
// outside its windows has not.
func (c *batch) settle(started []*jobrow.Row) error {
	lines := c.lines
	c.lines = nil
	for _, l := range lines {
		if err := l.RecordStarts(started); err != nil {
			return err
		}
	}
	return nil
}

// putOffRounds bounds how often one transaction searches behind the jobs that it puts off for jobs
// whose windows are open.
const putOffRounds = 10

var qOverdueRows = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.wake_at_us <= $1 and l.wake_at_us < 9223372036854775807 order by l.wake_at_us limit $2`
