package sqlstore

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// A throttler may refuse any job for a reason of its own, so in its queue a refused job hides nobody: groups take turns, the jobs of a group are
// asked about one after the other, and a claim that has asked about lookAhead of them without getting to the end remembers where it stopped and
// goes on there the next time, after the first of each group. So every ready job is asked about after a bounded number of claims, however many
// before it are refused.
const (
	lookAhead = depth                               // jobs asked about in one claim
	laneTurn  = 10                                  // of them, of one group before the next group has its turn
	lanePage  = 50                                  // jobs of a group read at a time
	lanesPage = 100                                 // groups read at a time
	askAgain  = int64(time.Second / 1000)           // µs after which a refusal is asked about again: a rule may look at the time
	goOn      = int64(pollEvery / time.Microsecond) // µs after which a claim that did not get to the end goes on
)

// look is where a claim stopped, in a queue with a throttler. It lives in this process only.
type look struct {
	lane string               // the last group it came to; "" = it came to all
	at   map[string]candidate // in groups that it did not get to the end of
}

// looks of all queues. Safe for concurrent use.
type looks struct {
	mu sync.Mutex
	of map[string]look
}

func (k *looks) get(queue string) look {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[queue]
}

func (k *looks) set(queue string, l look) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]look{}
	}
	k.of[queue] = l
}

// throttle makes the flow ask the queue's throttler, if it has one. The caller ends the pass.
func (l *gatedLine) throttle() (*pass, error) {
	if l.row.Throttle == "" {
		return nil, nil
	}
	p := l.s.throttlers.begin(l.queue, l.row.Throttle)
	l.known = map[int64]*sojourn.Candidate{}
	flight, err := l.inTheAir(l.queue)
	if err != nil {
		return p, err
	}
	flight.Limit = max(l.row.Limit, 0)
	l.flight = flight
	l.flow.Throttle = func(c *sojourn.Candidate) sojourn.Admission {
		if l.flow.State.Counting {
			return sojourn.Admission{Text: "the throttler is new: what is in flight is being counted"}
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
	qLaneAfter = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and lane >= '0' and lane = $3
		and (r1, r2, id) > ($4, $5, $6) order by r1, r2, id limit $7`
)

// inTheAir lists what is in flight for a throttler.
func (t *tx) inTheAir(queue string) (*sojourn.Flight, error) {
	f := &sojourn.Flight{Now: at(t.now)}
	seen := 0
	err := t.query(qInTheAir, func(r Row) error {
		if seen++; seen <= sojourn.MaxFlight {
			f.List = append(f.List, sojourn.FlightJob{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Group: groupOf(r.Text(2)), State: sojourn.State(r.Int(3)),
				Weight: int32(r.Int(4)), Priority: int32(r.Int(5))})
			f.Count(r.Text(1), groupOf(r.Text(2)), sojourn.State(r.Int(3)), sojourn.Load{Jobs: 1, Weight: r.Int(4)})
		}
		return nil
	}, queue, sojourn.MaxFlight+1)
	if err != nil || seen <= sojourn.MaxFlight {
		return f, err
	}
	f = &sojourn.Flight{Now: f.Now, List: f.List}
	return f, t.query(qAirLoads, func(r Row) error {
		f.Count(r.Text(0), groupOf(r.Text(1)), sojourn.State(r.Int(2)), sojourn.Load{Jobs: r.Int(3), Weight: r.Int(4)})
		return nil
	}, queue)
}

func groupOf(lane string) string {
	if len(lane) > 0 && lane[:1] == laneGroup {
		return lane[1:]
	}
	return ""
}

// describe reads what throttlers see of jobs, of those not read before.
func (l *gatedLine) describe(es []entrant) error {
	var ids Ints
	for _, e := range es {
		if l.known[e.id] == nil {
			ids = append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return l.query(qDescribe, func(r Row) error {
		c := &sojourn.Candidate{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Key: r.Text(2), Group: r.Text(3), Priority: int32(r.Int(4)),
			Attempt: int32(r.Int(5) + 1 - r.Int(6)), RunAt: at(r.Int(7)), CreatedAt: at(r.Int(8))}
		l.known[r.Int(0)] = c
		return readTagsMeta(r.Text(9), r.Text(10), c)
	}, ids)
}

func readTagsMeta(tags, meta string, c *sojourn.Candidate) error {
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

// laneLook is one group in a claim.
type laneLook struct {
	lane string
	list []entrant
	last candidate // of what was read
	more bool      // there may be others behind it
}

// ahead asks about jobs of a queue with a throttler until the claim has what it wants, or lookAhead are asked about, or none is left.
func (l *gatedLine) ahead() error {
	was := l.s.looks.get(l.queue)
	now := look{at: map[string]candidate{}}
	from, seen := l.row.flow.Turn, map[string]bool{}
	defer func() { l.s.looks.set(l.queue, now) }()
	for page := 0; len(l.admit) < l.r.Max && l.pass.over == nil && len(l.asked) < lookAhead; page++ {
		if page == 1 && was.lane != "" {
			from = was.lane
		}
		lanes, err := l.lanes(from, lanesPage)
		if err != nil {
			return err
		}
		if page == 0 {
			lanes = append([]string{laneCritical}, lanes...)
		}
		lanes = slices.DeleteFunc(lanes, func(lane string) bool { return seen[lane] })
		if len(lanes) == 0 {
			return nil
		}
		for _, lane := range lanes {
			seen[lane] = true
		}
		from = lanes[len(lanes)-1]
		now.lane = from
		if over, err := l.askLanes(lanes, was, now); over || err != nil {
			return err
		}
	}
	return nil
}

// askLanes gives turns to some groups; over reports that nobody else of the queue may start now.
func (l *gatedLine) askLanes(lanes []string, was, now look) (over bool, err error) {
	heads, err := l.heads(lanes)
	if err != nil {
		return false, err
	}
	var all []entrant
	work := make([]*laneLook, 0, len(lanes))
	for _, lane := range lanes {
		if h := heads[lane]; len(h) > 0 {
			work = append(work, &laneLook{lane: lane, list: h, last: h[len(h)-1].candidate, more: true})
			all = append(all, h...)
		}
	}
	if err := l.describe(all); err != nil {
		return false, err
	}
	for len(work) > 0 {
		var next []*laneLook
		for _, w := range work {
			if len(l.admit) >= l.r.Max || len(l.asked) >= lookAhead || l.pass.over != nil {
				now.at[w.lane] = w.last
				over = true
				continue
			}
			goes, closed, err := l.turn(w, was)
			if err != nil || closed {
				return true, err
			}
			if goes {
				next = append(next, w)
			}
		}
		work = next
	}
	return over, nil
}

// turn asks about the next jobs of one group, until one starts. goes reports that there are more; closed, that a gate of the queue is.
func (l *gatedLine) turn(w *laneLook, was look) (goes, closed bool, err error) {
	for range laneTurn {
		if len(w.list) == 0 {
			if err := l.readOn(w, was); err != nil || len(w.list) == 0 {
				return false, false, err
			}
		}
		e := w.list[0]
		w.list = w.list[1:]
		g := l.ask(&e)
		switch {
		case g.Open:
			return true, false, nil
		case g.Scope == sojourn.ScopeQueue && g.Name != sojourn.GateLimit: // jobs without weight pass a full limit
			return false, true, nil
		case g.Name != sojourn.GateThrottle:
			return false, false, nil // order within a group is strict but for the throttler
		}
		l.opensBy(l.now + askAgain)
	}
	return true, false, nil
}

// readOn reads the next jobs of a group, the second time from where the last claim stopped.
func (l *gatedLine) readOn(w *laneLook, was look) error {
	if !w.more {
		return nil
	}
	if at, ok := was.at[w.lane]; ok && less(at, w.last) > 0 {
		w.last = at
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
	return l.describe(w.list)
}

// opensBy makes a claim that finds nothing look again at that time, at the latest.
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

// doMoves puts jobs off, and fails them, as gates have said.
func (l *gatedLine) doMoves() error {
	ids := make(Ints, len(l.moves))
	for i, m := range l.moves {
		ids[i] = m.id
	}
	if len(ids) == 0 {
		return nil
	}
	var free Ints
	if err := l.query(qFreeAgain, func(r Row) error { free = append(free, r.Int(0)); return nil }, ids, l.queue); err != nil {
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
		e := sojourn.Event{Type: sojourn.EventPutOff, Delay: max(m.later.Sub(at(l.now)), 0)}
		if m.fail != "" {
			e = sojourn.Event{Type: sojourn.EventFail, Reason: m.fail, Error: "sojourn: the throttler of queue " + l.queue + " failed it"}
		}
		e.Delay = min(e.Delay, sojourn.MaxHorizon)
		if err := l.happen(row, e); err != nil {
			return err
		}
	}
	return nil
}

// troubleEvery is how often what goes wrong with a throttler is written, at most: each write wakes the other processes' claims.
const troubleEvery = 10 * time.Second

// trouble adds what went wrong with the throttler to what the queue remembers.
func (l *gatedLine) trouble(was sojourn.Trouble) sojourn.Trouble {
	if l.pass == nil {
		return was
	}
	failures := l.s.throttlers.failures(l.queue, l.pass.failed)
	if failures == 0 || l.pass.last == nil || at(l.now).Sub(was.At).Abs() < troubleEvery {
		return was
	}
	l.after = append(l.after, func() { l.s.throttlers.failures(l.queue, -failures) })
	return sojourn.Trouble{Count: was.Count + failures, Text: cmp.Or(firstLine(l.pass.last), "error"), At: at(l.now)}
}
