package sim

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

var (
	queues     = []string{"default", "slow"}
	kinds      = []string{"charge", "mail"}
	everything = wants{queues: queues, kinds: kinds, decidable: kinds, pollable: kinds, lease: 30 * time.Second}
)

// actor chooses the random operations of a run, which carries them out and checks their answers.
type actor struct{ *run }

// acts are the operations, with how often each comes.
var acts = []struct {
	weight int
	do     func(r actor)
}{
	{16, actor.enqueueSome}, {22, actor.claimSome}, {26, actor.reportSome}, {13, actor.respondSome}, {12, actor.letTimePass},
	{4, actor.extendSome}, {4, actor.saveSome}, {5, actor.editSome}, {3, actor.editInboxSome}, {4, func(r actor) { r.sweep(1000) }}, {7, actor.repeatSome},
	{5, actor.changeEdges}, {5, actor.scheduleSome}, {5, actor.wholeSome}, {1, actor.peekSome}, {1, actor.changeQueue}, {1, actor.workerDies}, {1, actor.storeGoes},
}

// step does one random operation.
func (r actor) step() {
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	at := r.n(sum)
	for _, a := range acts {
		if at -= a.weight; at < 0 {
			a.do(r)
			return
		}
	}
}

// job makes a random job. next marks those that a completion carries along.
func (r actor) job(next bool) sojourn.Job {
	p := sojourn.Policy{Backoff: sojourn.Backoff{First: oneOf(r.dice, time.Second, 20*time.Second), Factor: 2, Limit: time.Minute},
		MaxAttempts: oneOf[int32](r.dice, 1, 2, 3, 5), MaxCrashes: oneOf[int32](r.dice, 1, 2, 3), Timeout: oneOf(r.dice, 2*time.Minute, time.Hour)}
	if r.chance(15) {
		p.Deadline = oneOf(r.dice, 5*time.Minute, 3*time.Hour)
	}
	if r.chance(10) && !next {
		p.KeepKey = 10 * time.Minute
	}
	if r.chance(20) {
		p.LateToInbox = new(true)
	}
	if r.chance(10) {
		p.OnLost = sojourn.Fail
	}
	if r.chance(10) {
		p.NoExtend = new(true)
	}
	if r.chance(20) {
		p.DecideWithin = 30 * time.Second
	}
	options := []sojourn.Option{sojourn.WithPolicy(p), sojourn.Queue(oneOf(r.dice, queues...)), sojourn.Weight(int32(r.n(4))),
		sojourn.Priority(oneOf[int32](r.dice, 100, 100, 100, 1, 200)), sojourn.OnKeyConflict(oneOf(r.dice, sojourn.ReturnExisting, sojourn.ReturnExisting, sojourn.ReturnError, sojourn.Replace))}
	if r.chance(60) {
		options = append(options, sojourn.Key(r.key(next)))
	}
	if r.chance(20) {
		options = append(options, sojourn.Delay(r.between(time.Microsecond, 10*time.Minute)))
	}
	j := *sojourn.NewJob(oneOf(r.dice, kinds...), []byte(r.name("args ")), options...)
	j.ID, j.ContentType = r.draw(), "text/plain" // its bytes are no JSON
	r.everJobs++
	return j
}

func (r actor) key(next bool) string {
	if next {
		return oneOf(r.dice, "n1", "n2")
	}
	return oneOf(r.dice, "k1", "k2", "k3", "k4", "k5", "k6")
}

func (r actor) enqueueSome() {
	var jobs []sojourn.Job
	for range oneOf(r.dice, 1, 1, 1, 1, 2, 4) {
		j := r.job(false)
		if r.chance(3) && len(r.old) > 0 {
			j.ID = oneOf(r.dice, r.old...)
		}
		jobs = append(jobs, j)
	}
	r.dependSome(jobs)
	r.jobs = append(r.jobs, jobs...)
	if r.chance(10) {
		jobs = append(jobs, oneOf(r.dice, r.jobs...)) // a call repeated, or a job that stands twice in the batch
	}
	if r.chance(3) { // an id used for another job
		jobs[0].Key = "other"
		jobs[0].ID = oneOf(r.dice, r.jobs...).ID
	}
	r.enqueue(jobs, r.chance(50))
}

func (r actor) claimSome() {
	w := wants{queues: queues, kinds: kinds, max: oneOf(r.dice, 1, 1, 2, 5), lease: oneOf(r.dice, 10*time.Second, 30*time.Second, 2*time.Minute)}
	if r.chance(20) {
		w.queues = []string{oneOf(r.dice, "slow", "default")}
	}
	if r.chance(20) {
		w.kinds = []string{oneOf(r.dice, kinds...)}
	}
	if r.chance(50) {
		w.decidable = []string{"mail"}
	}
	if r.chance(60) {
		w.pollable = []string{oneOf(r.dice, kinds...)}
	}
	if r.chance(10) {
		w.capacity = int64(1 + r.n(5))
	}
	r.claim(r.request(oneOf(r.dice, r.workers...), w))
}

// lease is mostly a valid one; else one of a worker that sleeps, is dead, or has reported before.
func (r actor) lease() (l given, ok bool) {
	running := r.m.That(func(j *model.Job) bool { return j.State == sojourn.Running })
	if len(running) > 0 && r.chance(85) {
		j := oneOf(r.dice, running...)
		return given{sojourn.Lease{ID: j.ID, Epoch: j.Epoch, Worker: j.Worker}, j.Purpose}, true
	}
	if len(r.leases) == 0 {
		return l, false
	}
	r.result.Faults["late report"]++
	l = oneOf(r.dice, r.leases...)
	switch r.n(12) { // a lease that never was
	case 0:
		l.lease.Epoch++
	case 1:
		l.lease.Worker = oneOf(r.dice, r.workers...)
	}
	return l, true
}

func (r actor) reportSome() {
	l, ok := r.lease()
	if !ok {
		r.enqueueSome()
		return
	}
	o := sojourn.Outcome{Lease: l.lease}
	if l.purpose == sojourn.PurposeDecide != r.chance(3) { // a worker that mixes them up is refused
		o.Type = oneOf(r.dice, sojourn.OutcomeDecided, sojourn.OutcomeDecided, sojourn.OutcomeDecided, sojourn.OutcomeReleased)
		o.Verdict.Final, o.Verdict.Again = r.chance(20), r.chance(20)
		o.Reason = "decided"
		r.finish(o)
		return
	}
	if l.purpose == sojourn.PurposePoll != r.chance(3) {
		r.finish(r.polled(o))
		return
	}
	o.Type = oneOf(r.dice, sojourn.OutcomeCompleted, sojourn.OutcomeCompleted, sojourn.OutcomeCompleted, sojourn.OutcomeError, sojourn.OutcomeError,
		sojourn.OutcomeError, sojourn.OutcomeAwait, sojourn.OutcomeAwait, sojourn.OutcomeAwait, sojourn.OutcomeAwait, sojourn.OutcomeSnooze, sojourn.OutcomeAdvance, sojourn.OutcomeAdvance,
		sojourn.OutcomeAwaitJobs, sojourn.OutcomeAwaitJobs, sojourn.OutcomeAwaitJobs,
		sojourn.OutcomeAbort, sojourn.OutcomeCancelled, sojourn.OutcomeReleased, sojourn.OutcomeUndecodable)
	switch o.Type {
	case sojourn.OutcomeCompleted:
		o.Result = []byte(r.name("result "))
		if r.chance(15) {
			o.Next = []sojourn.Job{r.job(true)}
			r.dependSome(o.Next)
		}
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeCancelled:
		o.Reason, o.Text = oneOf(r.dice, "gateway", "bug"), "it went wrong"
		if o.Type == sojourn.OutcomeError {
			o.Verdict = r.verdict()
		}
	case sojourn.OutcomeAdvance:
		o.Queue, o.Delay = oneOf(r.dice, "", "default", "slow"), oneOf(r.dice, 0, 0, r.between(0, 5*time.Minute))
		if r.chance(30) {
			o.Weight, o.Priority, o.Verdict.Checkpoint = new(int32(r.n(4))), new(int32(r.n(300))), []byte(r.name("checkpoint "))
		}
		if r.chance(30) {
			o.Depends = []sojourn.Dependency{r.dependency(o.Lease.ID, nil)}
		}
	case sojourn.OutcomeAwaitJobs:
		r.awaitJobs(&o)
	case sojourn.OutcomeSnooze:
		o.Delay = r.between(0, 5*time.Minute)
	case sojourn.OutcomeAwait:
		o.Wait = r.wait()
	}
	r.finish(o)
}

// polled is the report of a poll step.
func (r actor) polled(o sojourn.Outcome) sojourn.Outcome {
	o.Type = oneOf(r.dice, sojourn.OutcomeNoAnswer, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer, sojourn.OutcomeAnswer, sojourn.OutcomeReleased)
	switch {
	case o.Type == sojourn.OutcomeAnswer:
		o.Result = []byte(r.name("polled "))
	case r.chance(30):
		o.Reason, o.Text = "gateway", "it does not answer"
	}
	return o
}

func (r actor) verdict() (v sojourn.Verdict) {
	switch r.n(10) {
	case 0:
		v.Final = true
	case 1, 2:
		v.Again = true
	case 3:
		v.Delay = sojourn.Now
	case 4:
		v.Delay = time.Minute
	case 5:
		p := int32(r.n(300))
		v.Priority, v.Checkpoint = &p, []byte(r.name("checkpoint "))
	}
	return v
}

func (r actor) wait() (w sojourn.Wait) {
	if r.chance(40) {
		w.Within = r.between(time.Second, 10*time.Minute)
	}
	if r.chance(25) {
		w.Beat = r.between(time.Second, 3*time.Minute)
	}
	if r.chance(40) {
		w.Poll = sojourn.Backoff{First: r.between(sojourn.MinPoll, time.Minute), Factor: 2, Limit: 3 * time.Minute}
	}
	if r.chance(60) {
		return w
	}
	w.Keys = []string{oneOf(r.dice, "a1", "a2", "a3", "k1")}
	if r.chance(60) {
		w.Keys = append(w.Keys, oneOf(r.dice, "a3", "a4", "a5"))
	}
	w.Mode = oneOf(r.dice, sojourn.WaitAny, sojourn.WaitAll)
	return w
}

// respondSome sends responses from outside. Some of its calls have several responses, mostly for
// the same job: each must see the effects of those before it.
func (r actor) respondSome() {
	replies := []reply{r.reply()}
	for range oneOf(r.dice, 0, 0, 0, 1, 2, 3) {
		p := r.reply()
		if first := replies[0]; r.chance(60) && !first.r.Park && !p.r.Park {
			p.r.Kind, p.r.Key, p.r.Job, p.r.Token, p.of = first.r.Kind, first.r.Key, first.r.Job, first.r.Token, first.of
		}
		if r.chance(10) {
			p.r.MessageID = replies[0].r.MessageID // often with another address: a conflict
		}
		replies = append(replies, p)
	}
	r.respond(replies...)
}

// reply is mostly for a job that awaits, or soon will, and now and then for no job.
func (r actor) reply() reply {
	p := reply{r: sojourn.Response{Kind: oneOf(r.dice, kinds...), Source: "sim", MessageID: r.name("m"), Body: []byte("answer"),
		KeepConflict: true, PerKey: r.chance(20)}} // a refusal leaves a gap in the numbers of some stores
	if r.chance(3) {
		p.r.Kind, p.r.Park, p.r.Reason = "", true, "undecodable"
		return p
	}
	if r.chance(20) {
		p.r.Failed, p.r.Reason, p.r.Error = true, oneOf(r.dice, "declined", ""), "no"
	}
	if !p.r.Failed && r.chance(20) {
		p.r.Progress, p.r.Body = true, []byte(oneOf(r.dice, "", r.name("half way ")))
	}
	asked := r.m.That(func(j *model.Job) bool {
		return j.State == sojourn.Awaiting || j.State == sojourn.Running || j.State == sojourn.Scheduled && j.Claimed
	})
	switch way := r.n(10); {
	case way < 4 && len(asked) > 0:
		j := oneOf(r.dice, asked...)
		p.r.Kind, p.r.Key = j.Kind, j.Key
		if len(j.Wait.Keys) > 0 {
			p.r.Key = oneOf(r.dice, j.Wait.Keys...)
		}
		if p.r.Key == "" {
			p.r.Kind, p.r.Job = "", j.ID
		}
	case way < 6 && len(r.tokens) > 0:
		t := oneOf(r.dice, r.tokens[max(len(r.tokens)-30, 0):]...)
		p.r.Kind, p.r.Token, p.of = "", t.text, &t.of
	case way < 7 && len(r.jobs) > 0:
		p.r.Kind, p.r.Job = "", oneOf(r.dice, r.jobs...).ID
	default:
		p.r.Key = oneOf(r.dice, "k1", "k2", "k3", "k4", "k5", "k6", "a1", "a2", "a3", "a4", "a5", "n1", "nobody")
	}
	return p
}

// letTimePass moves the clock: a little, to the very moment at which something is due, past leases,
// by hours, back.
func (r actor) letTimePass() {
	d := r.between(0, 10*time.Second)
	switch way := r.n(20); {
	case way < 7:
	case way < 12:
		d = r.between(10*time.Second, 3*time.Minute)
	case way < 16:
		next := int64(0)
		for _, j := range r.m.Ordered() {
			for _, at := range []int64{j.WakeAt(), j.PollAt} {
				if at > r.m.Now && (next == 0 || at < next) {
					next = at
				}
			}
		}
		if next > 0 && next < r.m.Now+24*time.Hour.Microseconds() {
			d = time.UnixMicro(next).Sub(r.wall) - oneOf(r.dice, 0, 0, time.Microsecond)
		}
	case way < 17:
		d = r.between(time.Hour, 6*time.Hour)
		r.result.Faults["clock leaps"]++
	case way < 19:
		d = -r.between(time.Microsecond, 2*time.Minute)
		r.result.Faults["clock steps back"]++
	}
	r.advance(d)
	r.say("the clock moves by %v", d)
}

func (r actor) extendSome() {
	var leases []sojourn.Lease
	for range 1 + r.n(3) {
		if l, ok := r.lease(); ok && !slices.Contains(leases, l.lease) {
			leases = append(leases, l.lease)
		}
	}
	if len(leases) > 0 {
		r.extend(leases)
	}
}

func (r actor) saveSome() {
	l, ok := r.lease()
	if !ok {
		return
	}
	s := driver.Saved{Lease: l.lease}
	switch r.n(3) {
	case 0:
		s.Checkpoint = []byte(r.name("checkpoint "))
	case 1:
		text := r.name("progress ")
		s.Progress = &text
	case 2:
		s.Key = oneOf(r.dice, "k1", "k2", "a1", "a2", "s1", "s2")
	}
	r.save(s)
}

func (r actor) editSome() {
	all := r.m.Ordered()
	if len(all) == 0 {
		return
	}
	var ids []sojourn.ID
	for range 1 + r.n(2) {
		ids = append(ids, oneOf(r.dice, all...).ID)
	}
	e := sojourn.Edit{Action: oneOf(r.dice, sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditRedrive, sojourn.EditRedrive,
		sojourn.EditRelease, sojourn.EditRelease, sojourn.EditPurge, sojourn.EditChange, sojourn.EditChange), By: "ops", Reason: oneOf(r.dice, "", "asked")}
	if e.Action == sojourn.EditRedrive { // mostly of jobs for which it can be
		if over := r.m.That(func(j *model.Job) bool { return j.State == sojourn.Failed || j.State == sojourn.Cancelled }); len(over) > 0 && r.chance(80) {
			ids = []sojourn.ID{oneOf(r.dice, over...).ID}
		}
	}
	if e.Action == sojourn.EditCancel || e.Action == sojourn.EditPurge {
		e.Dependents = oneOf(r.dice, "", sojourn.DependentsCancel, sojourn.DependentsRelease)
	}
	e.Refuse = r.chance(20)
	if r.chance(30) {
		e.Generation = int32(1 + r.n(2))
	}
	if e.Action == sojourn.EditChange {
		switch r.n(3) {
		case 0:
			p := int32(r.n(300))
			e.Priority = &p
		case 1:
			d := oneOf(r.dice, 0, time.Minute)
			e.Delay = &d
		case 2:
			q := oneOf(r.dice, queues...)
			e.Queue = &q
		}
	}
	r.edit(ids, e)
}

// repeatSome repeats calls that got no answer, or that were answered long ago.
func (r actor) repeatSome() {
	r.result.Faults["repeated call"]++
	if n := len(r.repeats); n > 0 && r.chance(60) {
		i := r.n(n)
		again := r.repeats[i]
		r.repeats = slices.Delete(r.repeats, i, i+1)
		again()
		return
	}
	recent := func(n int) int { return max(n-15, 0) }
	switch way := r.n(4); {
	case way == 0 && len(r.reports) > 0:
		r.finish(oneOf(r.dice, r.reports[recent(len(r.reports)):]...))
	case way == 1 && len(r.sent) > 0:
		r.respond(oneOf(r.dice, r.sent...))
	case way == 2 && len(r.jobs) > 0:
		r.enqueue([]sojourn.Job{oneOf(r.dice, r.jobs[recent(len(r.jobs)):]...)}, false)
	default:
		w := oneOf(r.dice, r.workers...)
		if q, ok := r.claims[w]; ok {
			if r.chance(10) && q.Number > 1 {
				q.Number-- // overtaken by the next one
			}
			r.claim(q)
		}
	}
}

// peekSome reads a queue in the order of its claims.
func (r actor) peekSome() {
	q := oneOf(r.dice, queues...)
	r.tick()
	r.say("Find next in %s", q)
	got, err := r.store.Find(r.ctx, sojourn.Filter{Queue: q, Next: true, Limit: 5})
	if err != nil {
		r.fail("Find next in %s: %v", q, err)
	}
	want := model.Claims(r.m).Next(q)
	for i, j := range want[:min(len(want), 5)] {
		if i >= len(got) || got[i].ID != j.ID {
			r.fail("Find next in %s: place %d of %d is not job %d", q, i, len(got), j.ID)
		}
	}
}

func (r actor) changeQueue() {
	s := sojourn.QueueSettings{Paused: r.chance(50)}
	if r.chance(40) {
		s.Retention = sojourn.Retention{Age: oneOf(r.dice, 0, 20*time.Minute), Count: oneOf[int64](r.dice, 0, 1, 3), FailedAge: oneOf(r.dice, 0, time.Hour)}
	}
	r.setQueue(oneOf(r.dice, queues...), s)
}

// workerDies lets the leases of a worker expire. Its process starts again under another name.
func (r actor) workerDies() {
	r.result.Faults["worker dies"]++
	i := r.n(len(r.workers))
	r.say("%s dies", r.workers[i])
	delete(r.claims, r.workers[i])
	r.workers[i] = r.born()
}

func (r actor) storeGoes() {
	r.outage = 1 + r.n(6)
	r.say("the store is away for %d calls", r.outage)
}
