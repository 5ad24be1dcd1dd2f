package gate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Gates is what a process knows for the gates of all queues: its throttlers, the cursors of their
// scans, and values that it has read a moment ago. Safe for concurrent use.
type Gates struct {
	Throttlers throttlers
	cursors    scanCursors
	Breakers   jobrow.BoundedMap[string, CachedBreaker] // queue → its setting, a second old at most
	starting   jobrow.BoundedMap[string, bool]          // queue → whether this process's last claim has started jobs of it
}

// Claim is the part of a claim that concerns a queue with gates: the jobs that may start, and
// how the gates learn which of them have. The gates are asked under the lock of the queue's row, so
// that their counts stay valid until the commit.
type Claim struct {
	*Admission
	t     *txn.Tx
	gates *Gates
	place map[int64]int // of each admitted candidate, by its id
}

// askGates reads the gates, and asks them about the candidates of the queue.
func (l *Claim) askGates() error {
	q, err := l.gates.read(l.t, l.Queue)
	if err != nil {
		return err
	}
	if l.begin(q); q.Flow.Settings.Paused || q.Flow.All.Paused {
		return nil
	}
	if err := l.gates.beginThrottle(l.t, l.Admission); err != nil {
		return err
	}
	defer l.End()
	if l.Pass == nil {
		return l.run()
	}
	l.cursor = l.gates.cursors.get(l.Queue)
	err = l.run()
	l.gates.cursors.set(l.Queue, l.cursor)
	return err
}

// begin starts the admission anew. It keeps the time at which a gate opens.
func (l *Claim) begin(q *queueGates) {
	opens := l.Opens
	l.Admission = newAdmission(q, l.Source, l.r)
	l.Opens = opens
}

// Close removes jobs that cannot be locked, and puts off and fails jobs as the gates decided. The
// queue is locked if any job starts.
func (l *Claim) Close(chosen []jobrow.Candidate) ([]jobrow.Candidate, error) {
	l.place = map[int64]int{}
	for i := range l.Admitted {
		l.place[l.Admitted[i].ID] = i
	}
	var ids sqldb.Ints
	for _, c := range chosen {
		if _, ok := l.place[c.ID]; ok {
			ids = append(ids, c.ID)
		}
	}
	if l.t.Concurrent() && len(ids) > 0 {
		free := map[int64]bool{}
		if err := l.t.Read(qFreeAgain, func(r sqldb.Row) error { free[r.Int(0)] = true; return nil }, ids, l.Queue); err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(c jobrow.Candidate) bool { _, here := l.place[c.ID]; return here && !free[c.ID] })
	}
	return chosen, l.applyMoves()
}

// remember stores the state of the gates and the weight that may be in flight, if either has
// changed.
func (l *Claim) remember(flow rules.FlowState, allowed int64) error {
	text, err := jobrow.JSONText(flow)
	same := text == l.Row.FlowText || l.Row.FlowText == "" && text == "{}"
	if err != nil || !l.Row.Found || same && allowed == l.Row.MaxWeight {
		return err
	}
	row := l.Row
	row.Flow = flow
	_, err = l.t.Write(qSetFlow, text, allowed, HasGates(&row), l.Queue, l.Row.FlowText)
	return err
}

// RecordStarts stores the state of the gates.
func (l *Claim) RecordStarts(rows []*jobrow.Row) error {
	last := -1
	var started []*Candidate
	for _, row := range rows {
		if i, ok := l.place[int64(row.ID)]; ok {
			last, started = max(last, i), append(started, &l.Admitted[i])
		}
	}
	flow := l.Flow.Close()
	var err error
	if flow.Pace, err = l.pay(started); err != nil {
		return err
	}
	flow.Trouble = l.trouble(flow.Trouble)
	if last >= 0 && rules.Grouped(l.Row.QueueSettings) && l.Admitted[last].Lane >= jobrow.LaneGroup {
		flow.Turn = l.Admitted[last].Lane
	}
	allowed := l.Row.MaxWeight
	if limit := l.Row.Limit; limit > 0 && allowed > limit && !flow.Counting { // a lowered limit drains, and does not fill again
		allowed = max(limit, min(allowed, l.Flow.Used))
	}
	return l.remember(flow, allowed)
}

// trouble adds the throttler's errors to the stored state of the queue.
func (l *Claim) trouble(was sojourn.Trouble) sojourn.Trouble {
	if l.Pass == nil {
		return was
	}
	failures := l.gates.Throttlers.failures(l.Queue, l.Pass.failed)
	if failures == 0 || l.Pass.last == nil || jobrow.Time(l.now).Sub(was.At).Abs() < troubleEvery {
		return was
	}
	l.t.After = append(l.t.After, func() { l.gates.Throttlers.failures(l.Queue, -failures) })
	return sojourn.Trouble{Count: was.Count + failures, Text: cmp.Or(firstLine(l.Pass.last), "error"), At: jobrow.Time(l.now)}
}

// Admit asks the gates of a queue. Where other transactions may claim concurrently, it first runs
// without a lock: a claim that starts nothing must write nothing, or two idle nodes would wake each
// other for ever. If the last claim started jobs, it locks at once, and asks only once.
func (g *Gates) Admit(t *txn.Tx, queue string, r driver.ClaimRequest) (*Claim, error) {
	l := g.newClaim(t, queue, r)
	starts, _ := g.starting.Get(queue)
	if !starts && !t.OwnsQueue(queue) {
		was := g.cursors.get(queue)
		if err := l.askGates(); err != nil || len(l.Admitted)+len(l.moves) == 0 {
			return l, err
		}
		g.cursors.set(queue, was) // the second pass must begin at the same cursor
		l.begin(&queueGates{Queue: queue, now: t.Now})
	}
	if got, err := t.LockQueue(queue); err != nil || !got { // another claim holds the lock; its commit wakes this one
		return l, err
	}
	err := l.askGates()
	if err == nil {
		g.starting.Put(queue, len(l.Admitted)+len(l.moves) > 0)
	}
	return l, err
}

// beginThrottle makes an admission ask the queue's throttler, if it has one. Unless it fails, the
// caller ends the admission.
func (g *Gates) beginThrottle(t *txn.Tx, a *Admission) error {
	if a.Row.Throttle == "" {
		return nil
	}
	flight, err := readFlight(t, a.Queue)
	if err != nil {
		return err
	}
	flight.Limit = max(a.Row.Limit, 0)
	a.throttle(g.Throttlers.begin(a.Queue, a.Row.Throttle), flight)
	return nil
}

// Explain reads the gates to ask them about single jobs. Groups may borrow, as in a claim after all
// other groups have had their turn. The caller ends the admission.
func (g *Gates) Explain(t *txn.Tx, queue string, kinds []string) (*Admission, error) {
	q, err := g.read(t, queue)
	if err != nil {
		return nil, err
	}
	q.Flow.Borrow = q.Row.Borrow
	r := driver.ClaimRequest{Kinds: kinds, Max: 1}
	a := newAdmission(q, &sqlSource{t, queue, r}, r)
	return a, g.beginThrottle(t, a)
}

// newClaim is a claim that admits nothing.
func (g *Gates) newClaim(t *txn.Tx, queue string, r driver.ClaimRequest) *Claim {
	q := &queueGates{Queue: queue, now: t.Now}
	return &Claim{t: t, gates: g, Admission: newAdmission(q, &sqlSource{t, queue, r}, r)}
}

// read reads the gates of a queue, except for its throttler.
func (g *Gates) read(t *txn.Tx, queue string) (*queueGates, error) {
	rows, err := t.ReadQueues(sqldb.Texts{queue, sojourn.AllQueues})
	if err != nil {
		return nil, err
	}
	q := &queueGates{Queue: queue, now: t.Now, Row: *rows[queue]}
	q.Flow = rules.Flow{Queue: queue, Now: jobrow.Time(t.Now), Settings: q.Row.QueueSettings, All: rows[sojourn.AllQueues].QueueSettings, State: q.Row.Flow}
	if err := q.readBuckets(t); err != nil || !rules.Counted(q.Row.QueueSettings) {
		return q, err
	}
	if q.Flow.Used, q.Flow.Groups, err = inFlight(t, queue); err != nil {
		return nil, err
	}
	return q, q.readHead(t)
}

func NewGates(cfg txn.Config) *Gates {
	return &Gates{Throttlers: throttlers{Own: cfg.Throttlers, Compile: cfg.Rules}}
}

// NextTurns is the order in which groups would take their turns if all gates were open.
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
	going, err := a.Source.Going(true)
	if err != nil {
		return nil, err
	}
	a.askInOrder(going)
	if err := a.takeTurns(); err != nil {
		return nil, err
	}
	for _, e := range a.Admitted {
		line = append(line, e.Candidate)
	}
	return line, nil
}

const qFreeAgain = `select id from sj_live where id in (ints($1)) and queue = $2 and state in (3, 5, 6) /*lock*/`

const qHead = `select r1, r2, weight, kind, lane from sj_live where id = $1 and queue = $2 and state = 3 and resumed = 0`

const qSetFlow = `update sj_queue set flow = $1, max_weight = $2, gated = $3 where name = $4 and flow = $5`

// queueGates are the gates of one queue, as a transaction has read them.
type queueGates struct {
	Queue   string
	now     int64
	Row     txn.QueueRow
	Flow    rules.Flow
	head    Candidate        // of the flow's state
	buckets map[string]int64 // of groups, as they were read
}

// readHead reads the job for which the queue reserves weight.
func (q *queueGates) readHead(t *txn.Tx) error {
	head := q.Flow.State.Head
	if head == 0 {
		return nil
	}
	err := t.Read(qHead, func(r sqldb.Row) error {
		q.head = Candidate{jobrow.Candidate{ID: int64(head), R1: r.Int(0), R2: r.Int(1), Weight: r.Int(2)}, r.Text(3), r.Text(4), sojourn.PurposeStart}
		return nil
	}, int64(head), q.Queue)
	if err == nil && q.head.ID == 0 { // claimed, cancelled, moved
		q.Flow.State.Head, q.Flow.State.Needs, q.Flow.State.Overtook = 0, 0, 0
		q.Flow.State.Since, q.Flow.State.Met = time.Time{}, time.Time{}
	}
	return err
}

// troubleEvery limits how often errors of a throttler are written: each write wakes the other
// processes' claims.
const troubleEvery = 10 * time.Second

// applyMoves puts jobs off, and fails them, as the gates decided.
func (l *Claim) applyMoves() error {
	ids := make(sqldb.Ints, len(l.moves))
	for i, m := range l.moves {
		ids[i] = m.id
	}
	if len(ids) == 0 {
		return nil
	}
	var free sqldb.Ints
	if err := l.t.Read(qFreeAgain, func(r sqldb.Row) error { free = append(free, r.Int(0)); return nil }, ids, l.Queue); err != nil {
		return err
	}
	rows, err := l.t.Load(free)
	if err != nil {
		return err
	}
	for _, m := range l.moves {
		row := rows[sojourn.ID(m.id)]
		if row == nil || row.State != sojourn.Ready || row.Resumed {
			continue
		}
		e := rules.Event{Type: rules.EventPutOff, Delay: max(m.later.Sub(jobrow.Time(l.now)), 0)}
		if m.fail != "" {
			e = rules.Event{Type: rules.EventFail, Reason: m.fail, Error: "sojourn: the throttler of queue " + l.Queue + " failed it"}
		}
		e.Delay = min(e.Delay, sojourn.MaxHorizon)
		if err := lifecycle.ApplyEvent(l.t, row, e); err != nil {
			return err
		}
	}
	return nil
}
