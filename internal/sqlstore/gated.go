package sqlstore

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// gatedLine is the head of a queue with gates in one claim: the jobs that may start, in order. The
// gates are asked under the lock of the queue's row, so that their counts stay valid until the
// commit.
type gatedLine struct {
	*tx
	gates *gates
	queue string
	r     driver.ClaimRequest
	row   queueRow
	flow  rules.Flow
	admit []entrant
	place map[int64]int // of each in admit, by its id
	head  entrant       // of the flow's state

	asked   map[int64]bool
	askedOf map[string]int // of each lane
	reads   int            // of groups, in a queue with a throttler
	moves   []move
	buckets map[string]int64 // of groups, as they were read
	pass    *pass            // of the throttler; nil if there is none
	flight  *throttle.Flight // and the weight in flight for it
	known   map[int64]*throttle.Candidate
	refused bool       // a candidate was held back whose followers may start
	weighty bool       // a candidate was held back for lack of weight
	heavy   *candidate // does not fit into the worker's room, and must not be passed over
	err     error      // of reading one candidate
	opens   int64      // when a gate opens that holds a candidate back; 0 = not known
}

// entrant is a candidate of a gated queue.
type entrant struct {
	candidate
	kind, lane string
	purpose    sojourn.Purpose
}

func (e *entrant) asks() *throttle.Candidate {
	c := &throttle.Candidate{ID: sojourn.ID(e.id), Kind: e.kind, Weight: int32(e.weight), Purpose: e.purpose}
	if len(e.lane) > 0 && e.lane[:1] == laneGroup {
		c.Group = e.lane[1:]
	}
	return c
}

const qHead = `select r1, r2, weight, kind, lane from sj_live where id = $1 and queue = $2 and state = 3 and resumed = 0`

// snapshot reads the data of the gates.
func (l *gatedLine) snapshot() (err error) {
	rows, err := l.queueRows(sqldb.Texts{l.queue, sojourn.AllQueues})
	if err != nil {
		return err
	}
	l.row = *rows[l.queue]
	l.flow = rules.Flow{Queue: l.queue, Now: at(l.now), Settings: l.row.QueueSettings, All: rows[sojourn.AllQueues].QueueSettings, State: l.row.flow}
	if err := l.readBuckets(); err != nil || !rules.Counted(l.row.QueueSettings) {
		return err
	}
	if l.flow.Used, l.flow.Groups, err = inFlight(l.tx, l.queue); err != nil {
		return err
	}
	if head := l.flow.State.Head; head > 0 {
		err := l.query(qHead, func(r sqldb.Row) error {
			l.head = entrant{candidate{int64(head), r.Int(0), r.Int(1), r.Int(2)}, r.Text(3), r.Text(4), sojourn.PurposeStart}
			return nil
		}, int64(head), l.queue)
		if err != nil {
			return err
		}
		if l.head.id == 0 { // claimed, cancelled, moved
			l.flow.State.Head, l.flow.State.Needs, l.flow.State.Overtook = 0, 0, 0
			l.flow.State.Since, l.flow.State.Met = time.Time{}, time.Time{}
		}
	}
	return nil
}

const (
	qGoing = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and r1 = -2147483649 order by r1, r2, id limit $3`
	qLine  = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 order by r1, r2, id limit $3`
	qLane  = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $3 and r1 > -2147483649
		order by r1, r2, id limit $4`
)

// each reads candidates of one kind. Resumed ones always get PurposeResume.
func (l *gatedLine) each(purpose sojourn.Purpose, out *[]entrant, q, kind string, more ...any) error {
	return l.query(q, func(r sqldb.Row) error {
		e := entrant{candidate{r.Int(0), r.Int(1), r.Int(2), r.Int(3)}, kind, r.Text(4), purpose}
		if e.r1 == rules.ResumedRank {
			e.purpose = sojourn.PurposeResume
		}
		*out = append(*out, e)
		return nil
	}, append([]any{l.queue, kind}, more...)...)
}

// going lists the jobs that continue: errored jobs, which need no weight, jobs to poll, and, if
// asked for, resumed jobs, which hold theirs.
func (l *gatedLine) going(resumed bool) (all []entrant, err error) {
	for _, kind := range l.r.Kinds {
		if resumed {
			if err := l.each(sojourn.PurposeResume, &all, qGoing, kind, l.r.Max); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(l.r.Decidable, kind) {
			continue
		}
		if err := l.query(qPickErrored, func(r sqldb.Row) error {
			all = append(all, entrant{candidate{r.Int(0), r.Int(1), r.Int(2), 0}, kind, "", sojourn.PurposeDecide})
			return nil
		}, l.queue, kind, l.r.Max); err != nil {
			return nil, err
		}
	}
	polls, err := l.duePolls(l.queue, l.r)
	return append(all, polls...), err
}

// askInOrder asks the gates for each candidate that was not asked about yet.
func (l *gatedLine) askInOrder(all []entrant) {
	slices.SortFunc(all, func(a, b entrant) int { return less(a.candidate, b.candidate) })
	for i := range all {
		if e := &all[i]; len(l.admit) < l.r.Max && !l.asked[e.id] {
			l.ask(e)
		}
	}
}

func (l *gatedLine) isAsked(e *entrant) {
	l.asked[e.id] = true
	l.askedOf[e.lane]++
}

// ask admits one candidate or returns the gate that holds it back. A job too heavy for this worker
// is left to other workers, unless only the worker's room is missing and the job has waited for the
// claim's reserve.
func (l *gatedLine) ask(e *entrant) sojourn.Gate {
	if e.weight > l.r.Capacity {
		l.refused = true
		if l.heavy == nil && l.err == nil {
			yes, err := l.reserves(l.r, e.id)
			if l.err = err; yes && l.flow.Ask(e.asks()).Open {
				l.heavy = &e.candidate
			}
		}
		return sojourn.Gate{Scope: sojourn.ScopeGroup}
	}
	l.isAsked(e)
	c := e.asks()
	g := l.flow.Ask(c)
	if g.Open {
		l.flow.Start(c)
		if l.flight != nil && e.purpose == sojourn.PurposeStart {
			l.flight.Add(c)
		}
		l.admit = append(l.admit, *e)
		return g
	}
	l.flow.Refuse(c, g)
	if g.Fail != "" || !g.Later.IsZero() {
		l.moves = append(l.moves, move{e.id, g.Later, g.Fail})
	}
	l.refused = l.refused || g.Scope == sojourn.ScopeJob
	l.weighty = l.weighty || g.Name == sojourn.GateLimit
	if !g.Until.IsZero() {
		l.opensBy(g.Until.UnixMicro())
	}
	return g
}

// front admits the first jobs in order of a queue without groups, merged with those in all. It
// skips jobs that are too heavy, but no further than scanDepth. Jobs without weight have a lane of
// their own, so that a full limit does not hide them.
func (l *gatedLine) front(all []entrant, full bool) error {
	for _, far := range []int{l.r.Max, l.r.Max + scanDepth} {
		if full || len(l.admit) >= l.r.Max || far > l.r.Max && !l.refused {
			break
		}
		for _, kind := range l.r.Kinds {
			if err := l.each(sojourn.PurposeStart, &all, qLine, kind, far); err != nil {
				return err
			}
		}
		l.askInOrder(all)
	}
	if !full && !l.weighty {
		return nil
	}
	if err := l.critical(); err != nil {
		return err
	}
	slices.SortStableFunc(l.admit, func(a, b entrant) int { return less(a.candidate, b.candidate) })
	return nil
}

// critical admits jobs without weight.
func (l *gatedLine) critical() error {
	var all []entrant
	for _, kind := range l.r.Kinds {
		if err := l.each(sojourn.PurposeStart, &all, qLane, kind, laneCritical, l.r.Max); err != nil {
			return err
		}
	}
	l.askInOrder(all)
	return nil
}

const (
	qFreeAgain = `select id from sj_live where id in (ints($1)) and queue = $2 and state in (3, 5, 6) /*lock*/`
	qSetFlow   = `update sj_queue set flow = $1, max_weight = $2, gated = $3 where name = $4 and flow = $5`
)

// close removes jobs that cannot be locked, and puts off and fails jobs as the gates decided. The
// queue is locked if any job starts.
func (l *gatedLine) close(chosen []candidate) ([]candidate, error) {
	l.place = map[int64]int{}
	for i := range l.admit {
		l.place[l.admit[i].id] = i
	}
	var ids sqldb.Ints
	for _, c := range chosen {
		if _, ok := l.place[c.id]; ok {
			ids = append(ids, c.id)
		}
	}
	if l.concurrent() && len(ids) > 0 {
		free := map[int64]bool{}
		if err := l.query(qFreeAgain, func(r sqldb.Row) error { free[r.Int(0)] = true; return nil }, ids, l.queue); err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(c candidate) bool { _, here := l.place[c.id]; return here && !free[c.id] })
	}
	return chosen, l.doMoves()
}

// settle stores the state of the gates.
func (l *gatedLine) settle(rows []*live) error {
	last := -1
	var started []*entrant
	for _, row := range rows {
		if i, ok := l.place[int64(row.ID)]; ok {
			last, started = max(last, i), append(started, &l.admit[i])
		}
	}
	flow := l.flow.Close()
	var err error
	if flow.Pace, err = l.pay(started); err != nil {
		return err
	}
	flow.Trouble = l.trouble(flow.Trouble)
	if last >= 0 && rules.Grouped(l.row.QueueSettings) && l.admit[last].lane >= laneGroup {
		flow.Turn = l.admit[last].lane
	}
	allowed := l.row.maxWeight
	if limit := l.row.Limit; limit > 0 && allowed > limit && !flow.Counting { // a lowered limit drains, and does not fill again
		allowed = max(limit, min(allowed, l.flow.Used))
	}
	return l.remember(flow, allowed)
}

// remember stores the state of the gates and the weight that may be in flight, if either has
// changed.
func (l *gatedLine) remember(flow rules.FlowState, allowed int64) error {
	text, err := jsonText(flow)
	same := text == l.row.flowText || l.row.flowText == "" && text == "{}"
	if err != nil || !l.row.found || same && allowed == l.row.maxWeight {
		return err
	}
	row := l.row
	row.flow = flow
	_, err = l.exec(qSetFlow, text, allowed, row.mustAsk(), l.queue, l.row.flowText)
	return err
}

// askGates asks the gates about the candidates of the queue.
func (l *gatedLine) askGates() error {
	if err := l.snapshot(); err != nil || l.flow.Settings.Paused || l.flow.All.Paused {
		return err
	}
	pass, err := l.throttle()
	if pass != nil {
		defer pass.end(at(l.now))
	}
	if err != nil {
		return err
	}
	g, full := l.flow.Closed(), l.row.Limit > 0 && (l.flow.Used >= l.row.Limit || l.flow.State.Counting)
	apart := !g.Open || full || rules.Grouped(l.row.QueueSettings) || l.flow.HeadFirst() // else these jobs are at the head of the line anyhow
	going, err := l.going(apart)
	if err != nil {
		return err
	}
	if apart {
		l.askInOrder(going)
		going = nil
	}
	if !g.Open { // no new job of the queue starts
		if !g.Until.IsZero() {
			l.opensBy(g.Until.UnixMicro())
		}
		return nil
	}
	if h := l.head; l.flow.HeadFirst() && slices.Contains(l.r.Kinds, h.kind) {
		l.ask(&h)
	}
	if rules.Grouped(l.row.QueueSettings) {
		return l.turns()
	}
	return l.front(going, full)
}

// gatedLine asks the gates. Where other transactions may claim concurrently, it first runs without
// a lock: a claim that starts nothing must write nothing, or two idle nodes would wake each other
// for ever. If the last claim started jobs, it locks at once, and asks only once.
func (g *gates) gatedLine(t *tx, queue string, r driver.ClaimRequest) (*gatedLine, error) {
	l := g.newLine(t, queue, r)
	starts, _ := g.starting.get(queue)
	if !starts && !t.owns(queue) {
		was := g.cursors.get(queue)
		if err := l.askGates(); err != nil || len(l.admit)+len(l.moves) == 0 {
			return l, err
		}
		g.cursors.set(queue, was) // the second pass must begin at the same cursor
		opens := l.opens
		l = g.newLine(t, queue, r)
		l.opens = opens
	}
	if got, err := t.lockQueue(queue); err != nil || !got { // another claim holds the lock; its commit wakes this one
		return l, err
	}
	err := l.askGates()
	if err == nil {
		g.starting.put(queue, len(l.admit)+len(l.moves) > 0)
	}
	return l, err
}

// newLine returns an empty gatedLine for a queue.
func (g *gates) newLine(t *tx, queue string, r driver.ClaimRequest) *gatedLine {
	return &gatedLine{tx: t, gates: g, queue: queue, r: r, asked: map[int64]bool{}, askedOf: map[string]int{}}
}

// scanDepth bounds how many jobs that are too heavy a claim reads past.
const scanDepth = 1000
