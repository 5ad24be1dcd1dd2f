package model

import (
	"maps"
	"reflect"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// Enqueue predicts the answer of Enqueue. A refusal of the whole call changes nothing.
func (m *Model) Enqueue(jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, string) {
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

func newPlan(m *Model, jobs []sojourn.Job) *plan {
	return &plan{m: m, jobs: jobs, done: make([]sojourn.Enqueued, len(jobs)), ids: map[sojourn.ID]int{}, keys: map[Name]int{},
		linked: map[sojourn.ID]map[sojourn.ID]link{}, post: map[sojourn.ID]sojourn.State{}}
}

// plan is one call of Enqueue: it decides about each job in turn, and then writes.
type plan struct {
	m             *Model
	jobs          []sojourn.Job
	done          []sojourn.Enqueued
	ids           map[sojourn.ID]int
	keys          map[Name]int
	fresh, replay []int // to insert; to replace done[i].ID with
	ending        *Job  // the job whose completion enqueues these jobs: its key is free by then

	linked map[sojourn.ID]map[sojourn.ID]link // dependencies of the jobs of the call
	post   map[sojourn.ID]sojourn.State       // ended jobs that decide jobs of the call
}

// one decides about a job: first its id, then its key. It returns the code of a refusal.
func (p *plan) one(i int) string {
	m, j := p.m, &p.jobs[i]
	known := m.Jobs[j.ID]
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
		p.keys[Name{j.Kind, j.Key}] = i
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
	n := Name{j.Kind, j.Key}
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
	h := m.Jobs[m.keys[n].job]
	p.done[i] = sojourn.Enqueued{ID: h.ID, State: h.State, Duplicate: true}
	switch {
	case j.OnConflict == sojourn.ReturnError:
		return true, sojourn.CodeConflict
	case j.OnConflict == sojourn.Replace:
		if h.State.Final() || h.Claimed || h.State > sojourn.Ready || h.Key != j.Key {
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
		j := &Job{queue: in.Queue, Kind: in.Kind, Key: in.Key, first: *in, Generation: 1, created: m.Now, updated: m.Now}
		j.ID = in.ID
		m.fill(j, in)
		m.Jobs[j.ID] = j
		if j.Key != "" {
			n := Name{j.Kind, j.Key}
			m.remember(n, 0)
			m.keys[n] = &holder{job: j.ID, own: true, live: true}
		}
	}
	for _, i := range p.fresh {
		p.block(m.Jobs[p.jobs[i].ID])
	}
	for _, i := range p.replay {
		j := m.Jobs[p.done[i].ID]
		was := *j
		m.fill(j, &p.jobs[i])
		if was.State == sojourn.Blocked {
			m.Edges.remove(j.ID)
		}
		p.block(j)
		j.record(&was, rules.Transition{To: j.Row, Outcome: "replaced"}, m.Now)
		j.updated = m.Now
	}
	maps.Copy(m.Edges.outbox, p.post)
}

// fill sets the values of the caller's job in a job that no worker has claimed.
func (m *Model) fill(j *Job, in *sojourn.Job) {
	m.Touched[j.ID] = true
	c := *in
	c.Resolve(sojourn.Policy{})
	j.moveTo(m, c.Queue)
	j.args, j.priority, j.Weight, j.Policy = string(c.Args), c.Priority, c.Weight, c.Policy
	j.runAt, j.State = m.Now+c.Delay.Microseconds(), m.startState(in)
	j.deadline = m.deadlineOf(c.Policy)
}

func (m *Model) deadlineOf(p sojourn.Policy) int64 {
	if p.Deadline == 0 {
		return 0
	}
	return m.Now + p.Deadline.Microseconds()
}

func (m *Model) startState(j *sojourn.Job) sojourn.State {
	if j.Delay > 0 {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}

// good reports whether a new job may have the id.
func (m *Model) good(id sojourn.ID) bool {
	for _, b := range m.Blocks {
		if id >= b.First && id < b.First+sojourn.ID(b.Size) {
			return m.Now-b.Leased <= sojourn.IDLife.Microseconds()
		}
	}
	return false
}

// Save is the code that Save must answer for one item, "" for none.
func (m Steps) Save(s driver.Saved) string {
	j := m.Stands(s.Lease)
	if j == nil {
		return sojourn.CodeLeaseLost
	}
	m.Touched[j.ID] = true
	if s.Key != "" && s.Key != j.Key {
		n := Name{j.Kind, s.Key}
		h := m.keys[n]
		switch {
		case j.Key != "":
			return sojourn.CodeConflict
		case h != nil && h.job == j.ID && h.live: // it has awaited the key before
		case h != nil && (h.live || h.until > m.Now):
			return sojourn.CodeConflict
		default:
			m.remember(n, j.ID)
			m.keys[n] = &holder{job: j.ID, live: true}
		}
		j.Key = s.Key
	}
	if s.Checkpoint != nil {
		j.checkpoint = string(s.Checkpoint)
	}
	if s.Progress != nil {
		j.progress = *s.Progress
	}
	j.updated = m.Now
	m.prolong(j)
	return ""
}

// Finish predicts the answer of Finish for one outcome.
func (m Steps) Finish(o sojourn.Outcome) driver.Finished {
	j := m.Stands(o.Lease)
	if j == nil {
		return m.finishedBefore(o)
	}
	e := rules.Event{Type: rules.EventFinished, Outcome: &o}
	e.Answered = o.Type == sojourn.OutcomeAnswer && j.Purpose == sojourn.PurposePoll && m.answered(j)
	for _, k := range o.Wait.Keys {
		e.KeyConflict = e.KeyConflict || m.taken(j.ID, Name{j.Kind, k})
	}
	next, code := m.follow(j, &o)
	if code != "" {
		return driver.Finished{Status: driver.FinishRefused, State: j.State}
	}
	e.Open = next.open
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

func (m Steps) finishedBefore(o sojourn.Outcome) driver.Finished {
	f := driver.Finished{Status: driver.FinishLost, Reason: m.whyLost(o.Lease)}
	j := m.Jobs[o.Lease.ID]
	if j == nil || !j.had(o.Lease) {
		return f
	}
	f.State = j.State
	for _, e := range slices.Backward(j.History) {
		if e.Epoch == o.Lease.Epoch && e.Worker == o.Lease.Worker && o.Lease.Epoch > 0 {
			if e.Outcome == string(o.Type) {
				return driver.Finished{Status: driver.FinishRepeated, State: e.State}
			}
			break
		}
	}
	return f
}
