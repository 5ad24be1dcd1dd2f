package gate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
)

// A throttler may refuse any job for a reason of its own, so in its queue a refused job does not
// block the jobs behind it. Groups take turns. A claim asks about the first job of as many groups
// as it can, and then about a few further jobs of each group in turn. It stops after lookAhead
// questions, or half of the throttler's time, and saves a cursor. The next claim starts with the
// first groups in turn, then continues at the cursor. So each ready job is asked about after a
// bounded number of claims, however many before it are refused.
const (
	lookAhead = ScanDepth                 // jobs asked about in one claim, half of them the first of their groups
	laneTurn  = 10                        // jobs of one group before the next group has its turn
	lanePage  = 50                        // jobs of a group read at a time
	lanesPage = 100                       // groups read at a time
	laneReads = 50                        // groups that one claim reads into: each costs two queries
	askAgain  = int64(time.Second / 1000) // µs after which a refusal is asked about again: a rule may depend on the time
	goOn      = int64(100_000)            // µs after which a claim that did not reach the end continues
)

// groupScan is one group in a claim.
type groupScan struct {
	lane  string
	list  []Candidate
	last  jobrow.Candidate // the last job that was read
	asked jobrow.Candidate // the last job that was asked about
	more  bool             // there may be more jobs behind list

	jumped bool             // to the cursor of the last claim,
	first  jobrow.Candidate // from here; none once it has come back
}

// scanCursor is the cursor of a claim in a queue with a throttler. It lives in this process only.
type scanCursor struct {
	heads string                      // the last group whose first job was asked about
	deep  string                      // the last group that was read into
	at    map[string]jobrow.Candidate // positions in groups that it did not read to the end
}

// scanCursors are the cursors of all queues. Safe for concurrent use.
type scanCursors struct {
	mu sync.Mutex
	of map[string]scanCursor
}

func (k *scanCursors) get(queue string) scanCursor {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[queue]
}

func (k *scanCursors) set(queue string, l scanCursor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]scanCursor{}
	}
	k.of[queue] = l
}

func newThrottleScan(a *Admission) *throttleScan {
	was := a.cursor
	return &throttleScan{Admission: a, was: was, next: scanCursor{heads: was.heads, deep: was.deep, at: map[string]jobrow.Candidate{}}}
}

// throttleScan asks about the jobs of a queue with a throttler, in one claim.
type throttleScan struct {
	*Admission
	reads int        // of groups
	was   scanCursor // of the last claim
	next  scanCursor
}

// askHeads asks about the first job of each group: first of the groups whose turn it is, then of
// the groups that the last claim did not reach. hot are the groups of which a job starts, cold
// those of which the throttler refused one.
func (s *throttleScan) askHeads() (hot, cold []*groupScan, err error) {
	from, seen := s.Row.Flow.Turn, map[string]bool{}
	for page := 0; s.goesOn(lookAhead / 2); page++ {
		if page == 1 && s.was.heads != "" {
			from = s.was.heads
		}
		lanes, _, err := s.lanes(from, lanesPage)
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
			if !s.goesOn(lookAhead) {
				s.opensBy(s.now + goOn)
				return hot, cold, nil
			}
			s.next.heads = w.lane
			switch g, _, err := s.askNext(w); {
			case err != nil:
				return nil, nil, err
			case g.Open:
				hot = append(hot, w)
			case g.Name == sojourn.GateThrottle:
				cold = append(cold, w)
			case g.Scope == rules.ScopeQueue && g.Name != sojourn.GateLimit: // jobs without weight pass a full limit
				return nil, nil, nil
			}
		}
	}
	if len(s.asked) >= lookAhead/2 || s.Pass.Stopped() {
		s.opensBy(s.now + goOn)
	}
	return hot, cold, nil
}

// askNext asks about the next job of a group; some is false if there is none.
func (s *throttleScan) askNext(w *groupScan) (g sojourn.Gate, some bool, err error) {
	if len(w.list) == 0 {
		if err := s.readOn(w); err != nil || len(w.list) == 0 {
			return g, false, err
		}
	}
	e := w.list[0]
	w.list, w.asked = w.list[1:], e.Candidate
	g = s.ask(&e)
	if g.Name == sojourn.GateThrottle && !g.Open {
		s.opensBy(s.now + askAgain)
	}
	return g, true, nil
}

// goInto asks about further jobs of groups whose first job was refused, beginning after the group
// at which the last claim stopped.
func (s *throttleScan) goInto(cold []*groupScan) error {
	slices.SortFunc(cold, func(a, b *groupScan) int { return cmp.Compare(a.lane, b.lane) })
	at, _ := slices.BinarySearchFunc(cold, s.was.deep+"\x00", func(w *groupScan, lane string) int { return cmp.Compare(w.lane, lane) })
	cold = slices.Concat(cold[at:], cold[:at])
	for len(cold) > 0 {
		var next []*groupScan
		for _, w := range cold {
			if at, ok := s.was.at[w.lane]; ok && !s.goesInto() && jobrow.Before(at, w.asked) > 0 {
				s.next.at[w.lane] = at // not reached: the cursor stays
				continue
			}
			goes := true
			for range laneTurn {
				if !s.goesInto() {
					s.next.at[w.lane] = w.asked
					s.opensBy(s.now + goOn)
					break
				}
				g, some, err := s.askNext(w)
				if err != nil {
					return err
				}
				s.next.deep = w.lane
				if goes = some && (g.Open || g.Name == sojourn.GateThrottle); !goes {
					break
				}
			}
			if goes {
				next = append(next, w)
			}
		}
		if cold = next; !s.goesInto() {
			for _, w := range cold { // groups whose turn was over keep their cursors too
				if _, ok := s.next.at[w.lane]; !ok {
					s.next.at[w.lane] = w.asked
					s.opensBy(s.now + goOn)
				}
			}
			return nil
		}
	}
	return nil
}

// goesInto reports whether another job of a group whose first was refused may be asked about.
func (s *throttleScan) goesInto() bool { return s.goesOn(lookAhead) && s.reads < laneReads }

// goesOn reports whether another question may be asked.
func (s *throttleScan) goesOn(questions int) bool {
	return len(s.Admit) < s.r.Max && len(s.asked) < questions && !s.Pass.Stopped()
}

// groupScans reads the first jobs of groups.
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
			if jobrow.Before(c, w.last) < 0 {
				w.last = c
			}
		}
		work, all = append(work, w), append(all, list...)
	}
	return work, s.Describe(all)
}

// readOn reads the next jobs of a group, the second time from the cursor of the last claim.
func (s *throttleScan) readOn(w *groupScan) error {
	if at, ok := s.was.at[w.lane]; ok && !w.jumped && jobrow.Before(at, w.last) > 0 {
		w.first, w.last, w.jumped = w.last, at, true
	}
	s.reads++
	for len(w.list) == 0 && (w.more || w.jumped && w.first != jobrow.Candidate{}) {
		if !w.more { // at the end: read the skipped range
			w.last, w.first, w.more = w.first, jobrow.Candidate{}, true
		}
		all, err := s.Source.Next(w.lane, w.last, lanePage)
		if err != nil {
			return err
		}
		SortCandidates(all)
		w.more = len(all) >= lanePage
		all = all[:min(len(all), lanePage)]
		if len(all) > 0 {
			w.last = all[len(all)-1].Candidate
		}
		w.list = slices.DeleteFunc(all, func(e Candidate) bool { return s.asked[e.ID] })
	}
	return s.Describe(w.list)
}

// run asks about jobs of a queue with a throttler until the claim is full, its questions are used
// up, or no job is left.
func (s *throttleScan) run() error {
	hot, cold, err := s.askHeads()
	for err == nil && len(hot) > 0 && s.goesOn(lookAhead) { // one job of each group a turn, as long as the group's jobs start
		var next []*groupScan
		for _, w := range hot {
			g, some, failed := s.askNext(w)
			if failed != nil {
				return failed
			}
			switch {
			case some && g.Open:
				next = append(next, w)
			case some && g.Name == sojourn.GateThrottle:
				cold = append(cold, w)
			}
		}
		hot = next
	}
	if err == nil {
		err = s.goInto(cold)
	}
	s.cursor = s.next
	return err
}
