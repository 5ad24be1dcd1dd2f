package gate

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Gates holds what this process keeps for the gates of all queues: its throttlers, the cursors of
// their scans, and settings that it has read a moment ago. Safe for concurrent use.
type Gates struct {
	Throttlers throttlers
	cursors    scanCursors
	Breakers   jobrow.BoundedMap[string, CachedBreaker] // queue → its setting, at most a second old
	starting   jobrow.BoundedMap[string, bool]          // queue → whether this process's last claim has started jobs of it
}

// NewGates makes the gates of one store, with the throttlers of its configuration.
func NewGates(cfg txn.Config) *Gates {
	return &Gates{Throttlers: throttlers{Own: cfg.Throttlers, Compile: cfg.Rules}}
}

// Admit decides which jobs of a queue a claim may start. Where other transactions may claim
// concurrently, it first decides without a lock: a claim that starts nothing must write nothing, or
// two idle nodes would wake each other for ever. If the last claim has started jobs, it locks at
// once and decides only once. If another claim has the lock, nothing is admitted.
func (g *Gates) Admit(t *txn.Tx, queue string, r driver.ClaimRequest) (*Claim, error) {
	c := g.newClaim(t, queue, r)
	starts, _ := g.starting.Get(queue)
	if !starts && !t.OwnsQueue(queue) {
		was := g.cursors.get(queue)
		if err := c.decide(); err != nil || len(c.Admitted)+len(c.moves) == 0 {
			return c, err
		}
		g.cursors.set(queue, was) // the second pass must begin at the same cursor
		c.restart(&queueGates{Queue: queue, now: t.Now})
	}
	if got, err := t.LockQueue(queue); err != nil || !got { // another claim holds the lock; its commit wakes this one
		return c, err
	}
	err := c.decide()
	if err == nil {
		g.starting.Put(queue, len(c.Admitted)+len(c.moves) > 0)
	}
	return c, err
}

// Explain returns an admission that has read the gates and decided nothing, for questions about
// single jobs. Groups may borrow, as in a claim after all groups have had their turns. The caller
// calls its End.
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

// beginThrottle adds the queue's throttler to an admission, if the queue has one. Unless it fails,
// the caller calls Admission.End.
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

// queueGates are the gates of one queue, as a transaction has read them.
type queueGates struct {
	Queue   string
	now     int64
	Row     txn.QueueRow
	Flow    rules.Flow
	head    Candidate        // the job for which weight is reserved; id 0: none
	buckets map[string]int64 // of groups, as they were read
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

const qHead = `select r1, r2, weight, kind, lane from sj_live where id = $1 and queue = $2 and state = 3 and resumed = 0`

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
