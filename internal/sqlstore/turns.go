package sqlstore

import (
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// Groups take turns (round robin): one job each, in the order of their names, continuing where the
// last claim stopped. The lanes index finds the next group with one probe, and the head of each
// with another, so neither the backlog of a group nor the number of groups costs anything. Only
// groups at their limit are skipped, at most as many as have jobs in flight.

// qLanes returns the next groups with ready jobs of a kind after $3 and up to $6, without those at
// their limit. The condition that selects the index must not be a lower bound of the lane: SQLite
// would begin there, and read all jobs of the groups in between. The least lane is the first of an
// order, because PostgreSQL may read all lanes for a min() if it does not know their number.
const qLanes = `with recursive g (lane) as (
	select (select l.lane from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.lane <> '' and l.lane <> '-' and l.lane > $3 and l.lane <= $6
		order by l.lane limit 1)
	union all
	select (select l.lane from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.lane <> '' and l.lane <> '-' and l.lane > g.lane and l.lane <= $6
		order by l.lane limit 1)
	from g where g.lane is not null)
	select lane from g where lane is not null and lane not in (texts($4)) limit $5`

// TextHeads returns the first jobs of each group, for Dialect.Over: queue, kind, lanes, limit of
// each.
const TextHeads = `with t (lane) as (texts($3)) select l.id, l.r1, l.r2, l.weight, l.lane from t cross join sj_live l where l.id in
	(select h.id from sj_live h where h.queue = $1 and h.kind = $2 and h.state = 3 and h.lane <> '' and h.lane <> '-' and h.lane = t.lane and h.r1 > -2147483649
	order by h.r1, h.r2, h.id limit $4)`

// turns admits jobs without weight in order, then one job of each group in turn. With Borrow, a
// second pass gives the remaining limit to groups above their share.
func (l *gatedLine) turns() error {
	if l.pass != nil {
		return l.ahead()
	}
	if err := l.critical(); err != nil {
		return err
	}
	if err := l.round(); err != nil || !l.row.Borrow {
		return err
	}
	l.flow.Borrow, l.asked, l.askedOf = true, map[int64]bool{}, map[string]int{}
	for i := range l.admit {
		l.isAsked(&l.admit[i])
	}
	return l.round()
}

// round gives turns until no job may start any more. If the first jobs of the next groups are all
// held back, e.g. by a weight that does not fit, it continues with the groups behind them.
func (l *gatedLine) round() error {
	turn := l.row.flow.Turn
	if n := len(l.admit); n > 0 && l.admit[n-1].lane >= laneGroup {
		turn = l.admit[n-1].lane
	}
	seen := map[string]bool{}
	for want := l.r.Max - len(l.admit); want > 0 && len(l.asked) < scanDepth; want = lanesPage {
		if len(l.admit) >= l.r.Max || l.row.Limit > 0 && l.flow.Used >= l.row.Limit {
			return nil
		}
		lanes, more, err := l.lanes(turn, want)
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
		if closed, err := l.giveTurns(lanes); closed || !more || err != nil {
			return err
		}
	}
	return nil
}

// giveTurns gives one job of each group a turn, as long as the group's jobs start. closed reports
// that a gate of the whole queue is closed.
func (l *gatedLine) giveTurns(lanes []string) (closed bool, err error) {
	heads, err := l.heads(lanes)
	if err != nil {
		return false, err
	}
	for len(lanes) > 0 && len(l.admit) < l.r.Max {
		var next []string
		for _, lane := range lanes {
			if len(heads[lane]) == 0 || len(l.admit) >= l.r.Max {
				continue
			}
			g := l.ask(&heads[lane][0])
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

// lanes lists the next groups after turn, at most want, and wraps around to the first. more reports
// that there may be others.
func (l *gatedLine) lanes(turn string, want int) (ready []string, more bool, err error) {
	turn = max(turn, beforeGroups)
	ready, err = l.readyLanes(turn, want)
	if err != nil || len(l.row.Shares) == 0 || l.flow.GroupOpen("") {
		return ready, len(ready) == want, err
	}
	unnamed := func(lane string) bool { _, named := l.row.Shares[lane[1:]]; return !named }
	if !slices.ContainsFunc(ready, unnamed) {
		return ready, len(ready) == want, nil
	}
	// Groups without a share of their own may start no job. Their number is unbounded, so the other
	// groups are looked up by their names.
	var named []string
	for group := range l.row.Shares {
		if l.flow.GroupOpen(group) {
			named = append(named, laneGroup+group)
		}
	}
	slices.Sort(named)
	at, _ := slices.BinarySearch(named, turn+"\x00")
	return slices.Concat(named[at:], named[:at]), false, nil
}

// readyLanes are the next groups with ready jobs that are not at their limit.
func (l *gatedLine) readyLanes(turn string, want int) (ready []string, err error) {
	full := l.fullGroups()
	for _, part := range [][2]string{{turn, afterGroups}, {beforeGroups, turn}} {
		var found []string
		if len(ready) < want && part[0] < part[1] {
			for _, kind := range l.r.Kinds {
				if err := l.query(qLanes, func(r sqldb.Row) error { found = append(found, r.Text(0)); return nil }, l.queue, kind, part[0], full, want-len(ready), part[1]); err != nil {
					return nil, err
				}
			}
		}
		slices.Sort(found)
		ready = append(ready, slices.Compact(found)...)
	}
	return ready[:min(len(ready), want)], nil
}

// fullGroups are the lanes at their limit or share. A group without jobs in flight is at its limit
// only if it has no share at all.
func (l *gatedLine) fullGroups() sqldb.Texts {
	full := sqldb.Texts{}
	for group := range l.flow.Groups {
		if !l.flow.GroupOpen(group) {
			full = append(full, laneGroup+group)
		}
	}
	for group := range l.flow.GroupFullAt {
		if l.flow.Groups[group] == 0 && !l.flow.GroupOpen(group) {
			full = append(full, laneGroup+group)
		}
	}
	return full
}

// heads reads the first jobs of each lane, in order: enough for all its turns.
func (l *gatedLine) heads(lanes []string) (map[string][]entrant, error) {
	asked := 0
	for _, lane := range lanes {
		asked = max(asked, l.askedOf[lane])
	}
	deep := min((l.r.Max+len(lanes)-1)/len(lanes)+asked, l.r.Max)
	var all []entrant
	for _, kind := range l.r.Kinds {
		if err := l.each(sojourn.PurposeStart, &all, TextHeads, kind, sqldb.Texts(lanes), deep); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b entrant) int { return less(a.candidate, b.candidate) })
	heads := map[string][]entrant{}
	for _, e := range all {
		if !l.asked[e.id] {
			heads[e.lane] = append(heads[e.lane], e)
		}
	}
	return heads, nil
}

// nextTurns is the order in which groups would take their turns if all gates were open.
func (g *gates) nextTurns(t *tx, queue string, kinds []string, limit int) (line []candidate, err error) {
	l := g.newLine(t, queue, driver.ClaimRequest{Kinds: kinds, Max: limit, Capacity: math.MaxInt64})
	if l.row, err = t.queueRow(queue); err != nil {
		return nil, err
	}
	l.row.QueueSettings = sojourn.QueueSettings{Fair: true}
	l.flow = rules.Flow{Queue: queue, Now: at(t.now), Settings: l.row.QueueSettings}
	going, err := l.going(true)
	if err != nil {
		return nil, err
	}
	l.askInOrder(going)
	if err := l.turns(); err != nil {
		return nil, err
	}
	for _, e := range l.admit {
		line = append(line, e.candidate)
	}
	return line, nil
}
