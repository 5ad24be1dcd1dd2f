package gate

import (
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Groups take turns (round robin): one job each, in the order of their names, continuing where the
// last claim stopped. The lanes index finds the next group with one probe, and the head of each
// with another, so neither the backlog of a group nor the number of groups costs anything. Only
// groups at their limit are skipped, at most as many as have jobs in flight.

// takeTurns admits jobs without weight in order, then one job of each group in turn. With Borrow, a
// second pass gives the remaining limit to groups above their share.
func (a *Admission) takeTurns() error {
	if a.Pass != nil {
		return newThrottleScan(a).run()
	}
	if err := a.critical(); err != nil {
		return err
	}
	if err := a.roundRobin(); err != nil || !a.Row.Borrow {
		return err
	}
	a.Flow.Borrow, a.checked, a.checkedIn = true, map[int64]bool{}, map[string]int{}
	for i := range a.Admitted {
		a.noteChecked(&a.Admitted[i])
	}
	return a.roundRobin()
}

// roundRobin gives turns until no job may start any more. If the first jobs of the next groups are
// all held back, e.g. by a weight that does not fit, it continues with the groups behind them.
func (a *Admission) roundRobin() error {
	turn := a.Row.Flow.Turn
	if n := len(a.Admitted); n > 0 && a.Admitted[n-1].Lane >= jobrow.LaneGroup {
		turn = a.Admitted[n-1].Lane
	}
	seen := map[string]bool{}
	for want := a.r.Max - len(a.Admitted); want > 0 && len(a.checked) < ScanDepth; want = groupsPerRead {
		if len(a.Admitted) >= a.r.Max || a.Row.Limit > 0 && a.Flow.Used >= a.Row.Limit {
			return nil
		}
		lanes, more, err := a.lanes(turn, want)
		if err != nil {
			return err
		}
		lanes = slices.DeleteFunc(lanes, func(lane string) bool { return seen[lane] })
		if len(lanes) == 0 {
			return nil
		}
		for _, lane := range lanes {
			seen[lane] = true
		}
		turn = lanes[len(lanes)-1]
		if closed, err := a.admitHeads(lanes); closed || !more || err != nil {
			return err
		}
	}
	return nil
}

// admitHeads gives one job of each group a turn, as long as the group's jobs start. closed reports
// that a gate of the whole queue is closed.
func (a *Admission) admitHeads(lanes []string) (closed bool, err error) {
	heads, err := a.heads(lanes)
	if err != nil {
		return false, err
	}
	for len(lanes) > 0 && len(a.Admitted) < a.r.Max {
		var next []string
		for _, lane := range lanes {
			if len(heads[lane]) == 0 || len(a.Admitted) >= a.r.Max {
				continue
			}
			g := a.check(&heads[lane][0])
			heads[lane] = heads[lane][1:]
			if g.Open {
				next = append(next, lane)
			} else if g.Scope == rules.ScopeQueue {
				return true, nil
			}
		}
		lanes = next // a group whose first job is held back waits with all its others: order within a group is strict
	}
	return false, nil
}

// heads reads the first jobs of each lane, in order: answerBudget for all its turns.
func (a *Admission) heads(lanes []string) (map[string][]Candidate, error) {
	asked := 0
	for _, lane := range lanes {
		asked = max(asked, a.checkedIn[lane])
	}
	deep := min((a.r.Max+len(lanes)-1)/len(lanes)+asked, a.r.Max)
	all, err := a.Source.Heads(lanes, deep)
	if err != nil {
		return nil, err
	}
	SortCandidates(all)
	heads := map[string][]Candidate{}
	for _, e := range all {
		if !a.checked[e.ID] {
			heads[e.Lane] = append(heads[e.Lane], e)
		}
	}
	return heads, nil
}

// lanes lists the next groups after turn, at most want, and wraps around to the first. more reports
// that there may be others.
func (a *Admission) lanes(turn string, want int) (ready []string, more bool, err error) {
	turn = max(turn, jobrow.BeforeGroups)
	ready, err = a.readyLanes(turn, want)
	if err != nil || len(a.Row.Shares) == 0 || a.Flow.GroupOpen("") {
		return ready, len(ready) == want, err
	}
	unnamed := func(lane string) bool { _, named := a.Row.Shares[lane[1:]]; return !named }
	if !slices.ContainsFunc(ready, unnamed) {
		return ready, len(ready) == want, nil
	}
	// Groups without a share of their own may start no job. Their number is unbounded, so the other
	// groups are looked up by their names.
	var named []string
	for group := range a.Row.Shares {
		if a.Flow.GroupOpen(group) {
			named = append(named, jobrow.LaneGroup+group)
		}
	}
	slices.Sort(named)
	at, _ := slices.BinarySearch(named, turn+"\x00")
	return slices.Concat(named[at:], named[:at]), false, nil
}

// readyLanes lists the next groups with ready jobs that are not at their limit.
func (a *Admission) readyLanes(turn string, want int) (ready []string, err error) {
	full := a.fullGroups()
	for _, part := range [][2]string{{turn, jobrow.AfterGroups}, {jobrow.BeforeGroups, turn}} {
		var found []string
		if len(ready) < want && part[0] < part[1] {
			if found, err = a.Source.Groups(part[0], part[1], full, want-len(ready)); err != nil {
				return nil, err
			}
		}
		ready = append(ready, found...)
	}
	return ready, nil
}

// fullGroups lists the lanes at their limit or share. A group without jobs in flight is at its
// limit only if it has no share at all.
func (a *Admission) fullGroups() []string {
	full := []string{}
	for group := range a.Flow.Groups {
		if !a.Flow.GroupOpen(group) {
			full = append(full, jobrow.LaneGroup+group)
		}
	}
	for group := range a.Flow.GroupFullAt {
		if a.Flow.Groups[group] == 0 && !a.Flow.GroupOpen(group) {
			full = append(full, jobrow.LaneGroup+group)
		}
	}
	return full
}

// NextTurns lists the first jobs of a queue with groups in the order in which they would start if
// all gates were open.
func NextTurns(t *txn.Tx, queue string, kinds []string, limit int) (line []jobrow.Candidate, err error) {
	row, err := t.ReadQueue(queue)
	if err != nil {
		return nil, err
	}
	row.QueueSettings = sojourn.QueueSettings{Fair: true}
	q := &queueGates{Queue: queue, now: t.Now, Row: row}
	q.Flow = rules.Flow{Queue: queue, Now: jobrow.Time(t.Now), Settings: row.QueueSettings}
	r := driver.ClaimRequest{Kinds: kinds, Max: limit, Capacity: math.MaxInt64}
	a := newAdmission(q, &sqlSource{t, queue, r}, r)
	continuing, err := a.Source.Continuing(true)
	if err != nil {
		return nil, err
	}
	a.checkInOrder(continuing)
	if err := a.takeTurns(); err != nil {
		return nil, err
	}
	for _, e := range a.Admitted {
		line = append(line, e.Candidate)
	}
	return line, nil
}
