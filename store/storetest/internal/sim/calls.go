package sim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// enqueue predicts the answer of Enqueue. A refusal of the whole call changes nothing.
func (m *model) enqueue(jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, string) {
	p := newPlan(m, jobs)
	for i := range jobs {
		if code := p.one(i); code != "" {
			if !partial {
				return nil, code
			}
			p.done[i] = sojourn.Enqueued{Err: &sojourn.Error{Code: code}}
		}
	}
	if code := p.link(partial); code != "" {
		return nil, code
	}
	p.write()
	return p.done, ""
}

func newPlan(m *model, jobs []sojourn.Job) *plan {
	return &plan{m: m, jobs: jobs, done: make([]sojourn.Enqueued, len(jobs)), ids: map[sojourn.ID]int{}, keys: map[name]int{},
		linked: map[sojourn.ID]map[sojourn.ID]link{}, post: map[sojourn.ID]sojourn.State{}}
}

// plan is one call of Enqueue: it decides about each job in turn, and then writes.
type plan struct {
	m             *model
	jobs          []sojourn.Job
	done          []sojourn.Enqueued
	ids           map[sojourn.ID]int
	keys          map[name]int
	fresh, replay []int // to insert; to replace done[i].ID with
	ending        *job  // the job whose completion enqueues these jobs: its key is free by then

	linked map[sojourn.ID]map[sojourn.ID]link // dependencies of the jobs of the call
	post   map[sojourn.ID]sojourn.State       // ended jobs that decide jobs of the call
}

// one decides about a job: first its id, then its key. It returns the code of a refusal.
func (p *plan) one(i int) string {
	m, j := p.m, &p.jobs[i]
	known := m.jobs[j.ID]
	if known != nil && sameContent(&known.first, j) {
		p.done[i] = sojourn.Enqueued{ID: j.ID, State: known.State, Duplicate: true}
		return ""
	}
	if first, ok := p.ids[j.ID]; ok && known == nil {
		if !sameContent(&p.jobs[first], j) {
			return sojourn.CodeConflict
		}
		p.done[i] = p.done[first]
		p.done[i].Duplicate = true
		return ""
	}
	if !m.good(j.ID) {
		return sojourn.CodeIDExpired
	}
	if known != nil {
		return sojourn.CodeConflict
	}
	if j.Key != "" {
		if met, code := p.key(i); met || code != "" {
			return code
		}
		p.keys[name{j.Kind, j.Key}] = i
	}
	p.done[i] = sojourn.Enqueued{ID: j.ID, State: m.startState(j)}
	p.ids[j.ID] = i
	p.fresh = append(p.fresh, i)
	return ""
}

// sameContent reports whether two calls enqueue the same job, apart from its id and the option
// OnConflict.
func sameContent(a, b *sojourn.Job) bool {
	x, y := *a, *b
	x.ID, x.OnConflict, y.ID, y.OnConflict = 0, 0, 0, 0
	return reflect.DeepEqual(x, y)
}

// key looks up the holder of the key, and reports whether the job is not to be inserted.
func (p *plan) key(i int) (met bool, code string) {
	m, j := p.m, &p.jobs[i]
	n := name{j.Kind, j.Key}
	if first, ok := p.keys[n]; ok {
		if j.OnConflict == sojourn.ReturnError {
			return true, sojourn.CodeConflict
		}
		p.ids[j.ID] = first
		p.done[i] = p.done[first]
		p.done[i].Duplicate = true
		return true, ""
	}
	if !m.taken(0, n) || p.ending != nil && m.keys[n].job == p.ending.ID {
		return false, ""
	}
	h := m.jobs[m.keys[n].job]
	p.done[i] = sojourn.Enqueued{ID: h.ID, State: h.State, Duplicate: true}
	switch {
	case j.OnConflict == sojourn.ReturnError:
		return true, sojourn.CodeConflict
	case j.OnConflict == sojourn.Replace:
		if h.State.Final() || h.Claimed || h.State > sojourn.Ready || h.key != j.Key {
			return true, sojourn.CodeConflict
		}
		p.done[i].State, p.done[i].Replaced = m.startState(j), true
		p.replay = append(p.replay, i)
	}
	return true, ""
}

func (p *plan) write() {
	m := p.m
	for _, i := range p.fresh {
		in := &p.jobs[i]
		j := &job{queue: in.Queue, kind: in.Kind, key: in.Key, first: *in, generation: 1, created: m.now, updated: m.now}
		j.ID = in.ID
		m.fill(j, in)
		m.jobs[j.ID] = j
		if j.key != "" {
			n := name{j.kind, j.key}
			m.remember(n, 0)
			m.keys[n] = &holder{job: j.ID, own: true, live: true}
		}
	}
	for _, i := range p.fresh {
		p.block(m.jobs[p.jobs[i].ID])
	}
	for _, i := range p.replay {
		j := m.jobs[p.done[i].ID]
		was := *j
		m.fill(j, &p.jobs[i])
		if was.State == sojourn.Blocked {
			m.edges.remove(j.ID)
		}
		p.block(j)
		j.record(&was, rules.Transition{To: j.Row, Outcome: "replaced"}, m.now)
		j.updated = m.now
	}
	maps.Copy(m.edges.outbox, p.post)
}

// fill sets the values of the caller's job in a job that no worker has claimed.
func (m *model) fill(j *job, in *sojourn.Job) {
	m.touched[j.ID] = true
	c := *in
	c.Resolve(sojourn.Policy{})
	j.moveTo(m, c.Queue)
	j.args, j.priority, j.Weight, j.Policy = string(c.Args), c.Priority, c.Weight, c.Policy
	j.runAt, j.State = m.now+c.Delay.Microseconds(), m.startState(in)
	j.deadline = m.deadlineOf(c.Policy)
}

func (m *model) deadlineOf(p sojourn.Policy) int64 {
	if p.Deadline == 0 {
		return 0
	}
	return m.now + p.Deadline.Microseconds()
}

func (m *model) startState(j *sojourn.Job) sojourn.State {
	if j.Delay > 0 {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}

// good reports whether a new job may have the id.
func (m *model) good(id sojourn.ID) bool {
	for _, b := range m.blocks {
		if id >= b.first && id < b.first+sojourn.ID(b.size) {
			return m.now-b.leased <= sojourn.IDLife.Microseconds()
		}
	}
	return false
}

// repeated predicts the answer to a claim that was executed before; fresh says that the claim is
// new and is to be executed.
func (m *model) repeated(r driver.ClaimRequest) (jobs []*job, fresh bool) {
	last := m.workers[r.Worker]
	if r.Number == 0 || last == nil || r.Number > last.number {
		return nil, true
	}
	if r.Number < last.number {
		return nil, false
	}
	for _, l := range last.leases {
		if j := m.stands(l); j != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs, len(jobs) == 0
}

// claimable are the jobs that a claim may take, in the order in which it has to.
func (m *model) claimable(r driver.ClaimRequest) []*job {
	var out []*job
	for _, q := range r.Queues {
		if m.queues[q].Paused {
			continue
		}
		line := m.that(func(j *job) bool {
			return j.queue == q && slices.Contains(r.Kinds, j.kind) &&
				(j.State == sojourn.Ready && int64(j.Weight) <= r.Capacity || j.State == sojourn.Errored && slices.Contains(r.Decidable, j.kind) ||
					j.pollAt > 0 && j.pollAt <= m.now && slices.Contains(r.Pollable, j.kind))
		})
		rank := func(j *job) (int64, int64) {
			if j.State == sojourn.Awaiting { // polled in the order of started jobs
				return rules.ResumedRank, j.pollAt
			}
			return rules.Rank(m.queues[q], j.priority, time.UnixMicro(j.runAt), j.Resumed)
		}
		slices.SortFunc(line, func(a, b *job) int {
			a1, a2 := rank(a)
			b1, b2 := rank(b)
			return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.ID, b.ID))
		})
		out = append(out, line...)
	}
	return out
}

// next lists a queue in order, with the jobs that the next claim makes ready before it takes any.
func (m *model) next(queue string) []*job {
	resumed := map[sojourn.ID]bool{}
	line := m.that(func(j *job) bool {
		if j.queue != queue || j.State != sojourn.Ready && j.State != sojourn.Scheduled && j.State != sojourn.Running {
			return false
		}
		resumed[j.ID] = j.Resumed
		if j.State == sojourn.Ready {
			return true
		}
		e, count := m.overdue(j, &driver.Swept{})
		if count == nil || j.wakeAt() > m.now {
			return false
		}
		tr, err := rules.Decide(j.Row, e)
		resumed[j.ID] = tr.To.Resumed
		return err == nil && tr.To.State == sojourn.Ready
	})
	rank := func(j *job) (int64, int64) {
		return rules.Rank(sojourn.QueueSettings{}, j.priority, time.UnixMicro(j.runAt), resumed[j.ID])
	}
	slices.SortFunc(line, func(a, b *job) int {
		a1, a2 := rank(a)
		b1, b2 := rank(b)
		return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.ID, b.ID))
	})
	return line
}

// uses returns the part of a worker's capacity that a step of a job takes.
func uses(j *job) int64 {
	switch j.State {
	case sojourn.Errored:
		return 0
	case sojourn.Awaiting:
		return 1
	}
	return int64(j.Weight)
}

// take leases the jobs that a claim has taken.
func (m *model) take(r driver.ClaimRequest, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	var leases []sojourn.Lease
	for _, j := range jobs {
		was := *j
		tr, err := rules.Decide(j.Row, rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, j.kind)})
		if err != nil {
			panic(err) // it was claimable
		}
		j.Row = tr.To
		j.epoch, j.worker, j.updated, j.began = j.epoch+1, r.Worker, m.now, m.now
		j.lease = cmp.Or(r.Lease, sojourn.DefaultLease).Microseconds()
		j.leaseUntil = m.now + j.lease
		switch j.Purpose {
		case sojourn.PurposeStart:
			j.timeoutAt = m.now + j.Policy.Timeout.Microseconds()
		case sojourn.PurposeResume:
			if j.timeoutAt += m.now - was.rested; j.timeoutAt <= m.now { // docs/concepts.md#the-clocks
				j.timeoutAt = m.now + min(j.lease, j.Policy.Timeout.Microseconds())
			}
		}
		j.rested, j.decideBy, j.pollAt = 0, 0, 0
		m.touched[j.ID] = true
		leases = append(leases, sojourn.Lease{ID: j.ID, Epoch: j.epoch, Worker: j.worker})
	}
	if r.Number > 0 {
		m.workers[r.Worker] = &asked{r.Number, leases}
	}
}

// save is the code that Save must answer for one item, "" for none.
func (m *model) save(s driver.Saved) string {
	j := m.stands(s.Lease)
	if j == nil {
		return sojourn.CodeLeaseLost
	}
	m.touched[j.ID] = true
	if s.Key != "" && s.Key != j.key {
		n := name{j.kind, s.Key}
		h := m.keys[n]
		switch {
		case j.key != "":
			return sojourn.CodeConflict
		case h != nil && h.job == j.ID && h.live: // it has awaited the key before
		case h != nil && (h.live || h.until > m.now):
			return sojourn.CodeConflict
		default:
			m.remember(n, j.ID)
			m.keys[n] = &holder{job: j.ID, live: true}
		}
		j.key = s.Key
	}
	if s.Checkpoint != nil {
		j.checkpoint = string(s.Checkpoint)
	}
	if s.Progress != nil {
		j.progress = *s.Progress
	}
	j.updated = m.now
	m.prolong(j)
	return ""
}

// finish predicts the answer of Finish for one outcome.
func (m *model) finish(o sojourn.Outcome) driver.Finished {
	j := m.stands(o.Lease)
	if j == nil {
		return m.finishedBefore(o)
	}
	e := rules.Event{Type: rules.EventFinished, Outcome: &o}
	e.Answered = o.Type == sojourn.OutcomeAnswer && j.Purpose == sojourn.PurposePoll && m.answered(j)
	for _, k := range o.Wait.Keys {
		e.KeyConflict = e.KeyConflict || m.taken(j.ID, name{j.kind, k})
	}
	next := newPlan(m, o.Next)
	next.ending = j
	for i := range o.Next {
		if code := next.one(i); code != "" {
			return driver.Finished{Status: driver.FinishRefused, State: j.State}
		}
	}
	if code := next.link(false); code != "" {
		return driver.Finished{Status: driver.FinishRefused, State: j.State}
	}
	with := change{string(o.Result), "", o.Verdict}
	if o.Type == sojourn.OutcomeAdvance {
		with.queue, with.verdict.Priority = o.Queue, o.Priority
	}
	if err := m.happen(j, e, with); err != nil {
		return driver.Finished{Status: driver.FinishRefused, State: j.State}
	}
	next.write()
	return driver.Finished{Status: driver.FinishApplied, State: j.State}
}

func (m *model) finishedBefore(o sojourn.Outcome) driver.Finished {
	f := driver.Finished{Status: driver.FinishLost, Reason: m.whyLost(o.Lease)}
	j := m.jobs[o.Lease.ID]
	if j == nil || !j.had(o.Lease) {
		return f
	}
	f.State = j.State
	for _, e := range slices.Backward(j.history) {
		if e.epoch == o.Lease.Epoch && e.worker == o.Lease.Worker && o.Lease.Epoch > 0 {
			if e.outcome == string(o.Type) {
				return driver.Finished{Status: driver.FinishRepeated, State: e.state}
			}
			break
		}
	}
	return f
}

// respond predicts the answer of Respond. t is the target that the response's capability names.
func (m *model) respond(r sojourn.Response, t *capability) sojourn.Responded {
	id, again, conflict := identity(r, t), sojourn.Duplicate, false
	if first, ok := m.messages[id]; ok && first.content != content(r) {
		id, again, conflict = id+" conflict "+content(r), sojourn.Conflicting, true
	}
	if first, ok := m.messages[id]; ok {
		answer := sojourn.Responded{Outcome: again, Seq: first.seq}
		if stored := m.inbox[first.seq]; stored != nil {
			answer.Job = stored.job
			stored.duplicates++
		}
		return answer
	}
	s := &message{seq: m.nextSeq, r: r, by: t, outcome: sojourn.Early, received: m.now}
	m.nextSeq++
	m.messages[id], m.inbox[s.seq] = known{s.seq, content(r)}, s
	to := r.Job
	if t != nil {
		to = t.job
	} else if h := m.keys[name{r.Kind, r.Key}]; r.Key != "" && h != nil {
		to = h.job
	}
	s.job = to
	j := m.jobs[to]
	if j != nil {
		m.touched[j.ID] = true
	}
	running := j != nil && (j.State == sojourn.Running || j.State == sojourn.Awaiting) && j.AttemptOpen
	switch {
	case conflict:
		s.outcome = sojourn.Conflicting
		if j == nil || j.State.Final() {
			s.expires = m.now + sojourn.DefaultInboxKeep.Microseconds()
		}
	case r.Park:
		s.outcome, s.expires = sojourn.Parked, m.now+sojourn.DefaultInboxKeep.Microseconds()
	case to == 0 && r.Progress:
		s.outcome, s.expires = sojourn.Unmatched, m.now+sojourn.DefaultInboxKeep.Microseconds()
	case to == 0:
		s.expires = m.now + m.inboxTTL
	case j == nil || j.State.Final():
		s.outcome, s.expires = sojourn.Late, m.now+sojourn.DefaultInboxKeep.Microseconds()
	case t != nil && (t.generation != j.generation || t.attempt != j.Attempt || t.wait != j.Waits):
		s.outcome = sojourn.Stale
	case r.Progress && running:
		s.outcome = sojourn.Applied
		m.progress(j, string(r.Body))
	case r.Progress:
		s.outcome = sojourn.Late
	default:
		j.Kept++
		j.updated = m.now
		m.match(j)
	}
	return sojourn.Responded{Outcome: s.outcome, Job: to, Seq: s.seq}
}

// identity is the message id with its scope: the capability, the key of a source, or the source.
func identity(r sojourn.Response, t *capability) string {
	switch {
	case t != nil:
		return fmt.Sprint(*t, " ", r.MessageID)
	case r.PerKey && !r.Park:
		return fmt.Sprintf("%s %s/%s %d %s", r.Source, r.Kind, r.Key, r.Job, r.MessageID)
	}
	return r.Source + " " + r.MessageID
}

// content is the part of a message that must be the same when it is sent again.
func content(r sojourn.Response) string {
	if r.Park {
		r.Reason, r.Error = "", ""
	}
	return fmt.Sprintf("%s/%s %d %v %v %v %q %q %q", r.Kind, r.Key, r.Job, r.Failed, r.Progress, r.Park, r.Reason, r.Error, r.Body)
}

// progress restarts the beat of a wait.
func (m *model) progress(j *job, text string) {
	if j.beatUntil > 0 {
		j.beatUntil = m.after(j.Wait.Beat)
	}
	if text != "" {
		j.progress = text
	}
	j.updated = m.now
}
