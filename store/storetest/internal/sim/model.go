package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// model predicts the answers of a store, in maps and without any care for speed. It shares the pure
// rules, rules.Decide and rules.Match, with real stores. The clocks, keys, the inbox and the
// order of claims are implemented independently, after docs/concepts.md.
type model struct {
	now      int64 // microseconds; never goes back
	inboxTTL int64
	jobs     map[sojourn.ID]*job
	keys     map[name]*holder
	past     map[name]map[sojourn.ID]bool // final jobs that stood for a key before its holder
	inbox    map[int64]*message
	messages map[string]known // message id, in its scope → its first use
	queues   map[string]sojourn.QueueSettings
	workers  map[string]*asked
	blocks   []block
	nextID   sojourn.ID
	nextSeq  int64

	edges   *graph
	touched map[sojourn.ID]bool // by the call under way
}

type name struct{ kind, key string }

// holder is the job of a key: a live job, or the newest final one that is still stored.
type holder struct {
	job       sojourn.ID
	own, live bool
	until     int64 // a final job still holds it
}

// block is a range of ids.
type block struct {
	first  sojourn.ID
	size   int
	leased int64
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

// message is a response as it is stored.
type message struct {
	seq               int64
	r                 sojourn.Response
	by                *capability // nil if it came without one
	job               sojourn.ID
	outcome           sojourn.ResponseOutcome
	inHand            bool
	duplicates        int32
	replay            int64
	expires, received int64
}

// job is a job as it is stored. Times are in microseconds, 0 = none.
type job struct {
	rules.Row
	queue, kind, key     string
	first                sojourn.Job // as it was first enqueued
	args                 string
	priority             int32
	generation           int32
	epoch                int64
	worker               string
	awaited              bool // has keys of its waits
	named                bool // another job depends on it, or did
	checkpoint, progress string
	result, reason, text string
	history              []entry

	created, updated, runAt, finished                 int64
	leaseUntil, lease, waitUntil, timeoutAt, decideBy int64
	beatUntil, pollAt, rested, deadline, began        int64
}

// entry is a row of the history.
type entry struct {
	generation, stage, attempt int32
	epoch                      int64
	purpose                    sojourn.Purpose
	worker, outcome            string
	state                      sojourn.State
	reason, text               string
	ended                      int64
}

func newModel(now time.Time, inboxTTL time.Duration) *model {
	m := &model{now: now.UnixMicro(), inboxTTL: inboxTTL.Microseconds(), jobs: map[sojourn.ID]*job{}, keys: map[name]*holder{},
		past: map[name]map[sojourn.ID]bool{}, inbox: map[int64]*message{}, messages: map[string]known{},
		queues: map[string]sojourn.QueueSettings{}, workers: map[string]*asked{}, nextID: 1, nextSeq: 1, touched: map[sojourn.ID]bool{}}
	m.edges = newGraph(m)
	return m
}

// wakeAt is the time of a job's next sweep: the earliest of the clocks that run in its state.
func (j *job) wakeAt() int64 {
	var at []int64
	switch {
	case j.State.Final():
		return math.MaxInt64
	case j.State == sojourn.Running: // timeout and deadline are its worker's business for one more lease
		at = []int64{j.leaseUntil, j.oneLeaseLater(j.deadline)}
		if j.Purpose != sojourn.PurposeDecide {
			at = append(at, j.oneLeaseLater(j.timeoutAt))
		}
		if j.Purpose == sojourn.PurposePoll && j.Kept == 0 { // with a response beside it, the end of the step decides
			at = append(at, j.waitUntil, j.beatUntil)
		}
		return earliest(at)
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
func (j *job) oneLeaseLater(us int64) int64 {
	if us == 0 {
		return 0
	}
	return max(us, j.began) + j.lease
}

// ordered are the jobs in the order of their ids.
func (m *model) ordered() []*job {
	out := make([]*job, 0, len(m.jobs))
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		out = append(out, m.jobs[id])
	}
	return out
}

// that are the jobs that satisfy is, in the order of their ids.
func (m *model) that(is func(j *job) bool) []*job {
	return slices.DeleteFunc(m.ordered(), func(j *job) bool { return !is(j) })
}

// kept are the responses attached to a job that no handler has yet, in the order of arrival.
func (m *model) kept(id sojourn.ID) []*message {
	return m.responses(func(r *message) bool { return r.job == id && r.outcome == sojourn.Early })
}

func (m *model) inHand(id sojourn.ID) []*message {
	return m.responses(func(r *message) bool { return r.job == id && r.inHand })
}

func (m *model) responses(that func(r *message) bool) []*message {
	var out []*message
	for _, r := range m.inbox {
		if that(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// stands returns the job of a valid lease: id, epoch and worker are the row's, and the state is
// running.
func (m *model) stands(l sojourn.Lease) *job {
	if j := m.jobs[l.ID]; j != nil && j.State == sojourn.Running && j.epoch == l.Epoch && j.worker == l.Worker {
		return j
	}
	return nil
}

// happen applies an event and matches after it.
func (m *model) happen(j *job, e rules.Event, by change) error {
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

func (m *model) apply(j *job, tr rules.Transition, c change) {
	m.touched[j.ID] = true
	was := *j
	j.Row = tr.To
	j.moveTo(m, cmp.Or(c.queue, j.queue))
	m.clocks(&was, j, tr, c.verdict)
	if tr.Outcome != "" {
		j.record(&was, tr, m.now)
	}
	if c.verdict.Checkpoint != nil {
		j.checkpoint = string(c.verdict.Checkpoint)
	}
	if was.InHand > 0 && tr.To.InHand == 0 {
		for _, r := range m.inHand(j.ID) {
			r.inHand = false
			if tr.HandLate {
				r.outcome = sojourn.Late
			}
		}
	}
	if tr.KeptLate {
		for _, r := range m.kept(j.ID) {
			r.outcome = sojourn.Late
		}
	}
	j.updated = m.now
	if j.State.Final() {
		m.end(&was, j, tr, c)
	}
}

// moveTo puts a job into a queue, which need not exist yet.
func (j *job) moveTo(m *model, queue string) {
	j.queue = queue
	if _, ok := m.queues[queue]; !ok {
		m.queues[queue] = sojourn.QueueSettings{}
	}
}

func (j *job) record(was *job, tr rules.Transition, now int64) {
	e := entry{generation: was.generation, stage: was.Stage, attempt: was.Attempt, purpose: was.Purpose, outcome: tr.Outcome, state: tr.To.State,
		reason: tr.Reason, text: tr.Error, ended: now}
	if was.State == sojourn.Running {
		e.epoch, e.worker = was.epoch, was.worker
	}
	j.history = append(slices.Clip(j.history), e)
}

// clocks starts and ends the clocks of a job.
func (m *model) clocks(was, j *job, tr rules.Transition, v sojourn.Verdict) {
	switch tr.RunAt {
	case rules.RunAtNow:
		j.runAt = m.now
	case rules.RunAtDelay:
		j.runAt = m.now + tr.Delay.Microseconds()
		if !v.RunAt.IsZero() {
			j.runAt = max(v.RunAt.UnixMicro(), m.now)
		}
	}
	if v.Priority != nil {
		j.priority = *v.Priority
	}
	j.waitUntil, j.beatUntil, j.pollAt, j.decideBy, j.rested = 0, 0, 0, 0, 0
	if was.State == sojourn.Running {
		j.leaseUntil = 0
	}
	switch {
	case j.State == sojourn.Awaiting && (was.State == sojourn.Awaiting || was.Purpose == sojourn.PurposePoll):
		j.waitUntil, j.beatUntil = was.waitUntil, was.beatUntil
	case j.State == sojourn.Awaiting:
		j.waitUntil, j.beatUntil = m.after(j.Wait.Within), m.after(j.Wait.Beat)
	case j.State == sojourn.Errored:
		j.decideBy = m.now + j.Policy.DecideWithin.Microseconds()
	case j.State == sojourn.Ready && j.Resumed:
		j.rested = cmp.Or(was.rested, m.now)
	}
	if j.State == sojourn.Awaiting && j.Wait.Poll.First > 0 && !j.NoPoll {
		j.pollAt = m.now + tr.Poll.Microseconds()
	}
	if !j.AttemptOpen {
		j.timeoutAt = 0
	}
}

// after is the time after d; 0 for none.
func (m *model) after(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return m.now + d.Microseconds()
}

// answered reports whether a response attached to a job ends its wait; it takes precedence over the
// result of a poll step.
func (m *model) answered(j *job) bool {
	waits := j.Row
	waits.State, waits.Purpose = sojourn.Awaiting, sojourn.NoPurpose
	return rules.Match(waits, j.key, m.keptOf(j)).Found()
}

// keepAnswer stores the response that a poll step has returned.
func (m *model) keepAnswer(j *job, e rules.Event) {
	s := &message{seq: m.nextSeq, job: j.ID, outcome: sojourn.Applied, inHand: true, received: m.now,
		r: sojourn.Response{Source: sojourn.SourcePoll, MessageID: fmt.Sprintf("%d.%d", j.ID, j.epoch), Body: e.Outcome.Result}}
	if e.Answered {
		s.outcome, s.inHand = sojourn.Late, false
	}
	m.nextSeq++
	m.messages[identity(s.r, nil)], m.inbox[s.seq] = known{seq: s.seq}, s
}

func (m *model) keptOf(j *job) (kept []rules.KeptResponse) {
	for _, r := range m.kept(j.ID) {
		k := rules.KeptResponse{Seq: r.seq, Key: r.r.Key, Failed: r.r.Failed, Reason: cmp.Or(r.r.Reason, "response"), Error: r.r.Error}
		if r.by != nil {
			k.ByToken, k.Wait = true, r.by.wait
		}
		kept = append(kept, k)
	}
	return kept
}

// end makes a job final: its keys are free, unless it keeps its own for a while.
func (m *model) end(was, j *job, tr rules.Transition, c change) {
	j.finished, j.reason, j.text, j.result = m.now, tr.Reason, tr.Error, c.result
	m.edges.end(j.ID)
	if h := m.keys[name{j.kind, j.key}]; j.key != "" && h != nil && h.job == j.ID {
		h.live = false
		h.until = 0
		if keep := j.Policy.KeepKey; keep > 0 {
			h.until = m.now + keep.Microseconds()
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
func (m *model) match(j *job) {
	for j.Kept > 0 && j.State.Live() {
		found := rules.Match(j.Row, j.key, m.keptOf(j))
		if !found.Found() {
			return
		}
		for _, seq := range slices.Concat(found.Take, found.UsedUp) {
			m.inbox[seq].outcome = sojourn.Applied
		}
		for _, seq := range found.Late {
			m.inbox[seq].outcome = sojourn.Late
		}
		for _, seq := range found.Stale {
			m.inbox[seq].outcome = sojourn.Stale
		}
		m.apply(j, found.Transition, change{})
		for _, seq := range found.Take {
			m.inbox[seq].inHand = true
		}
	}
}

// beginWait registers the awaited keys to the job and attaches the early responses under all of its
// keys.
func (m *model) beginWait(j *job) {
	for _, k := range j.Wait.Keys {
		if k == j.key {
			continue
		}
		n := name{j.kind, k}
		if h := m.keys[n]; h == nil || h.job != j.ID || !h.live {
			m.remember(n, j.ID)
			m.keys[n] = &holder{job: j.ID, live: true}
		}
	}
	j.awaited = true
	for _, r := range m.responses(func(r *message) bool { return r.outcome == sojourn.Early && r.job == 0 }) {
		h := m.keys[name{r.r.Kind, r.r.Key}]
		if r.r.Kind == j.kind && h != nil && h.job == j.ID && h.live {
			r.job, r.expires = j.ID, 0
			j.Kept++
		}
	}
}

// remember notes that another job takes a key whose holder is final and still stored. A redriven
// holder is not final any more.
func (m *model) remember(n name, taker sojourn.ID) {
	if h := m.keys[n]; h != nil && !h.live && h.job != taker && m.jobs[h.job].State.Final() {
		if m.past[n] == nil {
			m.past[n] = map[sojourn.ID]bool{}
		}
		m.past[n][h.job] = true
	}
}

// taken reports whether a key belongs to another job than j.
func (m *model) taken(j sojourn.ID, n name) bool {
	h := m.keys[n]
	return h != nil && h.job != j && (h.live || h.until > m.now)
}

// remove deletes a final job with everything of it. The newest final job that held one of its keys
// before becomes the holder of the key.
func (m *model) remove(j *job) {
	m.touched[j.ID] = true
	delete(m.jobs, j.ID)
	m.edges.remove(j.ID)
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
	for seq, r := range m.inbox {
		if r.job == j.ID {
			delete(m.inbox, seq)
		}
	}
}
