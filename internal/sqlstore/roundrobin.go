package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// Groups take turns (round robin): one job each, in the order of their names, continuing where the
// last claim stopped. The lanes index finds the next group with one probe, and the head of each
// with another, so neither the backlog of a group nor the number of groups costs anything. Only
// groups at their limit are skipped, at most as many as have jobs in flight.

// fullGroups are the lanes at their limit or share. A group without jobs in flight is at its limit
// only if it has no share at all.
func (a *admission) fullGroups() []string {
	full := []string{}
	for group := range a.flow.Groups {
		if !a.flow.GroupOpen(group) {
			full = append(full, laneGroup+group)
		}
	}
	for group := range a.flow.GroupFullAt {
		if a.flow.Groups[group] == 0 && !a.flow.GroupOpen(group) {
			full = append(full, laneGroup+group)
		}
	}
	return full
}

// heads reads the first jobs of each lane, in order: enough for all its turns.
func (a *admission) heads(lanes []string) (map[string][]gateCandidate, error) {
	asked := 0
	for _, lane := range lanes {
		asked = max(asked, a.askedOf[lane])
	}
	deep := min((a.r.Max+len(lanes)-1)/len(lanes)+asked, a.r.Max)
	all, err := a.source.Heads(lanes, deep)
	if err != nil {
		return nil, err
	}
	sortCandidates(all)
	heads := map[string][]gateCandidate{}
	for _, e := range all {
		if !a.asked[e.id] {
			heads[e.lane] = append(heads[e.lane], e)
		}
	}
	return heads, nil
}

// lanes lists the next groups after turn, at most want, and wraps around to the first. more reports
// that there may be others.
func (a *admission) lanes(turn string, want int) (ready []string, more bool, err error) {
	turn = max(turn, beforeGroups)
	ready, err = a.readyLanes(turn, want)
	if err != nil || len(a.row.Shares) == 0 || a.flow.GroupOpen("") {
		return ready, len(ready) == want, err
	}
	unnamed := func(lane string) bool { _, named := a.row.Shares[lane[1:]]; return !named }
	if !slices.ContainsFunc(ready, unnamed) {
		return ready, len(ready) == want, nil
	}
	// Groups without a share of their own may start no job. Their number is unbounded, so the other
	// groups are looked up by their names.
	var named []string
	for group := range a.row.Shares {
		if a.flow.GroupOpen(group) {
			named = append(named, laneGroup+group)
		}
	}
	slices.Sort(named)
	at, _ := slices.BinarySearch(named, turn+"\x00")
	return slices.Concat(named[at:], named[:at]), false, nil
}

// readyLanes are the next groups with ready jobs that are not at their limit.
func (a *admission) readyLanes(turn string, want int) (ready []string, err error) {
	full := a.fullGroups()
	for _, part := range [][2]string{{turn, afterGroups}, {beforeGroups, turn}} {
		var found []string
		if len(ready) < want && part[0] < part[1] {
			if found, err = a.source.Groups(part[0], part[1], full, want-len(ready)); err != nil {
				return nil, err
			}
		}
		ready = append(ready, found...)
	}
	return ready, nil
}

// takeTurns admits jobs without weight in order, then one job of each group in turn. With Borrow, a
// second pass gives the remaining limit to groups above their share.
func (a *admission) takeTurns() error {
	if a.pass != nil {
		return newThrottleScan(a).run()
	}
	if err := a.critical(); err != nil {
		return err
	}
	if err := a.roundRobin(); err != nil || !a.row.Borrow {
		return err
	}
	a.flow.Borrow, a.asked, a.askedOf = true, map[int64]bool{}, map[string]int{}
	for i := range a.admit {
		a.noteAsked(&a.admit[i])
	}
	return a.roundRobin()
}

// admitHeads gives one job of each group a turn, as long as the group's jobs start. closed reports
// that a gate of the whole queue is closed.
func (a *admission) admitHeads(lanes []string) (closed bool, err error) {
	heads, err := a.heads(lanes)
	if err != nil {
		return false, err
	}
	for len(lanes) > 0 && len(a.admit) < a.r.Max {
		var next []string
		for _, lane := range lanes {
			if len(heads[lane]) == 0 || len(a.admit) >= a.r.Max {
				continue
			}
			g := a.ask(&heads[lane][0])
			heads[lane] = heads[lane][1:]
			if g.Open {
				next = append(next, lane)
			} else if g.Scope == sojourn.ScopeQueue {
				return true, nil
			}
		}
		lanes = next // a group whose first job is held back waits with all its others: order within a group is strict
	}
	return false, nil
}

// roundRobin gives turns until no job may start any more. If the first jobs of the next groups are
// all held back, e.g. by a weight that does not fit, it continues with the groups behind them.
func (a *admission) roundRobin() error {
	turn := a.row.flow.Turn
	if n := len(a.admit); n > 0 && a.admit[n-1].lane >= laneGroup {
		turn = a.admit[n-1].lane
	}
	seen := map[string]bool{}
	for want := a.r.Max - len(a.admit); want > 0 && len(a.asked) < scanDepth; want = lanesPage {
		if len(a.admit) >= a.r.Max || a.row.Limit > 0 && a.flow.Used >= a.row.Limit {
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
