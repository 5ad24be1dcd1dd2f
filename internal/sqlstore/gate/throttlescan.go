package gate

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
)

// A throttler may refuse any job for a reason of its own, so in its queue a refused job does not
// block the jobs behind it. Groups take turns. A claim checks the first job of as many groups as it
// can, and then a few further jobs of each group in turn. It stops after maxChecked jobs, or when
// the throttler has used up its time, and saves a cursor. The next claim starts with the first
// groups in turn, then continues at the cursor. So each ready job is checked after a bounded number
// of claims, however many before it are refused.
const (
	maxChecked    = ScanDepth // jobs checked in one claim, half of them the first of their groups
	jobsPerTurn   = 10        // jobs of one group before the next group has its turn
	jobsPerRead   = 50        // of a group
	groupsPerRead = 100
	maxGroupReads = 50               // reads of further jobs of a group in one claim: each costs two queries
	recheckAfter  = int64(1_000_000) // µs after which a refused job is checked again: a rule may depend on the time
	continueAfter = int64(100_000)   // µs after which a claim that did not reach the end continues
)

// scanCursor is where a claim from a queue with a throttler has stopped. It lives in this process
// only.
type scanCursor struct {
	heads string                      // the last group whose first job was checked
	deep  string                      // the last group of which further jobs were checked
	at    map[string]jobrow.Candidate // lane → the last checked job, of groups that were not read to the end
}

// scanCursors are the cursors of all queues. Safe for concurrent use.
type scanCursors struct {
	mu sync.Mutex
	of map[string]scanCursor
}

func (c *scanCursors) get(queue string) scanCursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[queue]
}

func (c *scanCursors) set(queue string, cursor scanCursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]scanCursor{}
	}
	c.of[queue] = cursor
}

// throttleScan checks the jobs of a queue with a throttler, in one claim.
type throttleScan struct {
	*Admission
	reads int        // of further jobs of groups
	was   scanCursor // of the last claim
	next  scanCursor
}

// newThrottleScan begins at the cursor of the admission.
func newThrottleScan(a *Admission) *throttleScan {
	was := a.cursor
	return &throttleScan{Admission: a, was: was, next: scanCursor{heads: was.heads, deep: was.deep, at: map[string]jobrow.Candidate{}}}
}

// groupScan is one group in a claim.
type groupScan struct {
	lane    string
	list    []Candidate      // the next jobs, as read
	last    jobrow.Candidate // the last job that was read
	checked jobrow.Candidate // the last job that was checked
	more    bool             // there may be more jobs behind list

	jumped bool             // it has continued at the cursor of the last claim
	first  jobrow.Candidate // where it was before; zero once the jobs in between are being read
}

// run checks jobs of a queue with a throttler until the claim is full, it has checked as many as it
// may, or no job is left.
func (s *throttleScan) run() error {
	starting, refused, err := s.checkHeads()
	for err == nil && len(starting) > 0 && s.mayCheck(maxChecked) { // one job of each group a turn, as long as the group's jobs start
		var next []*groupScan
		for _, w := range starting {
			g, some, failed := s.checkNext(w)
			if failed != nil {
				return failed
			}
			switch {
			case some && g.Open:
				next = append(next, w)
			case some && g.Name == sojourn.GateThrottle:
				refused = append(refused, w)
			}
		}
		starting = next
	}
	if err == nil {
		err = s.scanRefused(refused)
	}
	s.cursor = s.next
	return err
}

// checkHeads checks the first job of each group: first of the groups whose turn it is, then of the
// groups that the last claim did not reach. starting are the groups of which a job starts, refused
// those of which the throttler has refused one.
func (s *throttleScan) checkHeads() (starting, refused []*groupScan, err error) {
	from, seen := s.Row.Flow.Turn, map[string]bool{}
	for page := 0; s.mayCheck(maxChecked / 2); page++ {
		if page == 1 && s.was.heads != "" {
			from = s.was.heads
		}
		lanes, _, err := s.lanes(from, groupsPerRead)
		if err != nil {
			return nil, nil, err
		}
		if page == 0 {
			lanes = append([]string{jobrow.LaneCritical}, lanes...)
		}
		lanes = slices.DeleteFunc(lanes, func(lane string) bool { return seen[lane] })
		if len(lanes) == 0 {
			break
		}
		work, err := s.groupScans(lanes)
		if err != nil {
			return nil, nil, err
		}
		for _, lane := range lanes {
			seen[lane] = true
		}
		from = lanes[len(lanes)-1]
		for _, w := range work {
			if !s.mayCheck(maxChecked) {
				s.opensBy(s.now + continueAfter)
				return starting, refused, nil
			}
			s.next.heads = w.lane
			switch g, _, err := s.checkNext(w); {
			case err != nil:
				return nil, nil, err
			case g.Open:
				starting = append(starting, w)
			case g.Name == sojourn.GateThrottle:
				refused = append(refused, w)
			case g.Scope == rules.ScopeQueue && g.Name != sojourn.GateLimit: // jobs without weight pass a full limit
				return nil, nil, nil
			}
		}
	}
	if len(s.checked) >= maxChecked/2 || s.Pass.Stopped() {
		s.opensBy(s.now + continueAfter)
	}
	return starting, refused, nil
}

// scanRefused checks further jobs of groups whose first job was refused, beginning after the group
// at which the last claim stopped. Each group that it does not finish gets a cursor.
func (s *throttleScan) scanRefused(refused []*groupScan) error {
	slices.SortFunc(refused, func(a, b *groupScan) int { return cmp.Compare(a.lane, b.lane) })
	at, _ := slices.BinarySearchFunc(refused, s.was.deep+"\x00", func(w *groupScan, lane string) int { return cmp.Compare(w.lane, lane) })
	refused = slices.Concat(refused[at:], refused[:at])
	for len(refused) > 0 {
		var next []*groupScan
		for _, w := range refused {
			if at, ok := s.was.at[w.lane]; ok && !s.mayRead() && jobrow.CompareCandidates(at, w.checked) > 0 {
				s.next.at[w.lane] = at // not reached: the cursor stays
				continue
			}
			unfinished := true
			for range jobsPerTurn {
				if !s.mayRead() {
					s.next.at[w.lane] = w.checked
					s.opensBy(s.now + continueAfter)
					break
				}
				g, some, err := s.checkNext(w)
				if err != nil {
					return err
				}
				s.next.deep = w.lane
				if unfinished = some && (g.Open || g.Name == sojourn.GateThrottle); !unfinished {
					break
				}
			}
			if unfinished {
				next = append(next, w)
			}
		}
		if refused = next; !s.mayRead() {
			for _, w := range refused { // groups whose turn was over keep their cursors too
				if _, ok := s.next.at[w.lane]; !ok {
					s.next.at[w.lane] = w.checked
					s.opensBy(s.now + continueAfter)
				}
			}
			return nil
		}
	}
	return nil
}

// mayRead reports whether the claim may check another job of a group whose first was refused.
func (s *throttleScan) mayRead() bool { return s.mayCheck(maxChecked) && s.reads < maxGroupReads }

// mayCheck reports whether the claim may check another job, if it has checked fewer than limit.
func (s *throttleScan) mayCheck(limit int) bool {
	return len(s.Admitted) < s.r.Max && len(s.checked) < limit && !s.Pass.Stopped()
}

// groupScans reads the first jobs of groups, with what the throttler sees of them.
func (s *throttleScan) groupScans(lanes []string) ([]*groupScan, error) {
	heads, err := s.heads(lanes)
	if err != nil {
		return nil, err
	}
	var all []Candidate
	work := make([]*groupScan, 0, len(lanes))
	for _, lane := range lanes {
		list := heads[lane]
		if len(list) == 0 {
			continue
		}
		w := &groupScan{lane: lane, list: list, last: list[len(list)-1].Candidate, more: true}
		last := map[string]jobrow.Candidate{} // each kind was read up to its own position: continue behind the lowest of them
		for _, e := range list {
			last[e.Kind] = e.Candidate
		}
		for _, c := range last {
			if jobrow.CompareCandidates(c, w.last) < 0 {
				w.last = c
			}
		}
		work, all = append(work, w), append(all, list...)
	}
	return work, s.Describe(all)
}

// checkNext checks the next job of a group; some is false if there is none.
func (s *throttleScan) checkNext(w *groupScan) (g sojourn.Gate, some bool, err error) {
	if len(w.list) == 0 {
		if err := s.readMore(w); err != nil || len(w.list) == 0 {
			return g, false, err
		}
	}
	e := w.list[0]
	w.list, w.checked = w.list[1:], e.Candidate
	g = s.check(&e)
	if g.Name == sojourn.GateThrottle && !g.Open {
		s.opensBy(s.now + recheckAfter)
	}
	return g, true, nil
}

// readMore reads the next jobs of a group. The second time it jumps to the cursor of the last
// claim, and at the end of the group it returns to the jobs that it has skipped.
func (s *throttleScan) readMore(w *groupScan) error {
	if at, ok := s.was.at[w.lane]; ok && !w.jumped && jobrow.CompareCandidates(at, w.last) > 0 {
		w.first, w.last, w.jumped = w.last, at, true
	}
	s.reads++
	for len(w.list) == 0 && (w.more || w.jumped && w.first != jobrow.Candidate{}) {
		if !w.more { // at the end: read the skipped range
			w.last, w.first, w.more = w.first, jobrow.Candidate{}, true
		}
		all, err := s.Source.Next(w.lane, w.last, jobsPerRead)
		if err != nil {
			return err
		}
		SortCandidates(all)
		w.more = len(all) >= jobsPerRead
		all = all[:min(len(all), jobsPerRead)]
		if len(all) > 0 {
			w.last = all[len(all)-1].Candidate
		}
		w.list = slices.DeleteFunc(all, func(e Candidate) bool { return s.checked[e.ID] })
	}
	return s.Describe(w.list)
}
