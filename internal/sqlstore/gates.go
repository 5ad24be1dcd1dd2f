package sqlstore

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// gates is what a process knows for the gates of all queues: its throttlers, the cursors of their
// scans, and values that it has read a moment ago. Safe for concurrent use.
type gates struct {
	throttlers throttlers
	cursors    scanCursors
	breakers   memo[string, knownBreaker] // queue → its setting, a second old at most
	starting   memo[string, bool]         // queue → whether this process's last claim has started jobs of it
}

// gatedClaim is the part of a claim that concerns a queue with gates: the jobs that may start, and
// how the gates learn which of them have. The gates are asked under the lock of the queue's row, so
// that their counts stay valid until the commit.
type gatedClaim struct {
	*admission
	t     *tx
	gates *gates
	place map[int64]int // of each in admit, by its id
}

// askGates reads the gates, and asks them about the candidates of the queue.
func (l *gatedClaim) askGates() error {
	q, err := l.gates.read(l.t, l.queue)
	if err != nil {
		return err
	}
	if l.begin(q); q.flow.Settings.Paused || q.flow.All.Paused {
		return nil
	}
	if err := l.gates.beginThrottle(l.t, l.admission); err != nil {
		return err
	}
	defer l.end()
	if l.pass == nil {
		return l.run()
	}
	l.cursor = l.gates.cursors.get(l.queue)
	err = l.run()
	l.gates.cursors.set(l.queue, l.cursor)
	return err
}

// begin starts the admission anew. It keeps the time at which a gate opens.
func (l *gatedClaim) begin(q *queueGates) {
	opens := l.opens
	l.admission = newAdmission(q, l.source, l.r)
	l.opens = opens
}

// close removes jobs that cannot be locked, and puts off and fails jobs as the gates decided. The
// queue is locked if any job starts.
func (l *gatedClaim) close(chosen []candidate) ([]candidate, error) {
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
	if l.t.concurrent() && len(ids) > 0 {
		free := map[int64]bool{}
		if err := l.t.query(qFreeAgain, func(r sqldb.Row) error { free[r.Int(0)] = true; return nil }, ids, l.queue); err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(c candidate) bool { _, here := l.place[c.id]; return here && !free[c.id] })
	}
	return chosen, l.applyMoves()
}

// remember stores the state of the gates and the weight that may be in flight, if either has
// changed.
func (l *gatedClaim) remember(flow rules.FlowState, allowed int64) error {
	text, err := jsonText(flow)
	same := text == l.row.flowText || l.row.flowText == "" && text == "{}"
	if err != nil || !l.row.found || same && allowed == l.row.maxWeight {
		return err
	}
	row := l.row
	row.flow = flow
	_, err = l.t.exec(qSetFlow, text, allowed, row.mustAsk(), l.queue, l.row.flowText)
	return err
}

// settle stores the state of the gates.
func (l *gatedClaim) settle(rows []*live) error {
	last := -1
	var started []*gateCandidate
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

// trouble adds the throttler's errors to the stored state of the queue.
func (l *gatedClaim) trouble(was sojourn.Trouble) sojourn.Trouble {
	if l.pass == nil {
		return was
	}
	failures := l.gates.throttlers.failures(l.queue, l.pass.failed)
	if failures == 0 || l.pass.last == nil || at(l.now).Sub(was.At).Abs() < troubleEvery {
		return was
	}
	l.t.after = append(l.t.after, func() { l.gates.throttlers.failures(l.queue, -failures) })
	return sojourn.Trouble{Count: was.Count + failures, Text: cmp.Or(firstLine(l.pass.last), "error"), At: at(l.now)}
}

// admit asks the gates of a queue. Where other transactions may claim concurrently, it first runs
// without a lock: a claim that starts nothing must write nothing, or two idle nodes would wake each
// other for ever. If the last claim started jobs, it locks at once, and asks only once.
func (g *gates) admit(t *tx, queue string, r driver.ClaimRequest) (*gatedClaim, error) {
	l := g.newClaim(t, queue, r)
	starts, _ := g.starting.get(queue)
	if !starts && !t.owns(queue) {
		was := g.cursors.get(queue)
		if err := l.askGates(); err != nil || len(l.admit)+len(l.moves) == 0 {
			return l, err
		}
		g.cursors.set(queue, was) // the second pass must begin at the same cursor
		l.begin(&queueGates{queue: queue, now: t.now})
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

// beginThrottle makes an admission ask the queue's throttler, if it has one. Unless it fails, the
// caller ends the admission.
func (g *gates) beginThrottle(t *tx, a *admission) error {
	if a.row.Throttle == "" {
		return nil
	}
	flight, err := readFlight(t, a.queue)
	if err != nil {
		return err
	}
	flight.Limit = max(a.row.Limit, 0)
	a.throttle(g.throttlers.begin(a.queue, a.row.Throttle), flight)
	return nil
}

// explain reads the gates to ask them about single jobs. Groups may borrow, as in a claim after all
// other groups have had their turn. The caller ends the admission.
func (g *gates) explain(t *tx, queue string, kinds []string) (*admission, error) {
	q, err := g.read(t, queue)
	if err != nil {
		return nil, err
	}
	q.flow.Borrow = q.row.Borrow
	r := driver.ClaimRequest{Kinds: kinds, Max: 1}
	a := newAdmission(q, &sqlSource{t, queue, r}, r)
	return a, g.beginThrottle(t, a)
}

// newClaim is a claim that admits nothing.
func (g *gates) newClaim(t *tx, queue string, r driver.ClaimRequest) *gatedClaim {
	q := &queueGates{queue: queue, now: t.now}
	return &gatedClaim{t: t, gates: g, admission: newAdmission(q, &sqlSource{t, queue, r}, r)}
}

// read reads the gates of a queue, except for its throttler.
func (g *gates) read(t *tx, queue string) (*queueGates, error) {
	rows, err := t.queueRows(sqldb.Texts{queue, sojourn.AllQueues})
	if err != nil {
		return nil, err
	}
	q := &queueGates{queue: queue, now: t.now, row: *rows[queue]}
	q.flow = rules.Flow{Queue: queue, Now: at(t.now), Settings: q.row.QueueSettings, All: rows[sojourn.AllQueues].QueueSettings, State: q.row.flow}
	if err := q.readBuckets(t); err != nil || !rules.Counted(q.row.QueueSettings) {
		return q, err
	}
	if q.flow.Used, q.flow.Groups, err = inFlight(t, queue); err != nil {
		return nil, err
	}
	return q, q.readHead(t)
}

func newGates(cfg Config) *gates {
	return &gates{throttlers: throttlers{own: cfg.Throttlers, compile: cfg.Rules}}
}

// nextTurns is the order in which groups would take their turns if all gates were open.
func nextTurns(t *tx, queue string, kinds []string, limit int) (line []candidate, err error) {
	row, err := t.queueRow(queue)
	if err != nil {
		return nil, err
	}
	row.QueueSettings = sojourn.QueueSettings{Fair: true}
	q := &queueGates{queue: queue, now: t.now, row: row}
	q.flow = rules.Flow{Queue: queue, Now: at(t.now), Settings: row.QueueSettings}
	r := driver.ClaimRequest{Kinds: kinds, Max: limit, Capacity: math.MaxInt64}
	a := newAdmission(q, &sqlSource{t, queue, r}, r)
	going, err := a.source.Going(true)
	if err != nil {
		return nil, err
	}
	a.askInOrder(going)
	if err := a.takeTurns(); err != nil {
		return nil, err
	}
	for _, e := range a.admit {
		line = append(line, e.candidate)
	}
	return line, nil
}

const qFreeAgain = `select id from sj_live where id in (ints($1)) and queue = $2 and state in (3, 5, 6) /*lock*/`

const qHead = `select r1, r2, weight, kind, lane from sj_live where id = $1 and queue = $2 and state = 3 and resumed = 0`

const qSetFlow = `update sj_queue set flow = $1, max_weight = $2, gated = $3 where name = $4 and flow = $5`

// queueGates are the gates of one queue, as a transaction has read them.
type queueGates struct {
	queue   string
	now     int64
	row     queueRow
	flow    rules.Flow
	head    gateCandidate    // of the flow's state
	buckets map[string]int64 // of groups, as they were read
}

// readHead reads the job for which the queue reserves weight.
func (q *queueGates) readHead(t *tx) error {
	head := q.flow.State.Head
	if head == 0 {
		return nil
	}
	err := t.query(qHead, func(r sqldb.Row) error {
		q.head = gateCandidate{candidate{int64(head), r.Int(0), r.Int(1), r.Int(2)}, r.Text(3), r.Text(4), sojourn.PurposeStart}
		return nil
	}, int64(head), q.queue)
	if err == nil && q.head.id == 0 { // claimed, cancelled, moved
		q.flow.State.Head, q.flow.State.Needs, q.flow.State.Overtook = 0, 0, 0
		q.flow.State.Since, q.flow.State.Met = time.Time{}, time.Time{}
	}
	return err
}

// troubleEvery limits how often errors of a throttler are written: each write wakes the other
// processes' claims.
const troubleEvery = 10 * time.Second

// applyMoves puts jobs off, and fails them, as the gates decided.
func (l *gatedClaim) applyMoves() error {
	ids := make(sqldb.Ints, len(l.moves))
	for i, m := range l.moves {
		ids[i] = m.id
	}
	if len(ids) == 0 {
		return nil
	}
	var free sqldb.Ints
	if err := l.t.query(qFreeAgain, func(r sqldb.Row) error { free = append(free, r.Int(0)); return nil }, ids, l.queue); err != nil {
		return err
	}
	rows, err := l.t.load(free)
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
		if err := l.t.happen(row, e); err != nil {
			return err
		}
	}
	return nil
}
