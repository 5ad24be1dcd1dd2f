package sqlstore

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// never is the wake_at of a job that only a claim moves.
const never = math.MaxInt64

// live is a row of sj_live, with the columns of sj_job that the rules need.
type live struct {
	rules.Row
	queue, kind, key string
	group            string
	lane             string // see rank.go
	priority         int32
	generation       int32
	epoch            int64
	worker           string // of the last claim
	history          int32  // the number of the newest history row
	awaited          bool   // has keys of its own waits in sj_key
	hasData          bool   // has a row in sj_data

	runAt, updated      int64 // microseconds, as all below; 0 = none
	leaseUntil, leaseUs int64
	began               int64 // of the current step
	waitUntil           int64 // limit of the wait by Await(within)
	beatUntil           int64 // the wait ends then unless a progress response comes
	pollAt              int64 // the next poll step; only of an awaiting job
	timeoutAt           int64
	rested              int64 // when the job was resumed: its clock has stood still since then
	decideBy            int64
	deadline            int64
	policyJSON          string
	r1, r2              int64 // rank in the claim index
	wakeAt              int64
}

// liveColumns are read by scanLive in this order, from sj_live l join sj_job j.
const liveColumns = `l.id, l.queue, l.kind, l.key, l.state, l.resumed, l.purpose, l.priority, l.weight, l.run_at_us,
	l.generation, l.epoch, l.worker, l.lease_until_us, l.lease_us, l.began_us, l.attempt, l.attempt_open, l.failures, l.crashes,
	l.claimed, l.retry_handler, l.held, l.kept, l.in_hand, l.given, l.no_poll, l.waits, l.wait, l.wait_until_us, l.beat_until_us,
	l.poll_at_us, l.timeout_at_us, l.rested_us, l.decide_by_us, l.deadline_us, l.history, l.has_data, l.updated_us, l.wake_at_us, l.r1, l.r2, l.lane, j.grp, j.policy`

const liveColumnCount = 45

func (t *tx) scanLive(r sqldb.Row) (*live, error) {
	n := 0
	num := func() int64 { n++; return r.Int(n - 1) }
	num32 := func() int32 { return int32(num()) }
	flag := func() bool { return num() != 0 }
	text := func() string { n++; return r.Text(n - 1) }
	var l live
	l.ID = sojourn.ID(num())
	l.queue, l.kind, l.key = text(), text(), text()
	l.State, l.Resumed, l.Purpose = sojourn.State(num()), flag(), sojourn.Purpose(num())
	l.priority, l.Weight, l.runAt = num32(), num32(), num()
	l.generation, l.epoch, l.worker, l.leaseUntil, l.leaseUs, l.began = num32(), num(), text(), num(), num(), num()
	l.Attempt, l.AttemptOpen, l.Failures, l.Crashes = num32(), flag(), num32(), num32()
	l.Claimed, l.RetryHandler, l.Held, l.Kept, l.InHand, l.Given, l.NoPoll, l.Waits = flag(), flag(), num32(), num32(), num32(), flag(), flag(), num32()
	wait := text()
	l.waitUntil, l.beatUntil, l.pollAt, l.timeoutAt, l.rested, l.decideBy, l.deadline = num(), num(), num(), num(), num(), num(), num()
	l.history, l.hasData, l.updated, l.wakeAt = num32(), flag(), num(), num()
	l.r1, l.r2, l.lane, l.group = num(), num(), text(), text()
	l.policyJSON = text()
	var err error
	if l.Policy, err = t.s.policy(l.policyJSON); err != nil {
		return nil, err
	}
	if wait != "" {
		l.awaited = true
		l.Wait, err = t.s.wait(wait)
	}
	return &l, err
}

const qLive = `select ` + liveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1)) order by l.id /*lock l*/`

// load reads and locks live rows.
func (t *tx) load(ids sqldb.Ints) (map[sojourn.ID]*live, error) {
	return t.loadBy(qLive, ids, noMore)
}

func noMore(sqldb.Row, *live) error { return nil }

// loadBy is load by a query that begins with liveColumns; more reads the columns after them.
func (t *tx) loadBy(q string, ids sqldb.Ints, more func(sqldb.Row, *live) error) (map[sojourn.ID]*live, error) {
	found := make(map[sojourn.ID]*live, len(ids))
	return found, t.loadInto(found, q, ids, more)
}

func (t *tx) loadInto(found map[sojourn.ID]*live, q string, ids sqldb.Ints, more func(sqldb.Row, *live) error) error {
	t.places = nil // settings for a row are read after it was locked
	return t.query(q, t.scanInto(found, more), ids)
}

func (t *tx) scanInto(found map[sojourn.ID]*live, more func(sqldb.Row, *live) error) func(sqldb.Row) error {
	return func(r sqldb.Row) error {
		l, err := t.scanLive(r)
		if err != nil {
			return err
		}
		found[l.ID] = l
		return more(r, l)
	}
}

func idsOf(rows []*live) sqldb.Ints {
	ids := make(sqldb.Ints, len(rows))
	for i, l := range rows {
		ids[i] = int64(l.ID)
	}
	return ids
}

func (t *tx) loadOne(id sojourn.ID) (*live, error) {
	found, err := t.load(sqldb.Ints{int64(id)})
	return found[id], err
}

// readLeased reads and locks the rows of leases that were not read yet. A row that changes in this
// transaction is read again.
func (t *tx) readLeased(leases []sojourn.Lease) error {
	if t.leased == nil {
		t.leased = make(map[sojourn.ID]*live, len(leases))
	}
	ids := make(sqldb.Ints, 0, len(leases))
	for _, l := range leases {
		if _, ok := t.leased[l.ID]; ok {
			continue
		}
		if row := t.recently(l); row != nil {
			t.leased[l.ID] = row
		} else {
			ids = append(ids, int64(l.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := t.load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t.leased[sojourn.ID(id)] = found[sojourn.ID(id)] // nil: the job is not live
	}
	return nil
}

// underLease returns the row of a lease that is still valid; nil if the lease is lost.
func (t *tx) underLease(lease sojourn.Lease) (*live, error) {
	if _, ok := t.leased[lease.ID]; !ok {
		if err := t.readLeased([]sojourn.Lease{lease}); err != nil {
			return nil, err
		}
	}
	if l := t.leased[lease.ID]; l != nil && l.stands(lease) {
		return l, nil
	}
	return nil, nil
}

// stands reports whether id, epoch and worker of a lease match the row and the state is running.
// This is the fence of every write on behalf of a step (inv:F2).
func (l *live) stands(lease sojourn.Lease) bool {
	return l.ID == lease.ID && l.epoch == lease.Epoch && l.worker == lease.Worker && l.State == sojourn.Running
}

func (l *live) leaseOf() sojourn.Lease {
	return sojourn.Lease{ID: l.ID, Epoch: l.epoch, Worker: l.worker}
}

// wake sets wake_at: the time at which the sweep must check the row at the latest.
func (l *live) wake() {
	l.wakeAt = earliest(l.deadline)
	switch l.State {
	case sojourn.Scheduled:
		l.wakeAt = earliest(l.runAt, l.deadline)
	case sojourn.Ready:
		if l.Resumed {
			l.wakeAt = earliest(l.timeoutAt, l.deadline)
		}
	case sojourn.Running:
		l.wakeAt = earliest(l.leaseUntil, l.oneLeaseLater(l.deadline))
		if l.Purpose != sojourn.PurposeDecide {
			l.wakeAt = earliest(l.wakeAt, l.oneLeaseLater(l.timeoutAt))
		}
		if l.Purpose == sojourn.PurposePoll {
			l.wakeAt = earliest(l.wakeAt, l.waitEnd())
		}
	case sojourn.Awaiting:
		l.wakeAt = earliest(l.waitEnd(), l.timeoutAt, l.deadline)
	case sojourn.Errored:
		l.wakeAt = earliest(l.decideBy, l.deadline)
	}
}

// waitEnd returns when the wait ends by its own limit or its beat; never if neither runs. If a
// response came during a poll step, both stand still: the end of the step determines whether the
// response ends the wait.
func (l *live) waitEnd() int64 {
	if l.State == sojourn.Running && l.Kept > 0 {
		return never
	}
	return earliest(l.waitUntil, l.beatUntil)
}

// earliest is the least of the times that are set.
func earliest(times ...int64) int64 {
	e := int64(never)
	for _, us := range times {
		if us > 0 {
			e = min(e, us)
		}
	}
	return e
}

// oneLeaseLater is the time at which the sweep acts on a timeout or a deadline of a running job.
// The worker, which knows the remaining time, acts first. So no second step overlaps a live worker,
// even if its step began after the time was over.
func (l *live) oneLeaseLater(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, l.began) + l.leaseUs
}

// save writes a row back, with the next flush, if its state and epoch are still the ones that were
// read.
func (t *tx) save(was, l *live) error {
	l.updated = max(t.now, was.updated)
	l.wake()
	if err := t.place(was, l); err != nil {
		return err
	}
	state, epoch, err := t.unsaved(was)
	if err != nil {
		return err
	}
	p := &t.pending
	if p.place == nil {
		p.place = map[sojourn.ID]int{}
	}
	t.land(was, l, l.Held)
	p.place[l.ID] = len(p.saves)
	p.saves = append(p.saves, savedRow{state: state, epoch: epoch, now: l})
	t.noteChange(l)
	return nil
}

// saveStart is save after a claim.
func (t *tx) saveStart(was, l *live) error {
	if t.startFresh(was, l) {
		return nil
	}
	_, changed := t.pending.place[was.ID]
	err := t.save(was, l)
	if err == nil && !changed {
		t.pending.saves[len(t.pending.saves)-1].only = byClaim
	}
	return err
}

// unsaved removes the pending save of a row that changes once more, and returns its state and epoch
// in the database.
func (t *tx) unsaved(was *live) (sojourn.State, int64, error) {
	delete(t.leased, was.ID)
	i, ok := t.pending.place[was.ID]
	if !ok {
		return was.State, was.epoch, nil
	}
	before := t.pending.saves[i]
	if before.now.State != was.State || before.now.epoch != was.epoch {
		return 0, 0, errChanged(was.ID)
	}
	delete(t.pending.place, was.ID)
	t.pending.saves[i].now = nil
	return before.state, before.epoch, nil
}

// waitJSON is empty for a job that has never awaited in this generation: it would wait for its own
// key.
func waitJSON(l *live) string {
	if !l.awaited {
		return ""
	}
	b, _ := json.Marshal(l.Wait) // texts and numbers: it cannot fail
	return string(b)
}

// wait decodes a stored wait; most waits without keys of their own share a few texts.
func (s *core) wait(text string) (sojourn.Wait, error) {
	w, ok := s.waits.get(text)
	if ok {
		return w, nil
	}
	err := json.Unmarshal([]byte(text), &w)
	if err == nil && len(w.Keys) == 0 {
		s.waits.put(text, w)
	}
	return w, err
}

// noteChange collects the events to publish after the commit.
func (t *tx) noteChange(l *live) {
	if l.State == sojourn.Ready || l.State == sojourn.Errored {
		t.ready[place{l.queue, l.kind}]++
	}
	if l.pollAt > 0 {
		t.polls = append(t.polls, poll{place{l.queue, l.kind}, l.pollAt})
	}
	if l.wakeAt < never && (t.due == 0 || l.wakeAt < t.due) {
		t.due = l.wakeAt
	}
}

func errChanged(id sojourn.ID) error {
	return raced("job " + strconv.FormatInt(int64(id), 10) + " changed inside a transaction")
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// poll is the next poll step of a job.
type poll struct {
	place
	at int64
}
