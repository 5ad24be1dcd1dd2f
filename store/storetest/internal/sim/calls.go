package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// enqueue is what Enqueue must answer. A refusal of the whole call changes nothing.
func (m *model) enqueue(jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, string) {
	p := plan{m: m, jobs: jobs, done: make([]sojourn.Enqueued, len(jobs)), ids: map[sojourn.ID]int{}, keys: map[name]int{}}
	for i := range jobs {
		if code := p.one(i); code != "" {
			if !partial {
				return nil, code
			}
			p.done[i] = sojourn.Enqueued{Err: &sojourn.Error{Code: code}}
		}
	}
	p.write()
	return p.done, ""
}

// plan is one call of Enqueue: it decides about each job in turn, and then writes.
type plan struct {
	m             *model
	jobs          []sojourn.Job
	done          []sojourn.Enqueued
	ids           map[sojourn.ID]int
	keys          map[name]int
	fresh, replay []int // to insert; to replace done[i].ID with
	ending        *job  // the job whose completion carries these along: its key is free by then
}

// one decides about a job: first its id, then its key. It returns the code of a refusal.
func (p *plan) one(i int) string {
	m, j := p.m, &p.jobs[i]
	if known := m.jobs[j.ID]; known != nil {
		if known.kind != j.Kind || known.firstKey != j.Key && (known.State.Final() || known.key != j.Key) {
			return sojourn.CodeConflict
		}
		p.done[i] = sojourn.Enqueued{ID: j.ID, State: known.State, Duplicate: true}
		return ""
	}
	if first, ok := p.ids[j.ID]; ok {
		if f := &p.jobs[first]; f.Kind != j.Kind || f.Key != j.Key || string(f.Args) != string(j.Args) {
			return sojourn.CodeConflict
		}
		p.done[i] = p.done[first]
		p.done[i].Duplicate = true
		return ""
	}
	if !m.good(j.ID) {
		return sojourn.CodeIDExpired
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

// key looks at who has the key, and reports whether the job is not to be inserted.
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
		j := &job{queue: in.Queue, kind: in.Kind, key: in.Key, firstKey: in.Key, generation: 1, created: m.now, updated: m.now}
		j.ID = in.ID
		m.fill(j, in)
		m.jobs[j.ID] = j
		if j.key != "" {
			n := name{j.kind, j.key}
			m.remember(n, 0)
			m.keys[n] = &holder{job: j.ID, own: true, live: true}
		}
	}
	for _, i := range p.replay {
		j := m.jobs[p.done[i].ID]
		was := *j
		m.fill(j, &p.jobs[i])
		j.record(&was, sojourn.Transition{To: j.Row, Outcome: "replaced"}, m.now)
		j.updated = m.now
	}
}

// fill gives a job that nobody has claimed the values of the caller's.
func (m *model) fill(j *job, in *sojourn.Job) {
	m.touched[j.ID] = true
	if _, ok := m.queues[in.Queue]; !ok {
		m.queues[in.Queue] = sojourn.QueueSettings{}
	}
	c := *in
	c.Resolve(sojourn.QueueDefaults{})
	j.queue, j.args, j.priority, j.Weight, j.Policy = c.Queue, string(c.Args), c.Priority, c.Weight, c.Policy
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

// repeated is what a claim is answered with that was executed before; fresh says that it is to be executed.
func (m *model) repeated(r sojourn.ClaimRequest) (jobs []*job, fresh bool) {
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
func (m *model) claimable(r sojourn.ClaimRequest) []*job {
	var out []*job
	for _, q := range r.Queues {
		if m.queues[q].Paused {
			continue
		}
		line := m.that(func(j *job) bool {
			return j.queue == q && slices.Contains(r.Kinds, j.kind) &&
				(j.State == sojourn.Ready && int64(j.Weight) <= r.Capacity || j.State == sojourn.Errored && slices.Contains(r.Decidable, j.kind))
		})
		slices.SortFunc(line, func(a, b *job) int {
			a1, a2 := sojourn.Rank(a.priority, time.UnixMicro(a.runAt), a.Resumed)
			b1, b2 := sojourn.Rank(b.priority, time.UnixMicro(b.runAt), b.Resumed)
			return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.ID, b.ID))
		})
		out = append(out, line...)
	}
	return out
}

// take leases the jobs that a claim has taken.
func (m *model) take(r sojourn.ClaimRequest, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	var leases []sojourn.Lease
	for _, j := range jobs {
		was := *j
		tr, err := sojourn.Decide(j.Row, sojourn.Event{Type: sojourn.EventClaimed, RetryHandler: slices.Contains(r.Decidable, j.kind)})
		if err != nil {
			panic(err) // it was claimable
		}
		j.Row = tr.To
		j.epoch, j.worker, j.updated = j.epoch+1, r.Worker, m.now
		j.lease = cmp.Or(r.Lease, sojourn.DefaultLease).Microseconds()
		j.leaseUntil = m.now + j.lease
		switch j.Purpose {
		case sojourn.PurposeStart:
			j.timeoutAt = m.now + j.Policy.Timeout.Microseconds()
		case sojourn.PurposeResume:
			j.timeoutAt += m.now - was.rested
		}
		j.rested, j.decideBy = 0, 0
		m.touched[j.ID] = true
		leases = append(leases, sojourn.Lease{ID: j.ID, Epoch: j.epoch, Worker: j.worker})
	}
	if r.Number > 0 {
		m.workers[r.Worker] = &asked{r.Number, leases}
	}
}

// extend is what Extend must answer.
func (m *model) extend(leases []sojourn.Lease) []sojourn.Lost {
	var lost []sojourn.Lost
	for _, l := range leases {
		if j := m.stands(l); j == nil {
			lost = append(lost, sojourn.Lost{Lease: l, Reason: m.whyLost(l)})
		} else {
			m.prolong(j)
		}
	}
	return lost
}

func (m *model) prolong(j *job) {
	if !j.Policy.NoExtend {
		j.leaseUntil = max(j.leaseUntil, m.now+j.lease)
		j.updated = m.now
		m.touched[j.ID] = true
	}
}

func (m *model) whyLost(l sojourn.Lease) string {
	j := m.jobs[l.ID]
	if j == nil {
		return sojourn.LostEnded
	}
	if j.State.Live() && j.epoch > l.Epoch {
		return sojourn.LostTaken
	}
	for _, e := range j.history {
		if e.epoch == l.Epoch && (e.outcome == "cancelled" || e.outcome == "failed") {
			return sojourn.LostCancelled
		}
	}
	return sojourn.LostEnded
}

// save is the code that Save must answer for one item, "" for none.
func (m *model) save(s sojourn.Saved) string {
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

// finish is what Finish must answer for one outcome.
func (m *model) finish(o sojourn.Outcome) sojourn.Finished {
	j := m.stands(o.Lease)
	if j == nil {
		return m.finishedBefore(o)
	}
	e := sojourn.Event{Type: sojourn.EventFinished, Outcome: &o}
	for _, k := range o.Wait.Keys {
		e.KeyConflict = e.KeyConflict || m.taken(j.ID, name{j.kind, k})
	}
	next := plan{m: m, jobs: o.Next, done: make([]sojourn.Enqueued, len(o.Next)), ids: map[sojourn.ID]int{}, keys: map[name]int{}, ending: j}
	for i := range o.Next {
		if code := next.one(i); code != "" {
			return sojourn.Finished{Status: sojourn.FinishRefused, State: j.State}
		}
	}
	if err := m.happen(j, e, change{result: string(o.Result), verdict: o.Verdict}); err != nil {
		return sojourn.Finished{Status: sojourn.FinishRefused, State: j.State}
	}
	next.write()
	return sojourn.Finished{Status: sojourn.FinishApplied, State: j.State}
}

func (m *model) finishedBefore(o sojourn.Outcome) sojourn.Finished {
	f := sojourn.Finished{Status: sojourn.FinishLost, Reason: m.whyLost(o.Lease)}
	j := m.jobs[o.Lease.ID]
	if j == nil {
		return f
	}
	f.State = j.State
	for _, e := range slices.Backward(j.history) {
		if e.epoch == o.Lease.Epoch && e.worker == o.Lease.Worker && o.Lease.Epoch > 0 {
			if e.outcome == string(o.Type) {
				return sojourn.Finished{Status: sojourn.FinishRepeated, State: e.state}
			}
			break
		}
	}
	return f
}

// respond is what Respond must answer. token is the job and the attempt that a capability names.
func (m *model) respond(r sojourn.Response, t *capability) sojourn.Responded {
	if first, ok := m.messages[r.MessageID]; ok {
		answer := sojourn.Responded{Outcome: sojourn.Duplicate, Seq: first}
		if stored := m.inbox[first]; stored != nil {
			answer.Job = stored.job
		}
		return answer
	}
	s := &message{seq: m.nextSeq, r: r, outcome: sojourn.Early, received: m.now}
	m.nextSeq++
	m.messages[r.MessageID], m.inbox[s.seq] = s.seq, s
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
	switch {
	case to == 0:
		s.expires = m.now + m.inboxTTL
	case j == nil || j.State.Final():
		s.outcome, s.expires = sojourn.Late, m.now+sojourn.DefaultInboxKeep.Microseconds()
	case t != nil && (t.generation != j.generation || t.attempt != j.Attempt):
		s.outcome = sojourn.Stale
	default:
		j.Kept++
		j.updated = m.now
		m.match(j)
	}
	return sojourn.Responded{Outcome: s.outcome, Job: to, Seq: s.seq}
}

// capability is what a token names.
type capability struct {
	job                 sojourn.ID
	generation, attempt int32
}

// edit is what Edit must answer for one job: its state, whether it has changed, and the code of a refusal.
func (m *model) edit(j *job, e sojourn.Edit) (state sojourn.State, changed bool, code string) {
	if e.Generation != 0 && e.Generation != j.generation {
		return j.State, false, sojourn.CodeConflict
	}
	switch e.Action {
	case sojourn.EditCancel:
		return m.endByHand(j, e, sojourn.EventCancel, sojourn.Cancelled)
	case sojourn.EditFail:
		return m.endByHand(j, e, sojourn.EventFail, sojourn.Failed)
	case sojourn.EditRedrive:
		return m.redrive(j, e)
	case sojourn.EditPurge:
		if !j.State.Final() || m.now-j.created < sojourn.IDLife.Microseconds() {
			return j.State, false, sojourn.CodeConflict
		}
		m.remove(j)
		return j.State, true, ""
	}
	if j.State.Final() || j.State == sojourn.Running || j.State == sojourn.Awaiting || j.Resumed {
		return j.State, false, sojourn.CodeConflict
	}
	was, c := *j, e.Change
	if c.Priority != nil {
		j.priority = *c.Priority
	}
	if c.Queue != nil {
		j.queue = *c.Queue
		if _, ok := m.queues[j.queue]; !ok {
			m.queues[j.queue] = sojourn.QueueSettings{}
		}
	}
	if c.Delay != nil {
		j.runAt = m.now + c.Delay.Microseconds()
		if j.State == sojourn.Ready || j.State == sojourn.Scheduled {
			j.State = sojourn.Ready
			if *c.Delay > 0 {
				j.State = sojourn.Scheduled
			}
		}
	}
	j.record(&was, sojourn.Transition{To: j.Row, Outcome: "edited", Reason: e.Reason}, m.now)
	j.updated = m.now
	m.touched[j.ID] = true
	return j.State, true, ""
}

func (m *model) endByHand(j *job, e sojourn.Edit, event sojourn.EventType, to sojourn.State) (sojourn.State, bool, string) {
	switch {
	case j.State == to:
		return to, false, ""
	case j.State.Final(), j.State == sojourn.Running && e.Refuse:
		return j.State, false, sojourn.CodeConflict
	}
	reason := e.Reason
	if reason == "" && to == sojourn.Failed {
		reason = "operator"
	}
	if err := m.happen(j, sojourn.Event{Type: event, Reason: reason}, change{}); err != nil {
		return j.State, false, sojourn.CodeInvalid
	}
	return to, true, ""
}

func (m *model) redrive(j *job, e sojourn.Edit) (sojourn.State, bool, string) {
	tr, err := sojourn.Decide(sojourn.Row{ID: j.ID, State: j.State, Weight: j.Weight, Policy: j.Policy}, sojourn.Event{Type: sojourn.EventRedrive, Reason: e.Reason})
	if err != nil {
		return j.State, false, sojourn.CodeConflict
	}
	n := name{j.kind, j.key}
	if j.key != "" {
		if m.taken(j.ID, n) {
			return j.State, false, sojourn.CodeConflict
		}
		m.remember(n, j.ID)
		m.keys[n] = &holder{job: j.ID, own: true, live: true}
	}
	for _, before := range m.past {
		delete(before, j.ID)
	}
	was := *j
	j.Row, j.generation, j.runAt = tr.To, j.generation+1, m.now
	j.deadline = m.deadlineOf(j.Policy)
	j.timeoutAt, j.waitUntil, j.decideBy, j.rested, j.leaseUntil, j.finished = 0, 0, 0, 0, 0, 0
	j.reason, j.text, j.result = "", "", ""
	j.record(&was, tr, m.now)
	j.updated = max(m.now, was.finished)
	m.touched[j.ID] = true
	return j.State, true, ""
}

// sweep is what Sweep must answer.
func (m *model) sweep(limit int) sojourn.Swept {
	old := m.old(limit)
	s := m.sweepDue(limit)
	m.sweepInbox(limit, &s)
	for _, j := range old {
		m.remove(j)
		s.Pruned++
	}
	return s
}

// sweepDue handles what is overdue, the longest first.
func (m *model) sweepDue(limit int) (s sojourn.Swept) {
	due := m.that(func(j *job) bool { return j.wakeAt() <= m.now })
	slices.SortStableFunc(due, func(a, b *job) int { return cmp.Compare(a.wakeAt(), b.wakeAt()) })
	for _, j := range due[:min(len(due), limit)] {
		e, count := m.overdue(j, &s)
		if count == nil {
			continue
		}
		if err := m.happen(j, e, change{}); err != nil {
			panic(err) // it was overdue for this
		}
		*count++
	}
	return s
}

// overdue says which clock of a job has run out.
func (m *model) overdue(j *job, s *sojourn.Swept) (sojourn.Event, *int) {
	past := func(us int64) bool { return us > 0 && us <= m.now }
	timedOut := sojourn.Event{Type: sojourn.EventTimedOut, Reason: sojourn.ReasonTimeout}
	running := int64(0)
	if j.State == sojourn.Running {
		running = j.lease
	}
	switch {
	case past(plus(j.deadline, running)):
		return sojourn.Event{Type: sojourn.EventDeadline}, &s.Deadlines
	case j.State == sojourn.Scheduled && past(j.runAt):
		return sojourn.Event{Type: sojourn.EventDue}, &s.Due
	case j.State == sojourn.Running && past(j.leaseUntil):
		return sojourn.Event{Type: sojourn.EventLeaseEnded}, &s.Lost
	case j.State == sojourn.Running && j.Purpose != sojourn.PurposeDecide && past(plus(j.timeoutAt, j.lease)):
		return timedOut, &s.TimedOut
	case j.State == sojourn.Awaiting && (past(j.waitUntil) || past(j.timeoutAt)):
		return timedOut, &s.TimedOut
	case j.State == sojourn.Ready && j.Resumed && past(j.timeoutAt):
		return sojourn.Event{Type: sojourn.EventResumeOverdue}, &s.Resumed
	case j.State == sojourn.Errored && past(j.decideBy):
		if m.queues[j.queue].Paused { // the clock stands while nobody may come
			j.decideBy = m.now + j.Policy.DecideWithin.Microseconds()
			j.updated = m.now
			m.touched[j.ID] = true
			return sojourn.Event{}, nil
		}
		return sojourn.Event{Type: sojourn.EventDecideOverdue}, &s.Decided
	}
	return sojourn.Event{}, nil
}

// sweepInbox ends the time to live of early responses for whose key no live job has come, and deletes what is past its retention.
func (m *model) sweepInbox(limit int, s *sojourn.Swept) {
	expired := m.responses(func(r *message) bool { return r.expires > 0 && r.expires <= m.now })
	slices.SortStableFunc(expired, func(a, b *message) int { return cmp.Compare(a.expires, b.expires) })
	for _, r := range expired[:min(len(expired), limit)] {
		h := m.keys[name{r.r.Kind, r.r.Key}]
		switch {
		case r.outcome != sojourn.Early:
			delete(m.inbox, r.seq)
		case h != nil && h.live:
			r.expires = m.now + m.inboxTTL
		default:
			r.outcome, r.expires = sojourn.Unmatched, m.now+sojourn.DefaultInboxKeep.Microseconds()
			s.Unmatched++
		}
	}
}

// old are the final jobs that retention wants gone.
func (m *model) old(limit int) []*job {
	var out []*job
	for _, q := range slices.Sorted(maps.Keys(m.queues)) {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := m.queues[q].Retention.Of(state)
			if !ok {
				continue
			}
			ended := m.that(func(j *job) bool { return j.queue == q && j.State == state })
			slices.SortFunc(ended, func(a, b *job) int { return cmp.Or(cmp.Compare(b.finished, a.finished), cmp.Compare(b.ID, a.ID)) })
			for i, j := range ended { // the newest first
				h := m.keys[name{j.kind, j.key}]
				keeps := h != nil && h.job == j.ID && h.until > m.now
				tooOld := age < math.MaxInt64 && j.finished <= m.now-age.Microseconds()
				if (tooOld || int64(i) >= count) && m.now-j.created >= sojourn.IDLife.Microseconds() && !keeps {
					out = append(out, j)
				}
			}
		}
	}
	return out[:min(len(out), limit)]
}
