package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// name is a new one.
func (r *run) name(prefix string) string {
	r.number++
	return fmt.Sprint(prefix, r.number)
}

// born is the name of a new worker.
func (r *run) born() string { return r.name("w") }

// advance moves the clock, also back.
func (r *run) advance(d time.Duration) {
	r.wall = r.wall.Add(d)
	if n, ok := r.store.Store.(interface{ Nudge() }); ok {
		n.Nudge()
	}
}

// tick follows each reading of the store's clock: a clock that was set back stands still.
// What the store does on its own after a call sees the clock of that call.
func (r *run) tick() {
	r.seen.Store(r.wall.UnixNano())
	r.m.Now = max(r.m.Now, r.wall.UnixMicro())
}

// fault chooses the fault of the next call.
func (r *run) fault(kinds ...faulty.Fault) faulty.Fault {
	f := faulty.None
	switch {
	case r.calm:
	case r.outage > 0:
		r.outage--
		f = faulty.Down
	case r.chance(12):
		f = oneOf(r.dice, faulty.Lost, faulty.Lost, faulty.Down, faulty.Twice)
	}
	if !slices.Contains(kinds, f) {
		f = faulty.None
	}
	if f != faulty.None {
		r.result.Faults[f.String()]++
	}
	r.store.Next = f
	return f
}

// attempt makes one call and compares its answer with the model's prediction. again repeats the
// call later if its caller does not learn the outcome.
func attempt[A any](r *run, what string, f faulty.Fault, predict func() A, call func() (A, error), again func(), differs func(got, want A) string) (got A, ok bool) {
	r.result.Calls++
	clear(r.m.Touched)
	r.m.Edges.Deep = false
	var want A
	if f != faulty.Down {
		r.tick()
		want = predict()
		flush(r)
	}
	if f == faulty.Twice {
		want = predict()
		flush(r)
	}
	got, err := call()
	switch f {
	case faulty.Down, faulty.Lost:
		code := map[faulty.Fault]string{faulty.Down: sojourn.CodeUnavailable, faulty.Lost: sojourn.CodeUnknown}[f]
		r.say("%s → %s", what, f)
		if sojourn.ErrorCode(err) != code {
			r.fail("%s: the error is %v, want %s", what, err, code)
		}
		if again != nil && len(r.repeats) < 20 {
			r.repeats = append(r.repeats, again)
		}
	default:
		if f != faulty.None {
			what += " (" + f.String() + ")"
		}
		if err != nil {
			r.say("%s → %v", what, err)
			r.fail("%s: %v", what, err)
		}
		r.say("%s → %s", what, told(want))
		if d := differs(got, want); d != "" {
			r.fail("%s: %s", what, d)
		}
		ok = true
	}
	r.look()
	return got, ok
}

// flush predicts what follows a call.
func flush(r *run) {
	r.m.Edges.Flush()
	model.WholesOf(r.m).Settle()
}

// told is an answer as the log shows it.
func told(v any) string {
	if cs, ok := v.([]driver.Claimed); ok {
		var leases []string
		for _, c := range cs {
			leases = append(leases, fmt.Sprintf("%d epoch %d to %s", c.Lease.ID, c.Lease.Epoch, c.Purpose))
		}
		return fmt.Sprint(leases)
	}
	text := fmt.Sprintf("%+v", v)
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// draw returns an unused id.
func (r *run) draw() sojourn.ID {
	const size = 40
	if len(r.block) == 0 || r.m.Now-r.drawn > (sojourn.IDLife-time.Second).Microseconds() {
		if r.old = append(r.old, r.block...); len(r.old) > 10 {
			r.old = r.old[len(r.old)-10:]
		}
		r.tick()
		first, err := r.store.IDs(r.ctx, size)
		if err != nil {
			r.fail("IDs: %v", err)
		}
		if first != r.m.NextID && first < r.m.NextID {
			r.fail("IDs gave %d again, all below %d were given out before", first, r.m.NextID)
		}
		r.m.NextID, r.drawn, r.block = first+size, r.m.Now, nil
		r.m.Blocks = append(r.m.Blocks, model.Block{First: first, Size: size, Leased: r.m.Now})
		for i := range sojourn.ID(size) {
			r.block = append(r.block, first+i)
		}
	}
	id := r.block[0]
	r.block = r.block[1:]
	return id
}

// sameCode compares an error with a code, "" for none.
func sameCode(err error, want string) bool {
	return (err == nil) == (want == "") && sojourn.ErrorCode(err) == want
}

// enqueuedAll is the answer of Enqueue with a refusal of the whole call.
type enqueuedAll struct {
	Done []sojourn.Enqueued
	Code string
}

func (r *run) enqueue(jobs []sojourn.Job, partial bool) {
	what := "Enqueue"
	for _, j := range jobs {
		what += fmt.Sprintf(" %d %s/%s", j.ID, j.Kind, j.Queue)
		if j.Key != "" {
			what += " key " + j.Key
		}
		if j.Delay > 0 {
			what += fmt.Sprint(" in ", j.Delay)
		}
		what += after(j.Depends)
	}
	faults := []faulty.Fault{faulty.Lost, faulty.Down, faulty.Twice}
	if slices.ContainsFunc(jobs, func(j sojourn.Job) bool { return len(j.Depends) > 0 }) {
		faults = faults[:2] // between the two calls an ended parent may decide a job, or not yet
	}
	f := r.fault(faults...)
	got, ok := attempt(r, what, f,
		func() enqueuedAll { done, code := r.m.Enqueue(jobs, partial); return enqueuedAll{done, code} },
		func() (enqueuedAll, error) {
			done, err := r.store.Enqueue(r.ctx, jobs, partial)
			if code := sojourn.ErrorCode(err); f != faulty.Lost && f != faulty.Down && code != "" {
				return enqueuedAll{Code: code}, nil
			}
			return enqueuedAll{Done: done}, err
		},
		func() { r.enqueue(jobs, partial) },
		func(got, want enqueuedAll) string {
			if got.Code != want.Code || len(got.Done) != len(want.Done) {
				return fmt.Sprintf("answered %q with %d items, want %q with %d", got.Code, len(got.Done), want.Code, len(want.Done))
			}
			for i, w := range want.Done {
				g := got.Done[i]
				if !sameCode(g.Err, sojourn.ErrorCode(w.Err)) || w.Err == nil && (g.ID != w.ID || g.State != w.State || g.Duplicate != w.Duplicate || g.Replaced != w.Replaced) {
					return fmt.Sprintf("item %d is answered %+v, want %+v", i, g, w)
				}
			}
			return ""
		})
	if ok {
		for _, e := range got.Done {
			if e.Err == nil {
				r.ledger.acked[e.ID] = true
			}
		}
	}
}

// claim is a call of Claim by a worker. If the capacity limits it, the store may choose any jobs
// within it, as long as the first one is right.
func (r *run) claim(q driver.ClaimRequest) []driver.Claimed {
	what := fmt.Sprintf("Claim by %s, number %d, up to %d of %v in %v", q.Worker, q.Number, q.Max, q.Kinds, q.Queues)
	kinds := []faulty.Fault{faulty.Lost, faulty.Down, faulty.Twice}
	tight := q.Capacity < roomy
	if tight {
		kinds = nil
		what += fmt.Sprint(", room for ", q.Capacity)
	}
	var may []*model.Job // the choices of a claim with a tight capacity
	choose := false
	got, ok := attempt(r, what, r.fault(kinds...),
		func() []driver.Claimed {
			jobs, fresh := model.Claims(r.m).Repeated(q)
			if fresh {
				model.Sweeps(r.m).SweepDue(100)
				jobs = model.Claims(r.m).Claimable(q)
				if tight {
					may, choose = jobs, true
					return nil
				}
				jobs = jobs[:min(len(jobs), q.Max)]
				model.Claims(r.m).Take(q, jobs)
			}
			return model.Claims(r.m).Claimed(jobs)
		},
		func() ([]driver.Claimed, error) { return r.store.Claim(r.ctx, q) },
		nil,
		func(got, want []driver.Claimed) string {
			if choose {
				var d string
				if want, d = r.chosen(q, got, may); d != "" {
					return d
				}
			}
			return claimedDiffer(got, want)
		})
	if !ok {
		return nil
	}
	for _, c := range got {
		if d := r.ledger.claimed(c, r.m.Now); d != "" {
			r.fail("%s: %s", what, d)
		}
		r.leases = append(r.leases, given{c.Lease, c.Purpose})
		r.tokens = append(r.tokens, tokened{c.Job.Token, model.Capability{Job: c.Job.ID, Generation: c.Job.Generation, Attempt: c.Job.Attempt, Wait: r.m.Jobs[c.Job.ID].Waits}})
	}
	return got
}

// chosen accepts the choice of a claim with a tight capacity, if it was allowed.
func (r *run) chosen(q driver.ClaimRequest, got []driver.Claimed, may []*model.Job) ([]driver.Claimed, string) {
	room, at := q.Capacity, 0
	var jobs []*model.Job
	for n, c := range got {
		i := slices.IndexFunc(may, func(j *model.Job) bool { return j.ID == c.Job.ID })
		if i < at || i > 0 && n == 0 {
			return nil, fmt.Sprintf("gave job %d, which is not the next that may be claimed", c.Job.ID)
		}
		room -= model.Uses(may[i])
		jobs, at = append(jobs, may[i]), i+1
	}
	if len(got) == 0 && len(may) > 0 || room < 0 || len(got) > q.Max {
		return nil, fmt.Sprintf("gave %d jobs, which leave room %d; at most %d were asked for, and %d may be claimed", len(got), room, q.Max, len(may))
	}
	model.Claims(r.m).Take(q, jobs)
	return model.Claims(r.m).Claimed(jobs), ""
}

func claimedDiffer(got, want []driver.Claimed) string {
	text := func(cs []driver.Claimed) (out []string) {
		for _, c := range cs {
			s := fmt.Sprintf("job %d epoch %d by %s to %s, attempt %d.%d failures %d crashes %d, %s/%s key %q, %x, checkpoint %x, lease %v timeout %v deadline %v",
				c.Lease.ID, c.Lease.Epoch, c.Lease.Worker, c.Purpose, c.Job.Generation, c.Job.Attempt, c.Job.Failures, c.Job.Crashes,
				c.Job.Kind, c.Job.Queue, c.Job.Key, c.Job.Args, c.Job.Checkpoint, c.LeaseFor, c.Timeout, c.Deadline)
			for _, r := range c.Job.Responses {
				s += " answered " + r.MessageID
			}
			out = append(out, s)
		}
		return out
	}
	g, w := text(got), text(want)
	if slices.Equal(g, w) {
		return ""
	}
	return "gave\n  " + strings.Join(g, "\n  ") + "\nwant\n  " + strings.Join(w, "\n  ")
}

func (r *run) save(s driver.Saved) {
	what := fmt.Sprintf("Save %v checkpoint %q", s.Lease, s.Checkpoint)
	if s.Key != "" {
		what += " key " + s.Key
	}
	attempt(r, what, r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() string { return model.StepsOf(r.m).Save(s) },
		func() (string, error) {
			errs, err := r.store.Save(r.ctx, []driver.Saved{s})
			if err != nil || len(errs) != 1 {
				return "", err
			}
			return sojourn.ErrorCode(errs[0].Err), nil
		}, nil,
		func(got, want string) string {
			if got != want {
				return fmt.Sprintf("answered %q, want %q", got, want)
			}
			return ""
		})
	if j := r.m.Stands(s.Lease); j != nil {
		r.ledger.prolonged(s.Lease, j.LeaseUntil)
	}
}

func (r *run) finish(o sojourn.Outcome) {
	what := fmt.Sprintf("Finish %v %s", o.Lease, o.Type)
	if o.Wait.Beat > 0 || o.Wait.Poll.First > 0 {
		what += fmt.Sprintf(" beat %v poll %v", o.Wait.Beat, o.Wait.Poll.First)
	}
	if len(o.Wait.Keys) > 0 {
		what += fmt.Sprintf(" %v (mode %d)", o.Wait.Keys, o.Wait.Mode)
	}
	if len(o.Next) > 0 {
		what += " next"
		for _, j := range o.Next {
			what += fmt.Sprintf(" %d %q key %q%s", j.ID, j.Name, j.Key, after(j.Depends))
		}
	}
	what += after(o.Depends)
	got, ok := attempt(r, what, r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() driver.Finished { return model.StepsOf(r.m).Finish(o) },
		func() (driver.Finished, error) {
			fs, err := r.store.Finish(r.ctx, []sojourn.Outcome{o})
			if err != nil || len(fs) != 1 {
				return driver.Finished{}, err
			}
			return fs[0], nil
		},
		func() { r.finish(o) },
		func(got, want driver.Finished) string {
			if got.Status != want.Status || got.State != want.State || got.Reason != want.Reason {
				return fmt.Sprintf("answered %+v, want %+v", got, want)
			}
			return ""
		})
	if !ok || got.Status != driver.FinishRefused {
		r.ledger.reported(o, ok && got.Status != driver.FinishLost)
	}
	r.reports = append(r.reports, o)
}

// respond is one call with some responses.
func (r *run) respond(replies ...reply) {
	what := "Respond"
	var rs []sojourn.Response
	for _, p := range replies {
		what += p.text()
		rs = append(rs, p.r)
	}
	attempt(r, what, r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() (want []sojourn.Responded) {
			for _, p := range replies {
				want = append(want, r.m.Respond(p.r, p.of))
			}
			return want
		},
		func() ([]sojourn.Responded, error) { return r.store.Respond(r.ctx, slices.Clone(rs)) },
		func() { r.respond(replies...) },
		func(got, want []sojourn.Responded) string {
			if !slices.Equal(got, want) {
				return fmt.Sprintf("answered %+v, want %+v", got, want)
			}
			return ""
		})
	r.sent = append(r.sent, replies...)
}

// text is a response as the log shows it.
func (p reply) text() string {
	text := fmt.Sprintf(" %s to %s/%s job %d", p.r.MessageID, p.r.Kind, p.r.Key, p.r.Job)
	if p.of != nil {
		text += fmt.Sprintf(" by the capability of job %d, attempt %d.%d", p.of.Job, p.of.Generation, p.of.Attempt)
	}
	if p.r.Failed {
		text += ", an error"
	}
	if p.r.Progress {
		text += ", progress"
	}
	return text
}

func (r *run) sweep(limit int) {
	_, ok := attempt(r, "Sweep", r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() driver.Swept { return model.Sweeps(r.m).Sweep(limit) },
		func() (driver.Swept, error) { return r.store.Sweep(r.ctx, limit) }, nil,
		func(got, want driver.Swept) string {
			if got.Ticks, got.NextTick = 0, 0; got != want { // the model knows no schedules
				return fmt.Sprintf("handled %+v, want %+v", got, want)
			}
			return ""
		})
	scheduler{r}.ticksAre(ok && limit >= 1000)
}

func (r *run) setQueue(queue string, s sojourn.QueueSettings) {
	attempt(r, fmt.Sprintf("SetQueue %s paused %v retention %+v", queue, s.Paused, s.Retention), faulty.None,
		func() string { r.m.Queues[queue] = s; return "" },
		func() (string, error) { return "", sojourn.NewClient(r.store).Queues().Set(r.ctx, queue, s) }, nil,
		func(string, string) string { return "" })
}

// request is a new claim of a worker.
func (r *run) request(worker string, w wants) driver.ClaimRequest {
	r.counts[worker]++
	q := driver.ClaimRequest{Worker: worker, Number: r.counts[worker], Queues: w.queues, Kinds: w.kinds, Decidable: w.decidable, Pollable: w.pollable, Max: cmp.Or(w.max, 10),
		Capacity: cmp.Or(w.capacity, roomy), Lease: w.lease}
	r.claims[worker] = q
	return q
}

const roomy = 1 << 40 // a capacity that never binds

// wants are the arguments of a worker's claim.
type wants struct {
	queues, kinds, decidable, pollable []string
	max                                int
	capacity                           int64
	lease                              time.Duration
}
