// Package model predicts what a store answers and shows, without a database. It is what the
// simulation compares a store with.
//
//	model.go            jobs, keys, clocks; how a transition changes them
//	calls.go writes.go  predictions of enqueues and of the writes under a lease
//	claims.go sweeps.go edits.go   of claims, sweeps and edits
//	responses.go        the inbox
//	graph.go link.go    dependencies; those of the jobs of one call
//	whole.go            workflows
//	show.go             a job as text, as the store and as the model have it
package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Model predicts the answers of a store, in maps and without any care for speed. It shares the pure
// rules, rules.Decide and rules.Match, with real stores. The clocks, keys, the inbox and the
// order of claims are implemented independently, after docs/concepts.md.
type Model struct {
	Now      int64 // microseconds; never goes back
	Jobs     map[sojourn.ID]*Job
	keys     map[Name]*holder
	past     map[Name]map[sojourn.ID]bool // final jobs that stood for a key before its holder
	Inbox    inbox
	Queues   map[string]sojourn.QueueSettings
	workers  map[string]*asked
	Blocks   []Block
	children map[childName]sojourn.ID // awaited ones; an entry outlives its child
	NextID   sojourn.ID

	Whole    map[string]*Whole // workflows by name
	memberOf map[sojourn.ID]*Whole

	Edges   *graph
	Touched map[sojourn.ID]bool // by the call under way
}

// Name is a key of a kind.
type Name struct{ Kind, Key string }

// holder is the job of a key: a live job, or the newest final one that is still stored.
type holder struct {
	job       sojourn.ID
	own, live bool
	until     int64 // a final job still holds it
}

// Block is a range of ids.
type Block struct {
	First  sojourn.ID
	Size   int
	Leased int64
}

// asked is the last claim of a worker that found something.
type asked struct {
	number int64
	leases []sojourn.Lease
}

// known is a message id that was used.
type known struct {
	seq     int64
	content string
}

// Message is a response as it is stored.
type Message struct {
	Seq               int64
	Response          sojourn.Response
	by                *Capability // nil if it came without one
	Job               sojourn.ID
	Outcome           sojourn.ResponseOutcome
	inHand            bool
	Duplicates        int32
	Replay            int64
	expires, received int64
}

// Job is a job as it is stored. Times are in microseconds, 0 = none.
type Job struct {
	rules.Row
	queue, Kind, Key     string
	first                sojourn.Job // as it was first enqueued
	args                 string
	priority             int32
	Generation           int32
	Epoch                int64
	Worker               string
	awaited              bool // has keys of its waits
	named                bool // another job depends on it, or did
	checkpoint, progress string
	result, reason, text string
	History              []Entry

	created, updated, runAt, finished                 int64
	LeaseUntil, lease, waitUntil, timeoutAt, decideBy int64
	beatUntil, PollAt, rested, deadline, began        int64
}

// Entry is a row of the history.
type Entry struct {
	Generation, Stage, Attempt int32
	Epoch                      int64
	Purpose                    sojourn.Purpose
	Worker, Outcome            string
	State                      sojourn.State
	Reason, Text               string
	Ended                      int64
}

// New makes the model of an empty store.
func New(now time.Time, inboxTTL time.Duration) *Model {
	m := &Model{Now: now.UnixMicro(), Jobs: map[sojourn.ID]*Job{}, keys: map[Name]*holder{}, past: map[Name]map[sojourn.ID]bool{},
		Inbox:  inbox{stored: map[int64]*Message{}, used: map[string]known{}, next: 1, ttl: inboxTTL.Microseconds()},
		Queues: map[string]sojourn.QueueSettings{}, workers: map[string]*asked{}, children: map[childName]sojourn.ID{}, NextID: 1, Touched: map[sojourn.ID]bool{},
		Whole: map[string]*Whole{}, memberOf: map[sojourn.ID]*Whole{}}
	m.Edges = newGraph(m)
	return m
}

// WakeAt is the time of a job's next sweep: the earliest of the clocks that run in its state.
func (j *Job) WakeAt() int64 {
	var at []int64
	switch {
	case j.State.Final():
		return math.MaxInt64
	case j.State == sojourn.Running: // timeout and deadline are its worker's business for one more lease
		at = []int64{j.LeaseUntil, j.oneLeaseLater(j.deadline)}
		if j.Purpose != sojourn.PurposeDecide {
			at = append(at, j.oneLeaseLater(j.timeoutAt))
		}
		if j.Purpose == sojourn.PurposePoll && j.Kept == 0 { // with a response beside it, the end of the step decides
			at = append(at, j.waitUntil, j.beatUntil)
		}
		return earliest(at)
	case j.State == sojourn.Blocked && j.AttemptOpen: // it awaits children
		at = []int64{j.waitUntil, j.timeoutAt}
	case j.State == sojourn.Scheduled:
		at = []int64{j.runAt}
	case j.State == sojourn.Ready && j.Resumed:
		at = []int64{j.timeoutAt}
	case j.State == sojourn.Awaiting:
		at = []int64{j.waitUntil, j.beatUntil, j.timeoutAt}
	case j.State == sojourn.Errored:
		at = []int64{j.decideBy}
	}
	return earliest(append(at, j.deadline))
}

func earliest(times []int64) int64 {
	e := int64(math.MaxInt64)
	for _, us := range times {
		if us > 0 {
			e = min(e, us)
		}
	}
	return e
}

// oneLeaseLater is the time at which a sweep ends a step for a clock that its worker watches: one
// lease after it, or after the beginning of the step.
func (j *Job) oneLeaseLater(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, j.began) + j.lease
}

// Ordered are the jobs in the order of their ids.
func (m *Model) Ordered() []*Job {
	out := make([]*Job, 0, len(m.Jobs))
	for _, id := range slices.Sorted(maps.Keys(m.Jobs)) {
		out = append(out, m.Jobs[id])
	}
	return out
}

// That are the jobs that satisfy is, in the order of their ids.
func (m *Model) That(is func(j *Job) bool) []*Job {
	return slices.DeleteFunc(m.Ordered(), func(j *Job) bool { return !is(j) })
}

// Stands returns the job of a valid lease: id, epoch and worker are the row's, and the state is
// running.
func (m *Model) Stands(l sojourn.Lease) *Job {
	if j := m.Jobs[l.ID]; j != nil && j.State == sojourn.Running && j.Epoch == l.Epoch && j.Worker == l.Worker {
		return j
	}
	return nil
}

// happen applies an event and matches after it.
func (m *Model) happen(j *Job, e rules.Event, by change) error {
	tr, err := rules.Decide(j.Row, e)
	if err != nil {
		return err
	}
	m.apply(j, tr, by)
	if e.Outcome != nil && e.Outcome.Type == sojourn.OutcomeAnswer {
		m.keepAnswer(j, e)
	}
	if tr.To.State == sojourn.Awaiting {
		m.beginWait(j)
	}
	m.match(j)
	return nil
}

// change is what an outcome stores beside its transition.
type change struct {
	result  string
	queue   string // of the next stage; "" = the same
	verdict sojourn.Verdict
}

func (m *Model) apply(j *Job, tr rules.Transition, c change) {
	m.Touched[j.ID] = true
	was := *j
	j.Row = tr.To
	j.moveTo(m, cmp.Or(c.queue, j.queue))
	m.clocks(&was, j, tr, c.verdict)
	if tr.Outcome != "" {
		j.record(&was, tr, m.Now)
	}
	if c.verdict.Checkpoint != nil {
		j.checkpoint = string(c.verdict.Checkpoint)
	}
	if was.InHand > 0 && tr.To.InHand == 0 {
		for _, r := range m.Inbox.inHand(j.ID) {
			r.inHand = false
			if tr.HandLate {
				r.Outcome = sojourn.Late
			}
		}
	}
	if tr.KeptLate {
		for _, r := range m.Inbox.kept(j.ID) {
			r.Outcome = sojourn.Late
		}
	}
	j.updated = m.Now
	switch {
	case j.State.Final():
		m.end(&was, j, tr, c)
	case j.named && j.Stage > was.Stage:
		m.Edges.staged = append(m.Edges.staged, j.ID)
	case tr.Rule == "W11": // the wait for its children is over
		m.Edges.leave(j.ID)
	}
}

// moveTo puts a job into a queue, which need not exist yet.
func (j *Job) moveTo(m *Model, queue string) {
	j.queue = queue
	if _, ok := m.Queues[queue]; !ok {
		m.Queues[queue] = sojourn.QueueSettings{}
	}
}

func (j *Job) record(was *Job, tr rules.Transition, now int64) {
	e := Entry{Generation: was.Generation, Stage: was.Stage, Attempt: was.Attempt, Purpose: was.Purpose, Outcome: tr.Outcome, State: tr.To.State,
		Reason: tr.Reason, Text: tr.Error, Ended: now}
	if was.State == sojourn.Running {
		e.Epoch, e.Worker = was.Epoch, was.Worker
	}
	j.History = append(slices.Clip(j.History), e)
}

// clocks starts and ends the clocks of a job.
func (m *Model) clocks(was, j *Job, tr rules.Transition, v sojourn.Verdict) {
	switch tr.RunAt {
	case rules.RunAtNow:
		j.runAt = m.Now
	case rules.RunAtDelay:
		j.runAt = m.Now + tr.Delay.Microseconds()
		if !v.RunAt.IsZero() {
			j.runAt = max(v.RunAt.UnixMicro(), m.Now)
		}
	}
	if v.Priority != nil {
		j.priority = *v.Priority
	}
	j.waitUntil, j.beatUntil, j.PollAt, j.decideBy, j.rested = 0, 0, 0, 0, 0
	if was.State == sojourn.Running {
		j.LeaseUntil = 0
	}
	switch {
	case j.State == sojourn.Awaiting && (was.State == sojourn.Awaiting || was.Purpose == sojourn.PurposePoll):
		j.waitUntil, j.beatUntil = was.waitUntil, was.beatUntil
	case j.State == sojourn.Awaiting:
		j.waitUntil, j.beatUntil = m.after(j.Wait.Within), m.after(j.Wait.Beat)
	case j.State == sojourn.Blocked && was.State == sojourn.Blocked:
		j.waitUntil = was.waitUntil
	case j.State == sojourn.Blocked:
		j.waitUntil = m.after(tr.Within)
	case j.State == sojourn.Errored:
		j.decideBy = m.Now + j.Policy.DecideWithin.Microseconds()
	case j.State == sojourn.Ready && j.Resumed:
		j.rested = cmp.Or(was.rested, m.Now)
	}
	if j.State == sojourn.Awaiting && j.Wait.Poll.First > 0 && !j.NoPoll {
		j.PollAt = m.Now + tr.Poll.Microseconds()
	}
	if !j.AttemptOpen {
		j.timeoutAt = 0
	}
}

// after is the time after d; 0 for none.
func (m *Model) after(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return m.Now + d.Microseconds()
}

// answered reports whether a response attached to a job ends its wait; it takes precedence over the
// result of a poll step.
func (m *Model) answered(j *Job) bool {
	waits := j.Row
	waits.State, waits.Purpose = sojourn.Awaiting, sojourn.NoPurpose
	return rules.Match(waits, j.Key, m.Inbox.keptOf(j.ID)).Found()
}

// end makes a job final: its keys are free, unless it keeps its own for a while.
func (m *Model) end(was, j *Job, tr rules.Transition, c change) {
	j.finished, j.reason, j.text, j.result = m.Now, tr.Reason, tr.Error, c.result
	m.Edges.end(j.ID)
	m.memberEnded(j)
	if h := m.keys[Name{j.Kind, j.Key}]; j.Key != "" && h != nil && h.job == j.ID {
		h.live = false
		h.until = 0
		if keep := j.Policy.KeepKey; keep > 0 {
			h.until = m.Now + keep.Microseconds()
		}
	}
	if was.awaited {
		for _, h := range m.keys {
			if h.job == j.ID && !h.own {
				h.live = false
			}
		}
	}
	j.awaited = false
}

// match applies the attached responses to a job until none matches.
func (m *Model) match(j *Job) {
	for j.Kept > 0 && j.State.Live() {
		found := rules.Match(j.Row, j.Key, m.Inbox.keptOf(j.ID))
		if !found.Found() {
			return
		}
		for _, seq := range slices.Concat(found.Take, found.UsedUp) {
			m.Inbox.stored[seq].Outcome = sojourn.Applied
		}
		for _, seq := range found.Late {
			m.Inbox.stored[seq].Outcome = sojourn.Late
		}
		for _, seq := range found.Stale {
			m.Inbox.stored[seq].Outcome = sojourn.Stale
		}
		m.apply(j, found.Transition, change{})
		for _, seq := range found.Take {
			m.Inbox.stored[seq].inHand = true
		}
	}
}

// beginWait registers the awaited keys to the job and attaches the early responses under all of its
// keys.
func (m *Model) beginWait(j *Job) {
	for _, k := range j.Wait.Keys {
		if k == j.Key {
			continue
		}
		n := Name{j.Kind, k}
		if h := m.keys[n]; h == nil || h.job != j.ID || !h.live {
			m.remember(n, j.ID)
			m.keys[n] = &holder{job: j.ID, live: true}
		}
	}
	j.awaited = true
	for _, r := range m.Inbox.Responses(func(r *Message) bool { return r.Outcome == sojourn.Early && r.Job == 0 }) {
		h := m.keys[Name{r.Response.Kind, r.Response.Key}]
		if r.Response.Kind == j.Kind && h != nil && h.job == j.ID && h.live {
			r.Job, r.expires = j.ID, 0
			j.Kept++
		}
	}
}

// remember notes that another job takes a key whose holder is final and still stored. A redriven
// holder is not final any more.
func (m *Model) remember(n Name, taker sojourn.ID) {
	if h := m.keys[n]; h != nil && !h.live && h.job != taker && m.Jobs[h.job].State.Final() {
		if m.past[n] == nil {
			m.past[n] = map[sojourn.ID]bool{}
		}
		m.past[n][h.job] = true
	}
}

// taken reports whether a key belongs to another job than j.
func (m *Model) taken(j sojourn.ID, n Name) bool {
	h := m.keys[n]
	return h != nil && h.job != j && (h.live || h.until > m.Now)
}

// remove deletes a final job with everything of it. The newest final job that held one of its keys
// before becomes the holder of the key.
func (m *Model) remove(j *Job) {
	m.Touched[j.ID] = true
	delete(m.Jobs, j.ID)
	if w := m.memberOf[j.ID]; w != nil {
		w.Gone[j.ID] = j.State
	}
	m.Edges.remove(j.ID)
	maps.DeleteFunc(m.children, func(n childName, _ sojourn.ID) bool { return n.parent == j.ID })
	for _, before := range m.past {
		delete(before, j.ID)
	}
	for n, h := range m.keys {
		switch left := slices.Sorted(maps.Keys(m.past[n])); {
		case h.job != j.ID:
		case len(left) > 0:
			newest := left[len(left)-1]
			*h = holder{job: newest}
			delete(m.past[n], newest)
		default:
			delete(m.keys, n)
		}
	}
	for seq, r := range m.Inbox.stored {
		if r.Job == j.ID {
			delete(m.Inbox.stored, seq)
		}
	}
}
