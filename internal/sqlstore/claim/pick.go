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
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// TextPick selects a claim's candidates, for Dialect.Over: queue, kind, how far to read, the
// greatest weight, the limit, and the run_at of jobs that may be heavier (Tx.Reserves). Where
// transactions run concurrently, only the selected rows may be locked, and rows locked by others
// must not count.
const TextPick = `select id, r1, r2, weight from (select id, r1, r2, weight, run_at_us from sj_live where queue = $1 and kind = $2 and state = 3
	order by r1, r2, id limit $3) c where weight <= $4 or run_at_us <= $6 order by r1, r2, id limit $5`

// pick chooses the jobs of a claim: from each queue that is not paused the first in order that fit
// and that its gates admit, then over the queues as the request says. It reads at most Max +
// gate.ScanDepth candidates a queue and kind, by index, however long the queue. recordStarts
// follows it.
func (c *batch) pick(r driver.ClaimRequest) ([]jobrow.Candidate, error) {
	lines := make([][]jobrow.Candidate, len(r.Queues))
	c.gateClaims = nil
	found, room := 0, r.Capacity // room is what those found leave: of a queue behind them, others may fit
	c.opens = 0
	for i, q := range r.Queues {
		if r.Share == nil && found >= r.Max {
			break
		}
		switch has := c.gateOf(q); {
		case has.Paused:
			continue
		case has.Gated:
			g, err := c.claimer.gates.Admit(c.Tx, q, r)
			if err = cmp.Or(err, g.Err); err != nil {
				return nil, err
			}
			c.gateClaims = append(c.gateClaims, g)
			if g.Opens > 0 {
				c.opens = jobrow.Earliest(c.opens, g.Opens)
			}
			if g.Heavy != nil {
				lines[i] = append(lines[i], *g.Heavy)
			}
			for _, e := range g.Admitted {
				lines[i] = append(lines[i], e.Candidate)
			}
		default:
			var err error
			if lines[i], err = c.line(q, r); err != nil {
				return nil, err
			}
			if len(lines[i]) > 0 {
				c.AssumeSettings(q, has.Layout)
			}
		}
		for _, l := range lines[i] {
			if l.Weight <= room {
				found, room = found+1, room-l.Weight
			}
		}
	}
	chosen, err := choose(lines, r, c.Reserves)
	if err != nil {
		return nil, err
	}
	for _, g := range c.gateClaims {
		if chosen, err = g.Close(chosen); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// line is the head of a queue without gates, for the kinds of a claim.
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
	slices.SortFunc(line, jobrow.CompareCandidates)
	return line[:min(len(line), r.Max)], nil
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

// recordStarts tells the gates of the claim's queues which jobs have started: of those that pick
// has chosen, some may have been put off.
func (c *batch) recordStarts(started []*jobrow.Row) error {
	claims := c.gateClaims
	c.gateClaims = nil
	for _, g := range claims {
		if err := g.RecordStarts(started); err != nil {
			return err
		}
	}
	return nil
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
	return c.recordStarts(nil)
}
