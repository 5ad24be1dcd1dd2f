// Package sim runs random operations on a store and compares each result with that of a model.
// Nothing in it is concurrent, and all randomness comes from a seed, so that a run repeats bit for
// bit: the same operations, the same answers.
//
//	../model            the model, which predicts the visible state of a store
//	../faulty           a store around the store, which loses answers, repeats calls and goes away
//	dice.go             chance, a sequence of its own for each operation
//	act.go ops.go depops.go schedops.go wholeops.go   random operations of producers, workers, the outside and operators
//	look.go ledger.go   the store compared with the model; laws that need no model
//	run.go shrink.go    a seed from its start to the end of all jobs; the shortest way to a failure
package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// InboxTTL is the store's InboxTTL: the time to live of an early response without a job.
const InboxTTL = 2 * time.Hour

// Open opens a new, empty store that uses the clock for every decision, and InboxTTL.
type Open func(now func() time.Time) driver.Store

// Result is the result of a run.
type Result struct {
	Log     []string       // every operation with its answer
	Calls   int            // to the store, without the looks of the checker
	Faults  map[string]int // by kind
	Virtual time.Duration  // by how much the clock was moved
	Jobs    int
	Failed  int   // index of the operation at which the run failed; past the last one, the end of faults
	Err     error // the first failure
}

// broken is the panic value of a run whose store has broken a rule.
type broken struct{ err error }

// run is one life of one store.
type run struct {
	*dice
	ctx    context.Context
	store  *faulty.Store
	m      *model.Model
	wall   time.Time    // the clock: steps back and forth are possible
	seen   atomic.Int64 // the clock as the store sees it, in nanoseconds: that of the last call
	result Result
	seed   uint64
	op     int
	calm   bool // no faults any more

	patience int // looks for what follows a call
	ledger   ledger
	block    []sojourn.ID // ids that were drawn and not used
	old      []sojourn.ID // in blocks that are too old
	drawn    int64        // when
	outage   int          // calls that meet no store yet
	number   int          // of names
	workers  []string
	claims   map[string]driver.ClaimRequest // the last one of each worker
	counts   map[string]int64
	jobs     []sojourn.Job // sent
	leases   []given
	reports  []sojourn.Outcome
	sent     []reply
	tokens   []tokened
	repeats  []func() // calls whose callers do not know the outcome
	everJobs int
	ticking  ticking
}

// given is a lease with the purpose of its step.
type given struct {
	lease   sojourn.Lease
	purpose sojourn.Purpose
}

// tokened is a capability's token, with the target that it names.
type tokened struct {
	text string
	of   model.Capability
}

// reply is a response that was sent.
type reply struct {
	r  sojourn.Response
	of *model.Capability
}

const workers = 4

// Run lives through the operations of a seed: first with faults, then without, until every job is
// final.
func Run(open Open, seed uint64, ops []int) Result { return runFor(open, seed, ops, patience) }

func runFor(open Open, seed uint64, ops []int, looks int) (result Result) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &run{ctx: ctx, seed: seed, patience: looks, wall: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), claims: map[string]driver.ClaimRequest{},
		counts: map[string]int64{}, ledger: newLedger(), ticking: ticking{map[string]*planned{}, map[sojourn.ID]bool{}}}
	began := r.wall
	r.result.Faults = map[string]int{}
	r.m = model.New(r.wall, InboxTTL)
	r.seen.Store(r.wall.UnixNano())
	s := open(func() time.Time { return time.Unix(0, r.seen.Load()).UTC() })
	defer s.Close()
	r.store = &faulty.Store{Store: s}
	if _, err := s.Status(ctx); err != nil { // the store looks at its clock, and never goes back behind it
		return Result{Err: err}
	}
	for range workers {
		r.workers = append(r.workers, r.born())
	}
	defer func() {
		result = r.result
		result.Failed, result.Jobs, result.Virtual = r.op, r.everJobs, r.wall.Sub(began)
		if v := recover(); v != nil {
			b, ours := v.(broken)
			if !ours {
				panic(v)
			}
			result.Err = b.err
		}
	}()
	for i, n := range ops {
		r.op, r.dice = n, throw(seed, n)
		actor{r}.step()
		if i%auditEvery == auditEvery-1 {
			r.audit()
		}
	}
	r.op = end
	r.dice = throw(seed, end)
	r.live()
	return r.result
}

// end is the operation after the last one, when the faults have ended.
const end = 1 << 30

// auditEvery is after how many operations everything is compared, and the store checks itself.
const auditEvery = 100

// fail ends the run.
func (r *run) fail(format string, a ...any) {
	panic(broken{fmt.Errorf(format, a...)})
}

func (r *run) say(format string, a ...any) {
	at := r.wall.Format("02 15:04:05.000000")
	op := fmt.Sprintf("%4d", r.op)
	if r.op == end {
		op = " end"
	}
	r.result.Log = append(r.result.Log, op+" "+at+"  "+fmt.Sprintf(format, a...))
}

// rounds bounds the phase without faults. The slowest way to an end: three crashes, four errors,
// each with a backoff of at most a minute, and a wait between them; a round takes ten minutes.
const rounds = 60

// live ends all faults: honest workers, answers to every wait, nothing paused. Every job must
// become final.
func (r *run) live() {
	r.calm, r.outage = true, 0
	r.say("the faults end")
	for _, again := range r.repeats {
		again()
	}
	r.repeats = nil
	for _, q := range queues {
		r.setQueue(q, sojourn.QueueSettings{})
	}
	scheduler{r}.endSchedules()
	wholes{r}.closeAll()
	for range rounds {
		r.sweep(1000)
		unblock(r)
		for _, j := range r.m.That(func(j *model.Job) bool { return j.State == sojourn.Awaiting }) {
			r.answerWait(j)
		}
		for {
			jobs := r.claim(r.request(r.workers[0], everything))
			for _, c := range jobs {
				r.honest(c)
			}
			if len(jobs) == 0 {
				break
			}
		}
		if len(r.m.That(func(j *model.Job) bool { return j.State.Live() })) == 0 {
			r.audit()
			wholes{r}.allOver()
			return
		}
		r.advance(10 * time.Minute)
	}
	left := r.m.That(func(j *model.Job) bool { return j.State.Live() })
	r.fail("%d jobs are live after %d rounds without faults, such as job %d, which is %s", len(left), rounds, left[0].ID, left[0].State)
}

// honest does a step to its end. Now and then it waits first.
func (r *run) honest(c driver.Claimed) {
	o := sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted}
	switch {
	case c.Purpose == sojourn.PurposeDecide:
		o.Type = sojourn.OutcomeDecided
	case c.Purpose == sojourn.PurposePoll:
		o.Type = oneOf(r.dice, sojourn.OutcomeAnswer, sojourn.OutcomeNoAnswer)
	case c.Job.Response == nil && c.Job.Epoch%3 == 0:
		o = sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait}
	}
	r.finish(o)
}

// answerWait sends the responses that a job awaits.
func (r *run) answerWait(j *model.Job) {
	keys := j.Wait.Keys
	if len(keys) == 0 {
		r.respond(reply{r: sojourn.Response{Job: j.ID, MessageID: r.name("m")}})
		return
	}
	for _, k := range keys {
		r.respond(reply{r: sojourn.Response{Kind: j.Kind, Key: k, MessageID: r.name("m")}})
	}
}
