package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// The second walk covers more than one job alone: three workers that die, sleep and repeat
// unanswered calls, two jobs at a limit or under one key, two responses, and the store around
// Decide and Match: fence, history, keys, inbox. Each of its rules can be switched off.

const (
	worldJobs    = 2
	worldSent    = 2
	worldWorkers = 3
)

// worldJob is a job with what a store keeps beside its row.
type worldJob struct {
	life
	there             bool
	epoch, generation uint8
	lives             uint8 // how often its id was inserted
	worker            uint8 // 1 + the one of the last claim
	ended             [8]sojourn.OutcomeType
	started           bool // a handler was really started in this generation
}

// grip is what a worker does or waits for.
type grip struct {
	phase                         uint8
	job, epoch, life, fenceWorker uint8
	out                           sojourn.OutcomeType
}

const (
	idle     uint8 = iota
	works          // runs a step
	unheard        // its claim was executed, the answer is lost
	unproven       // its report was executed, the answer is lost
)

// world is one state. It has no clocks: each may fire whenever the state allows it.
type world struct {
	jobs    [worldJobs]worldJob
	inbox   [worldSent]place // of a response that no job has: unsent, kept (early), late
	arrived [worldSent]uint8 // 1 + the live owner of its key when it came, 3 = there was a final one
	taken   [worldSent]uint8 // how often a job has taken it
	hands   [worldWorkers]grip
	budget  [7]uint8
}

// The budgets bound what could go on for ever.
const (
	loses   = iota // answers
	dies           // workers
	leases         // that end under a living worker
	redoes         // redrives
	repeats        // responses that are sent again
	prunes
	cancels
)

// worldScene is a scenario with its rules; off are the ones that are switched off.
type worldScene struct {
	laws
	name    string
	keys    [worldJobs]string
	sent    [worldSent]KeptResponse
	awaits  sojourn.Wait
	limit   int32
	crashes int32
	handler bool
	polls   bool // waiting jobs are polled
	budget  [7]uint8
	off     string
}

func (sc *worldScene) rule(name string) bool { return !slices.Contains(strings.Fields(sc.off), name) }

// of is the scene of one job.
func (sc *worldScene) of(j int) *scene {
	return &scene{laws: sc.laws, key: sc.keys[j], sent: sc.sent[:]}
}

func (sc *worldScene) start() world {
	w := world{budget: sc.budget}
	w.jobs[0] = sc.born(0, 0)
	return w
}

func (sc *worldScene) born(j int, lives uint8) worldJob {
	row := rowOf(max2(2, sc.crashes), weighs(1))
	row.ID = sojourn.ID(j + 1)
	return worldJob{life: life{row: row}, there: true, generation: 1, lives: lives + 1}
}

// holder is 1 + the live job that has a key, its own or an awaited one.
func (sc *worldScene) holder(w *world, key string) int {
	for j := range w.jobs {
		if b := &w.jobs[j]; b.there && b.row.State.Live() && (sc.keys[j] == key || slices.Contains(b.row.Wait.Keys, key)) {
			return j + 1
		}
	}
	return 0
}

// past is 1 + a final job that has the key.
func (sc *worldScene) past(w *world, key string) int {
	for j := range w.jobs {
		if b := &w.jobs[j]; b.there && b.row.State.Final() && sc.keys[j] == key {
			return j + 1
		}
	}
	return 0
}

// happen is one transaction of the store: Decide, the early responses of a job that awaits now,
// Match. The end of a lease is recorded.
func (sc *worldScene) happen(w *world, j int, e Event) error {
	b, s := &w.jobs[j], sc.of(j)
	was := b.row
	t, err := sc.decide(was, e)
	if err != nil {
		return err
	}
	b.last = nil
	before := b.at
	s.apply(&b.life, t, e.Type == EventFinished && t.To.InHand > 0 && was.Purpose == sojourn.PurposePoll)
	if was.State == sojourn.Running && b.row.State != sojourn.Running {
		b.ended[b.epoch] = sojourn.OutcomeType(t.Outcome)
	}
	if b.row.State == sojourn.Awaiting && sc.rule("inbox") {
		for i, r := range sc.sent {
			if w.inbox[i] == kept && sc.holder(w, r.Key) == j+1 {
				w.inbox[i] = unsent
				b.count++
				b.at[i], b.seq[i] = kept, b.count
				b.row.Kept++
			}
		}
	}
	err = s.settle(&b.life)
	for i := range b.at {
		if i < worldSent && b.at[i] == held && before[i] != held {
			w.taken[i]++
		}
	}
	if b.row.State.Final() && !sc.rule("B5") { // unused responses stay for the next job of the key
		for i := range sc.sent {
			if before[i] == kept && b.at[i] == late {
				b.at[i], w.inbox[i] = unsent, kept
			}
		}
	}
	return err
}

// stands is the fence: id (with its life, which the worker's name stands for), epoch, worker and
// state.
func (sc *worldScene) stands(w *world, h grip) bool {
	b := &w.jobs[h.job]
	switch {
	case !b.there || b.epoch != h.epoch:
		return false
	case sc.rule("A6") && b.worker != h.fenceWorker:
		return false
	}
	return b.row.State == sojourn.Running || !sc.rule("A1")
}

// report is a Finish by worker n. It returns the law that it breaks.
func (sc *worldScene) report(w *world, n int, out sojourn.OutcomeType, answerLost bool) (string, bool) {
	h := w.hands[n]
	b := &w.jobs[h.job]
	over := !b.there || b.row.State != sojourn.Running || b.epoch != h.epoch || b.lives != h.life
	next := grip{}
	switch {
	case sc.stands(w, h):
		if over {
			return "a report was accepted whose lease had ended", true
		}
		o := sojourn.Outcome{Type: out, Wait: sc.awaits}
		e := Event{Type: EventFinished, Outcome: &o}
		came := b.row.Purpose == sojourn.PurposePoll && sc.of(int(h.job)).answered(&b.life)
		e.Answered = came && sc.rule("P4")
		for _, k := range o.Wait.Keys {
			if other := sc.holder(w, k); out == sojourn.OutcomeAwait && sc.rule("B10") && other != 0 && other != int(h.job)+1 {
				e.KeyConflict = true
			}
		}
		if err := sc.happen(w, int(h.job), e); err != nil {
			return "", false
		}
		if came && out == sojourn.OutcomeAnswer && b.life.poll {
			return "a poll won over the response that came before its answer", true
		}
		if answerLost {
			next = h
			next.phase, next.out = unproven, out
		}
	case h.phase == unproven && sc.rule("A2") && b.ended[h.epoch] == h.out: // answered: repeated
	case h.phase == unproven && b.there && b.lives == h.life && b.ended[h.epoch] == h.out:
		return "a worker was told lost for its own executed report", true
	}
	w.hands[n] = next
	return "", true
}

// claim gives job j to worker n.
func (sc *worldScene) claim(w *world, n, j int, answerLost bool) bool {
	b := &w.jobs[j]
	sum := int32(0)
	for i := range w.jobs {
		if w.jobs[i].there {
			sum += w.jobs[i].row.Held
		}
	}
	plain := b.row.State == sojourn.Ready && !b.row.Resumed
	if w.hands[n].phase != idle || !b.there || plain && sum+b.row.Weight > sc.limit || b.row.State == sojourn.Awaiting && !sc.polls || b.epoch >= 7 {
		return false
	}
	if sc.happen(w, j, Event{Type: EventClaimed, RetryHandler: sc.handler}) != nil {
		return false
	}
	b.epoch++
	b.worker = uint8(n) + 1
	if b.row.Given {
		for i := range b.at {
			b.shown[i] = b.shown[i] || b.at[i] == held
		}
	}
	w.hands[n] = grip{phase: works, job: uint8(j), epoch: b.epoch, life: b.lives, fenceWorker: uint8(n) + 1}
	if answerLost {
		w.hands[n].phase = unheard
	} else {
		b.started = true
	}
	return true
}

// respond is a response that arrives, the first time or again.
func (sc *worldScene) respond(w *world, i int, again bool) (string, bool) {
	known := w.inbox[i] != unsent || w.arrived[i] != 0
	if known != again {
		return "", false
	}
	if again && sc.rule("B8") {
		return "", true // duplicate: only counted
	}
	key := sc.sent[i].Key
	owner := sc.holder(w, key)
	if again && owner == 0 {
		return "", false
	}
	switch {
	case owner != 0:
		b := &w.jobs[owner-1]
		if again && b.at[i] != done {
			return "", false
		}
		was := b.at[i]
		b.at[i] = unsent
		if err := sc.of(owner-1).respond(&b.life, i); err != nil {
			return err.Error(), true
		}
		if w.arrived[i] == 0 {
			w.arrived[i] = uint8(owner)
		}
		if b.at[i] == held && was != held {
			w.taken[i]++
		}
	case sc.past(w, key) != 0:
		w.arrived[i], w.inbox[i] = 3, late
		if !sc.rule("B5") {
			w.inbox[i] = kept
		}
	default:
		w.inbox[i], w.arrived[i] = kept, 4
	}
	return "", true
}

// worldMove is a step of the walk.
type worldMove struct {
	name string
	good bool
	do   func(w *world) (law string, possible bool)
}

func (sc *worldScene) spend(w *world, what int) bool {
	if w.budget[what] == 0 {
		return false
	}
	w.budget[what]--
	return true
}

// reports are what workers say.
func (sc *worldScene) reports() []sojourn.OutcomeType {
	outs := []sojourn.OutcomeType{sojourn.OutcomeCompleted, sojourn.OutcomeError, sojourn.OutcomeAwait, sojourn.OutcomeDecided}
	if sc.polls {
		outs = append(outs, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer)
	}
	return outs
}

func (sc *worldScene) moves() (ms []worldMove) {
	add := func(good bool, do func(w *world) (string, bool), format string, a ...any) {
		ms = append(ms, worldMove{fmt.Sprintf(format, a...), good, do})
	}
	for n := range worldWorkers {
		for j := range worldJobs {
			add(true, func(w *world) (string, bool) { return "", sc.claim(w, n, j, false) }, "w%d claims %d", n, j)
			add(false, func(w *world) (string, bool) { return "", sc.spend(w, loses) && sc.claim(w, n, j, true) }, "w%d claims %d, answer lost", n, j)
		}
		for _, out := range sc.reports() {
			may := func(w *world) bool { return w.hands[n].phase == works }
			add(out == sojourn.OutcomeCompleted || out == sojourn.OutcomeDecided, func(w *world) (string, bool) {
				if !may(w) {
					return "", false
				}
				return sc.report(w, n, out, false)
			}, "w%d reports %s", n, out)
			add(false, func(w *world) (string, bool) {
				if !may(w) || !sc.spend(w, loses) || !sc.stands(w, w.hands[n]) {
					return "", false
				}
				return sc.report(w, n, out, true)
			}, "w%d reports %s, answer lost", n, out)
		}
		add(true, func(w *world) (string, bool) {
			h := w.hands[n]
			if h.phase != unproven {
				return "", false
			}
			return sc.report(w, n, h.out, false)
		}, "w%d repeats its report", n)
		add(true, func(w *world) (string, bool) {
			h := &w.hands[n]
			if h.phase != unheard {
				return "", false
			}
			if b := &w.jobs[h.job]; sc.rule("A3") && b.there && b.row.State == sojourn.Running && b.epoch == h.epoch && b.lives == h.life {
				h.phase, b.started = works, true
			} else {
				*h = grip{}
			}
			return "", true
		}, "w%d repeats its claim", n)
		add(false, func(w *world) (string, bool) {
			if w.hands[n].phase == idle || !sc.spend(w, dies) {
				return "", false
			}
			w.hands[n] = grip{}
			return "", true
		}, "w%d dies", n)
	}
	for j := range worldJobs {
		ms = append(ms, sc.movesOf(j)...)
	}
	for i := range sc.sent {
		if sc.sent[i].Key == "" {
			continue
		}
		add(false, func(w *world) (string, bool) { return sc.respond(w, i, false) }, "respond r%d", i)
		add(false, func(w *world) (string, bool) {
			if !sc.spend(w, repeats) {
				return "", false
			}
			return sc.respond(w, i, true)
		}, "respond r%d again", i)
		add(false, func(w *world) (string, bool) {
			live := sc.holder(w, sc.sent[i].Key) != 0
			if w.inbox[i] != kept || live && sc.rule("B9") {
				return "", false
			}
			w.inbox[i] = late
			if live {
				return "a response expired beside the live job of its key", true
			}
			return "", true
		}, "r%d expires", i)
	}
	return ms
}

// movesOf are the clocks and the operators of one job.
func (sc *worldScene) movesOf(j int) (ms []worldMove) {
	add := func(good bool, name string, do func(w *world, b *worldJob) bool) {
		ms = append(ms, worldMove{fmt.Sprintf("%s %d", name, j), good, func(w *world) (string, bool) {
			b := &w.jobs[j]
			return "", (b.there || name == "enqueue") && do(w, b)
		}})
	}
	event := func(good bool, name string, e Event, budget int) {
		add(good, name, func(w *world, b *worldJob) bool {
			return (budget < 0 || sc.spend(w, budget)) && sc.happen(w, j, e) == nil
		})
	}
	add(false, "enqueue", func(w *world, b *worldJob) bool {
		if b.there || sc.keys[j] == "" || b.lives > 1 || sc.holder(w, sc.keys[j]) != 0 || j == 0 && b.lives > 0 && sc.rule("A6id") {
			return false
		}
		*b = sc.born(j, b.lives)
		return true
	})
	add(true, "lease ends", func(w *world, b *worldJob) bool {
		held := slices.ContainsFunc(w.hands[:], func(h grip) bool { return h.phase != idle && int(h.job) == j && h.epoch == b.epoch })
		return b.row.State == sojourn.Running && (!held || sc.spend(w, leases)) && sc.happen(w, j, lostEvent) == nil
	})
	event(true, "due", Event{Type: EventDue}, -1)
	event(true, "resumed too long", Event{Type: EventResumeOverdue}, -1)
	event(true, "nobody decides", Event{Type: EventDecideOverdue}, -1)
	add(true, "timeout", func(w *world, b *worldJob) bool {
		return b.row.State == sojourn.Awaiting && sc.happen(w, j, timeoutEvent) == nil
	})
	event(false, "cancel", Event{Type: EventCancel}, cancels)
	add(false, "redrive", func(w *world, b *worldJob) bool {
		if !b.row.State.Final() || sc.rule("O4") && sc.holder(w, sc.keys[j]) != 0 || !sc.spend(w, redoes) || sc.happen(w, j, Event{Type: EventRedrive}) != nil {
			return false
		}
		b.generation, b.started = b.generation+1, false
		return true
	})
	add(false, "prune", func(w *world, b *worldJob) bool {
		if !b.row.State.Final() || !sc.spend(w, prunes) {
			return false
		}
		*b = worldJob{lives: b.lives}
		return true
	})
	return ms
}
