// Package races runs calls about dependencies on several stores of one database at once, and checks
// that no job is blocked for ever or released twice, and that no next job is lost.
//
//	races.go  rounds: jobs are set up, calls run at once, everything is driven to its end
//	ops.go    the random calls of a round
//	check.go  what must hold after it
//
// The calls of a round come from its seed. Their order in time is up to the machine.
package races

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Cluster is some stores of one database, with one clock.
type Cluster struct {
	Ctx     context.Context
	Nodes   []driver.Store
	Advance func(d time.Duration)
	Begin   func() (Tx, error) // begins a transaction of the application; nil: steps end in none
	claims  atomic.Int64
}

// Tx is a transaction of the application.
type Tx struct {
	Handle           any // the argument of FinishTx
	Commit, Rollback func() error
}

// Together is how many rounds run at once.
const Together = 16

// Queue and Later are the queues of all rounds, and of their next stages.
const (
	Queue = "race"
	Later = "later"
)

const lease = time.Hour

// kindOf is the kind of the jobs of the round of a seed, which claims no others.
func kindOf(seed uint64) string { return fmt.Sprint("step", seed%Together) }

// round is a few jobs, and calls about them at once.
type round struct {
	*Cluster
	seed     uint64
	dice     *rand.Rand
	parents  []sojourn.ID
	leases   map[sojourn.ID]sojourn.Lease
	children []sojourn.ID
	keyed    sojourn.ID          // a child with a key, which calls may replace
	staged   map[sojourn.ID]bool // jobs for which the end of a parent's stage may be enough
	spare    []sojourn.ID        // unused ids
	first    driver.Store
	log      []string

	mu     sync.Mutex          // guards the fields below
	stored map[sojourn.ID]bool // was it blocked first?
	next   map[sojourn.ID]bool // that were stored with the end of a step
	lost   map[sojourn.ID]bool // that must not be stored
}

// Run runs the rounds of some seeds at once, at most Together that follow each other. The error
// contains the calls of the round that has failed.
func (c *Cluster) Run(seeds []uint64) error {
	rounds := make([]*round, len(seeds))
	for i, seed := range seeds {
		rounds[i] = c.round(seed)
	}
	c.Advance(sojourn.IDLife + time.Minute)
	if err := together(rounds, (*round).setUp); err != nil {
		return err
	}
	if seeds[0]/Together%2 == 1 { // old enough for a purge
		c.Advance(sojourn.IDLife + time.Minute)
	}
	return together(rounds, (*round).live)
}

func (c *Cluster) round(seed uint64) *round {
	dice := rand.New(rand.NewPCG(seed, 23))
	return &round{Cluster: c, seed: seed, dice: dice, first: c.Nodes[dice.IntN(len(c.Nodes))], leases: map[sojourn.ID]sojourn.Lease{}, staged: map[sojourn.ID]bool{},
		stored: map[sojourn.ID]bool{}, next: map[sojourn.ID]bool{}, lost: map[sojourn.ID]bool{}}
}

// together runs a phase of all rounds.
func together(rounds []*round, phase func(r *round) error) error {
	errs := make([]error, len(rounds))
	var all sync.WaitGroup
	for i, r := range rounds {
		all.Go(func() {
			if err := phase(r); err != nil {
				errs[i] = fmt.Errorf("seed %d: %w\n%s", r.seed, err, strings.Join(r.log, "\n"))
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

func (r *round) live() error {
	if err := r.draw(); err != nil {
		return err
	}
	calls := make([]func(driver.Store) error, 3+r.dice.IntN(6))
	for i := range calls {
		calls[i] = r.call(i)
	}
	for i, err := range r.atOnce(calls) {
		if err != nil && !refusal(err) {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	if err := r.afterwards(); err != nil {
		return err
	}
	if err := r.drive(); err != nil {
		return err
	}
	return r.histories()
}

// atOnce runs calls at the same time, each on another node.
func (r *round) atOnce(calls []func(driver.Store) error) []error {
	errs := make([]error, len(calls))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			<-start
			errs[i] = call(r.Nodes[i%len(r.Nodes)])
		})
	}
	close(start)
	all.Wait()
	return errs
}

// refusal reports whether a call was refused by a rule, which is an answer as good as any other.
func refusal(err error) bool {
	switch sojourn.ErrorCode(err) {
	case sojourn.CodeConflict, sojourn.CodeNotFound, sojourn.CodeInvalid, sojourn.CodeDependency, sojourn.CodeCycle:
		return true
	}
	return false
}

func (r *round) say(format string, a ...any) { r.log = append(r.log, "  "+fmt.Sprintf(format, a...)) }

func (r *round) chance(percent int) bool { return r.dice.IntN(100) < percent }

func oneOf[T any](r *round, of ...T) T { return of[r.dice.IntN(len(of))] }

// setUp stores parents and children, and starts most of the parents. Some have ended before.
func (r *round) setUp() error {
	if err := r.draw(); err != nil {
		return err
	}
	for range 1 + r.dice.IntN(3) {
		r.parents = append(r.parents, r.id())
	}
	for i, id := range r.parents {
		if err := r.enqueue(r.first, r.job(id, sojourn.Priority(int32(i)))); err != nil {
			return err
		}
	}
	if err := r.claim(); err != nil {
		return err
	}
	if r.chance(40) {
		id := oneOf(r, r.parents...)
		r.say("before: job %d fails", id)
		if err := r.finish(r.first, sojourn.Outcome{Lease: r.leases[id], Type: sojourn.OutcomeAbort, Reason: "x"}); err != nil {
			return err
		}
	}
	for i := range r.dice.IntN(4) {
		id := r.id()
		options := []sojourn.Option{r.depends(id)}
		if i == 0 && r.chance(50) {
			options, r.keyed = append(options, sojourn.Key(fmt.Sprint("k", id))), id
		}
		r.say("before: job %d of %v", id, text(r.job(id, options...)))
		if err := r.enqueue(r.first, r.job(id, options...)); err != nil {
			return err
		}
		r.children = append(r.children, id)
	}
	return nil
}

// draw leases ids.
func (r *round) draw() error {
	const n = 40
	first, err := r.first.IDs(r.Ctx, n)
	r.spare = nil
	for i := range sojourn.ID(n) {
		r.spare = append(r.spare, first+i)
	}
	return err
}

// id is an unused one.
func (r *round) id() sojourn.ID {
	id := r.spare[0]
	r.spare = r.spare[1:]
	return id
}

// claim starts all that is ready.
func (r *round) claim() error {
	for {
		cs, err := r.first.Claim(r.Ctx, driver.ClaimRequest{Worker: fmt.Sprint("w", r.seed%Together), Number: r.claims.Add(1),
			Queues: []string{Queue, Later}, Kinds: []string{kindOf(r.seed)}, Max: 100, Capacity: 1 << 40, Lease: lease})
		if err != nil || len(cs) == 0 {
			return err
		}
		for _, c := range cs {
			r.leases[c.Job.ID] = c.Lease
		}
	}
}

func (r *round) job(id sojourn.ID, options ...sojourn.Option) sojourn.Job {
	j := *sojourn.NewJob(kindOf(r.seed), nil, append([]sojourn.Option{sojourn.Queue(Queue)}, options...)...)
	j.ID = id
	return j
}

// depends is a dependency of a job on some others of the round.
func (r *round) depends(of sojourn.ID) sojourn.Option {
	others := slices.DeleteFunc(slices.Concat(r.parents, r.parents, r.children), func(id sojourn.ID) bool { return id == of })
	d := sojourn.Dependency{OnFailure: oneOf(r, sojourn.WaitOnFailure, sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure),
		MissingOK: r.chance(30), OnStage: r.chance(25)}
	if d.OnStage {
		r.staged[of] = true
	}
	for range 1 + r.dice.IntN(3) {
		if id := oneOf(r, others...); !slices.Contains(d.Jobs, id) {
			d.Jobs = append(d.Jobs, id)
		}
	}
	return sojourn.WithDependency(d)
}

// text is a job as the list of calls shows it.
func text(jobs ...sojourn.Job) string {
	var out []string
	for _, j := range jobs {
		s := fmt.Sprint(j.ID)
		if j.Key != "" {
			s += " key " + j.Key
		}
		for _, d := range j.Depends {
			s += fmt.Sprintf(" after %v (%s, missing %v, stage %v)", d.Jobs, d.OnFailure, d.MissingOK, d.OnStage)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// enqueue stores jobs.
func (r *round) enqueue(s driver.Store, jobs ...sojourn.Job) error {
	es, err := s.Enqueue(r.Ctx, jobs, false)
	r.note(es)
	return err
}

func (r *round) note(es []sojourn.Enqueued) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range es {
		if e.Err == nil && !e.Duplicate && !e.Replaced {
			r.stored[e.ID] = e.State == sojourn.Blocked
		}
	}
}

// finish ends a step. A lost lease is no error: another call was faster.
func (r *round) finish(s driver.Store, o sojourn.Outcome) error {
	fs, err := s.Finish(r.Ctx, []sojourn.Outcome{o})
	if err != nil {
		return err
	}
	noteNext(r, o, fs[0].Status == driver.FinishApplied)
	if fs[0].Status == driver.FinishRefused {
		return fs[0].Err
	}
	return nil
}

// noteNext notes whether the next jobs of a step must be stored.
func noteNext(r *round, o sojourn.Outcome, applied bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range o.Next {
		if applied {
			r.next[j.ID] = true
		} else {
			r.lost[j.ID] = true
		}
	}
}

// maxRepeats bounds the transactions of the application for one step that others overtake.
const maxRepeats = 50

// finishTx completes a step in a transaction of the application, which is committed or rolled back.
func finishTx(r *round, s driver.Store, o sojourn.Outcome, commit bool) error {
	for try := 1; ; try++ {
		tx, err := r.Begin()
		if err != nil {
			return err
		}
		if err = s.(driver.TxStore).FinishTx(r.Ctx, tx.Handle, o); err == nil && commit {
			err = tx.Commit()
			noteNext(r, o, err == nil)
			return err
		}
		if back := tx.Rollback(); back != nil {
			return errors.Join(err, back)
		}
		e, ok := errors.AsType[*sojourn.Error](err)
		if ok && e.Retryable && try < maxRepeats {
			continue
		}
		noteNext(r, o, false)
		if errors.Is(err, sojourn.ErrLeaseLost) { // another call was faster
			return nil
		}
		return err
	}
}

func (r *round) edit(s driver.Store, id sojourn.ID, e sojourn.Edit) error {
	ed, err := s.Edit(r.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, e)
	if err != nil {
		return err
	}
	for _, item := range ed.Items {
		if item.Err != nil {
			return item.Err
		}
	}
	return nil
}
