package sqlstore

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// A throttler may refuse any job for a reason of its own, so in its queue a refused job does not
// block the jobs behind it. Groups take turns. A claim asks about the first job of as many groups
// as it can, and then about a few further jobs of each group in turn. It stops after lookAhead
// questions, or half of the throttler's time, and saves a cursor. The next claim starts with the
// first groups in turn, then continues at the cursor. So each ready job is asked about after a
// bounded number of claims, however many before it are refused.
const (
	lookAhead = scanDepth                 // jobs asked about in one claim, half of them the first of their groups
	laneTurn  = 10                        // jobs of one group before the next group has its turn
	lanePage  = 50                        // jobs of a group read at a time
	lanesPage = 100                       // groups read at a time
	laneReads = 50                        // groups that one claim reads into: each costs two queries
	askAgain  = int64(time.Second / 1000) // µs after which a refusal is asked about again: a rule may depend on the time
	goOn      = int64(100_000)            // µs after which a claim that did not reach the end continues
)

// throttle makes the flow ask the queue's throttler, if it has one. The caller ends the pass.
func (l *gatedLine) throttle() (*pass, error) {
	if l.row.Throttle == "" {
		return nil, nil
	}
	p := l.gates.throttlers.begin(l.queue, l.row.Throttle)
	l.pass = p
	l.known = map[int64]*throttle.Candidate{}
	flight, err := l.inTheAir(l.queue)
	if err != nil {
		return p, err
	}
	flight.Limit = max(l.row.Limit, 0)
	l.flight = flight
	l.flow.Throttle = func(c *throttle.Candidate) throttle.Admission {
		if l.flow.State.Counting {
			return throttle.Admission{Text: "the throttler is new: what is in flight is being counted"}
		}
		if p.over == nil {
			if err := l.describe([]entrant{{candidate: candidate{id: int64(c.ID)}}}); err != nil {
				p.over, p.last, p.failed = err, err, p.failed+1
			} else if known := l.known[int64(c.ID)]; known != nil {
				known.Purpose, known.Weight = c.Purpose, c.Weight
				*c = *known
			}
		}
		return p.ask(c, flight)
	}
	return p, nil
}

const (
	qInTheAir = `select id, kind, lane, state, held, priority from sj_live where queue = $1 and held > 0 and lane <> '' limit $2`
	qAirLoads = `select kind, lane, state, count(*), sum(held) from sj_live where queue = $1 and held > 0 and lane <> '' group by kind, lane, state`
	qDescribe = `select l.id, l.kind, l.key, j.grp, l.priority, l.attempt, l.attempt_open, l.run_at_us, j.created_us, j.tags, j.meta
		from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1))`
	qLaneAfter = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $3
		and (r1, r2, id) > ($4, $5, $6) order by r1, r2, id limit $7`
)

// inTheAir lists the jobs in flight for a throttler.
func (t *tx) inTheAir(queue string) (*throttle.Flight, error) {
	f := &throttle.Flight{Now: at(t.now)}
	seen := 0
	err := t.query(qInTheAir, func(r sqldb.Row) error {
		if seen++; seen <= sojourn.MaxFlight {
			f.List = append(f.List, throttle.FlightJob{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Group: groupOf(r.Text(2)), State: sojourn.State(r.Int(3)),
				Weight: int32(r.Int(4)), Priority: int32(r.Int(5))})
			f.Count(r.Text(1), groupOf(r.Text(2)), sojourn.State(r.Int(3)), throttle.Load{Jobs: 1, Weight: r.Int(4)})
		}
		return nil
	}, queue, sojourn.MaxFlight+1)
	if err != nil || seen <= sojourn.MaxFlight {
		return f, err
	}
	f = &throttle.Flight{Now: f.Now, List: f.List}
	return f, t.query(qAirLoads, func(r sqldb.Row) error {
		f.Count(r.Text(0), groupOf(r.Text(1)), sojourn.State(r.Int(2)), throttle.Load{Jobs: r.Int(3), Weight: r.Int(4)})
		return nil
	}, queue)
}

func groupOf(lane string) string {
	if len(lane) > 0 && lane[:1] == laneGroup {
		return lane[1:]
	}
	return ""
}

// describe reads the throttlers' view of jobs, except for jobs read before.
func (l *gatedLine) describe(es []entrant) error {
	var ids sqldb.Ints
	for _, e := range es {
		if l.known[e.id] == nil {
			ids = append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return l.query(qDescribe, func(r sqldb.Row) error {
		c := &throttle.Candidate{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Key: r.Text(2), Group: r.Text(3), Priority: int32(r.Int(4)),
			Attempt: int32(r.Int(5) + 1 - r.Int(6)), RunAt: at(r.Int(7)), CreatedAt: at(r.Int(8))}
		l.known[r.Int(0)] = c
		return readTagsMeta(r.Text(9), r.Text(10), c)
	}, ids)
}

func readTagsMeta(tags, meta string, c *throttle.Candidate) error {
	if tags != "" {
		if err := json.Unmarshal([]byte(tags), &c.Tags); err != nil {
			return err
		}
	}
	if meta == "" {
		return nil
	}
	return json.Unmarshal([]byte(meta), &c.Meta)
}

// ahead asks about jobs of a queue with a throttler until the claim is full, its questions are used
// up, or no job is left.
func (l *gatedLine) ahead() error {
	was := l.gates.cursors.get(l.queue)
	now := scanCursor{heads: was.heads, deep: was.deep, at: map[string]candidate{}}
	hot, cold, err := l.askHeads(was, &now)
	for err == nil && len(hot) > 0 && l.goesOn(lookAhead) { // one job of each group a turn, as long as the group's jobs start
		var next []*groupScan
		for _, w := range hot {
			g, some, failed := l.askNext(w, was)
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
		err = l.goInto(cold, was, &now)
	}
	l.gates.cursors.set(l.queue, now)
	return err
}

// goesOn reports whether another question may be asked.
func (l *gatedLine) goesOn(questions int) bool {
	return len(l.admit) < l.r.Max && len(l.asked) < questions && !l.pass.stopped()
}

// askHeads asks about the first job of each group: first of the groups whose turn it is, then of
// the groups that the last claim did not reach. hot are the groups of which a job starts, cold
// those of which the throttler refused one.
func (l *gatedLine) askHeads(was scanCursor, now *scanCursor) (hot, cold []*groupScan, err error) {
	from, seen := l.row.flow.Turn, map[string]bool{}
	for page := 0; l.goesOn(lookAhead / 2); page++ {
		if page == 1 && was.heads != "" {
			from = was.heads
		}
		lanes, _, err := l.lanes(from, lanesPage)
		if err != nil {
			return nil, nil, err
		}
		if page == 0 {
			lanes = append([]string{laneCritical}, lanes...)
		}
		lanes = slices.DeleteFunc(lanes, func(lane string) bool { return seen[lane] })
		if len(lanes) == 0 {
			break
		}
		work, err := l.groupScans(lanes)
		if err != nil {
			return nil, nil, err
		}
		for _, lane := range lanes {
			seen[lane] = true
		}
		from = lanes[len(lanes)-1]
		for _, w := range work {
			if !l.goesOn(lookAhead) {
				l.opensBy(l.now + goOn)
				return hot, cold, nil
			}
			now.heads = w.lane
			switch g, _, err := l.askNext(w, was); {
			case err != nil:
				return nil, nil, err
			case g.Open:
				hot = append(hot, w)
			case g.Name == sojourn.GateThrottle:
				cold = append(cold, w)
			case g.Scope == sojourn.ScopeQueue && g.Name != sojourn.GateLimit: // jobs without weight pass a full limit
				return nil, nil, nil
			}
		}
	}
	if len(l.asked) >= lookAhead/2 || l.pass.stopped() {
		l.opensBy(l.now + goOn)
	}
	return hot, cold, nil
}

// goesInto reports whether another job of a group whose first was refused may be asked about.
func (l *gatedLine) goesInto() bool { return l.goesOn(lookAhead) && l.reads < laneReads }

// goInto asks about further jobs of groups whose first job was refused, beginning after the group
// at which the last claim stopped.
func (l *gatedLine) goInto(cold []*groupScan, was scanCursor, now *scanCursor) error {
	slices.SortFunc(cold, func(a, b *groupScan) int { return cmp.Compare(a.lane, b.lane) })
	at, _ := slices.BinarySearchFunc(cold, was.deep+"\x00", func(w *groupScan, lane string) int { return cmp.Compare(w.lane, lane) })
	cold = slices.Concat(cold[at:], cold[:at])
	for len(cold) > 0 {
		var next []*groupScan
		for _, w := range cold {
			if at, ok := was.at[w.lane]; ok && !l.goesInto() && less(at, w.asked) > 0 {
				now.at[w.lane] = at // not reached: the cursor stays
				continue
			}
			goes := true
			for range laneTurn {
				if !l.goesInto() {
					now.at[w.lane] = w.asked
					l.opensBy(l.now + goOn)
					break
				}
				g, some, err := l.askNext(w, was)
				if err != nil {
					return err
				}
				now.deep = w.lane
				if goes = some && (g.Open || g.Name == sojourn.GateThrottle); !goes {
					break
				}
			}
			if goes {
				next = append(next, w)
			}
		}
		if cold = next; !l.goesInto() {
			return nil
		}
	}
	return nil
}

// askNext asks about the next job of a group; some is false if there is none.
func (l *gatedLine) askNext(w *groupScan, was scanCursor) (g sojourn.Gate, some bool, err error) {
	if len(w.list) == 0 {
		if err := l.readOn(w, was); err != nil || len(w.list) == 0 {
			return g, false, err
		}
	}
	e := w.list[0]
	w.list, w.asked = w.list[1:], e.candidate
	g = l.ask(&e)
	if g.Name == sojourn.GateThrottle && !g.Open {
		l.opensBy(l.now + askAgain)
	}
	return g, true, nil
}

// readOn reads the next jobs of a group, the second time from the cursor of the last claim.
func (l *gatedLine) readOn(w *groupScan, was scanCursor) error {
	if at, ok := was.at[w.lane]; ok && !w.jumped && less(at, w.last) > 0 {
		w.first, w.last, w.jumped = w.last, at, true
	}
	l.reads++
	for len(w.list) == 0 && (w.more || w.jumped && w.first != candidate{}) {
		if !w.more { // at the end: read the skipped range
			w.last, w.first, w.more = w.first, candidate{}, true
		}
		var all []entrant
		for _, kind := range l.r.Kinds {
			if err := l.each(sojourn.PurposeStart, &all, qLaneAfter, kind, w.lane, w.last.r1, w.last.r2, w.last.id, lanePage); err != nil {
				return err
			}
		}
		slices.SortFunc(all, func(a, b entrant) int { return less(a.candidate, b.candidate) })
		w.more = len(all) >= lanePage
		all = all[:min(len(all), lanePage)]
		if len(all) > 0 {
			w.last = all[len(all)-1].candidate
		}
		w.list = slices.DeleteFunc(all, func(e entrant) bool { return l.asked[e.id] })
	}
	return l.describe(w.list)
}

// opensBy makes an empty claim try again at that time, at the latest.
func (l *gatedLine) opensBy(us int64) {
	if l.opens == 0 || us < l.opens {
		l.opens = us
	}
}

// move is a candidate that a gate has put off or failed.
type move struct {
	id    int64
	later time.Time
	fail  string
}

// doMoves puts jobs off, and fails them, as the gates decided.
func (l *gatedLine) doMoves() error {
	ids := make(sqldb.Ints, len(l.moves))
	for i, m := range l.moves {
		ids[i] = m.id
	}
	if len(ids) == 0 {
		return nil
	}
	var free sqldb.Ints
	if err := l.query(qFreeAgain, func(r sqldb.Row) error { free = append(free, r.Int(0)); return nil }, ids, l.queue); err != nil {
		return err
	}
	rows, err := l.load(free)
	if err != nil {
		return err
	}
	for _, m := range l.moves {
		row := rows[sojourn.ID(m.id)]
		if row == nil || row.State != sojourn.Ready || row.Resumed {
			continue
		}
		e := rules.Event{Type: rules.EventPutOff, Delay: max(m.later.Sub(at(l.now)), 0)}
		if m.fail != "" {
			e = rules.Event{Type: rules.EventFail, Reason: m.fail, Error: "sojourn: the throttler of queue " + l.queue + " failed it"}
		}
		e.Delay = min(e.Delay, sojourn.MaxHorizon)
		if err := l.happen(row, e); err != nil {
			return err
		}
	}
	return nil
}

// troubleEvery limits how often errors of a throttler are written: each write wakes the other
// processes' claims.
const troubleEvery = 10 * time.Second

// trouble adds the throttler's errors to the stored state of the queue.
func (l *gatedLine) trouble(was sojourn.Trouble) sojourn.Trouble {
	if l.pass == nil {
		return was
	}
	failures := l.gates.throttlers.failures(l.queue, l.pass.failed)
	if failures == 0 || l.pass.last == nil || at(l.now).Sub(was.At).Abs() < troubleEvery {
		return was
	}
	l.after = append(l.after, func() { l.gates.throttlers.failures(l.queue, -failures) })
	return sojourn.Trouble{Count: was.Count + failures, Text: cmp.Or(firstLine(l.pass.last), "error"), At: at(l.now)}
}

// groupScans reads the first jobs of groups.
func (l *gatedLine) groupScans(lanes []string) ([]*groupScan, error) {
	heads, err := l.heads(lanes)
	if err != nil {
		return nil, err
	}
	var all []entrant
	work := make([]*groupScan, 0, len(lanes))
	for _, lane := range lanes {
		list := heads[lane]
		if len(list) == 0 {
			continue
		}
		w := &groupScan{lane: lane, list: list, last: list[len(list)-1].candidate, more: true}
		last := map[string]candidate{} // each kind was read up to its own position: continue behind the lowest of them
		for _, e := range list {
			last[e.kind] = e.candidate
		}
		for _, c := range last {
			if less(c, w.last) < 0 {
				w.last = c
			}
		}
		work, all = append(work, w), append(all, list...)
	}
	return work, l.describe(all)
}

// groupScan is one group in a claim.
type groupScan struct {
	lane  string
	list  []entrant
	last  candidate // the last job that was read
	asked candidate // the last job that was asked about
	more  bool      // there may be more jobs behind list

	jumped bool      // to the cursor of the last claim,
	first  candidate // from here; none once it has come back
}

// scanCursor is the cursor of a claim in a queue with a throttler. It lives in this process only.
type scanCursor struct {
	heads string               // the last group whose first job was asked about
	deep  string               // the last group that was read into
	at    map[string]candidate // positions in groups that it did not read to the end
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
