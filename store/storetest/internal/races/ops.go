package races

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// call chooses a call and says it.
func (r *round) call(i int) func(driver.Store) error {
	what, do := r.choose()
	r.say("at once, node %d: %s", i%len(r.Nodes), what)
	return do
}

func (r *round) choose() (string, func(driver.Store) error) {
	switch way := r.dice.IntN(20); {
	case way < 7:
		return r.endParent()
	case way < 10:
		return r.newChild()
	case way < 11:
		return r.replaceChild()
	case way < 15:
		return r.changeEdges()
	case way < 17 && len(r.children) > 0:
		id := oneOf(r, r.children...)
		return r.byHand(id)
	case way < 18:
		return "sweep", func(s driver.Store) error { _, err := s.Sweep(r.Ctx, 100); return err }
	}
	return r.byHand(oneOf(r, r.parents...))
}

// endParent reports the end of a parent's step, or its next stage.
func (r *round) endParent() (string, func(driver.Store) error) {
	id := oneOf(r, r.parents...)
	o := sojourn.Outcome{Lease: r.leases[id], Type: oneOf(r, sojourn.OutcomeCompleted, sojourn.OutcomeCompleted, sojourn.OutcomeCompleted, sojourn.OutcomeAbort,
		sojourn.OutcomeCancelled, sojourn.OutcomeAdvance)}
	switch o.Type {
	case sojourn.OutcomeAbort:
		o.Reason = "x"
	case sojourn.OutcomeAdvance:
		o.Queue = Later
		if r.chance(30) && len(r.parents)+len(r.children) > 1 {
			next := r.job(id, r.depends(id))
			o.Depends = next.Depends
		}
	case sojourn.OutcomeCompleted:
		if r.chance(40) {
			next := r.id()
			o.Next = []sojourn.Job{r.job(next, r.depends(next))}
			if r.chance(30) {
				other := r.id()
				o.Next = append(o.Next, r.job(other, sojourn.DependsOn(next)))
			}
		}
	}
	what := fmt.Sprintf("job %d: %s, next %s", id, o.Type, text(o.Next...))
	if len(o.Depends) > 0 {
		what += text(sojourn.Job{ID: id, Depends: o.Depends})
	}
	if o.Type == sojourn.OutcomeCompleted && r.Begin != nil && r.chance(40) {
		commit := r.chance(80)
		what += fmt.Sprintf(", in a transaction, commit %v", commit)
		return what, func(s driver.Store) error { return finishTx(r, s, o, commit) }
	}
	return what, func(s driver.Store) error { return r.finish(s, o) }
}

func (r *round) newChild() (string, func(driver.Store) error) {
	jobs := []sojourn.Job{}
	for range 1 + r.dice.IntN(2) {
		id := r.id()
		jobs = append(jobs, r.job(id, r.depends(id)))
		if len(jobs) == 2 && r.chance(50) {
			sojourn.DependsOn(jobs[0].ID)(&jobs[1])
		}
	}
	return "enqueue " + text(jobs...), func(s driver.Store) error { return r.enqueue(s, jobs...) }
}

func (r *round) replaceChild() (string, func(driver.Store) error) {
	if r.keyed == 0 {
		return r.newChild()
	}
	id := r.id()
	options := []sojourn.Option{sojourn.Key(fmt.Sprint("k", r.keyed)), sojourn.OnKeyConflict(sojourn.Replace)}
	if r.chance(80) {
		options = append(options, r.depends(r.keyed))
	}
	j := r.job(id, options...)
	return "replace " + text(j), func(s driver.Store) error { return r.enqueue(s, j) }
}

func (r *round) changeEdges() (string, func(driver.Store) error) {
	if len(r.children) == 0 {
		return r.newChild()
	}
	id := oneOf(r, r.children...)
	e := sojourn.Edit{Action: sojourn.EditChange, By: "ops"}
	what := ""
	if way := r.dice.IntN(3); way < 2 {
		j := r.job(id, r.depends(id))
		e.DependOn = &j.Depends
		what = " add" + text(j)
	}
	if e.DependOn == nil || r.chance(30) {
		ids := []sojourn.ID{}
		if r.chance(70) {
			ids = append(ids, oneOf(r, r.parents...))
		}
		e.Undepend = &ids
		what += fmt.Sprint(" remove ", ids)
	}
	return fmt.Sprintf("change job %d:%s", id, what), func(s driver.Store) error { return r.edit(s, id, e) }
}

// byHand is what an operator does to a job.
func (r *round) byHand(id sojourn.ID) (string, func(driver.Store) error) {
	e := sojourn.Edit{By: "ops", Action: oneOf(r, sojourn.EditCancel, sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditRedrive, sojourn.EditRelease, sojourn.EditPurge)}
	if e.Action == sojourn.EditCancel || e.Action == sojourn.EditPurge {
		e.Dependents = oneOf(r, "", sojourn.DependentsCancel, sojourn.DependentsRelease)
	}
	return fmt.Sprintf("%s job %d, dependents %q", e.Action, id, e.Dependents), func(s driver.Store) error { return r.edit(s, id, e) }
}

// RunCycle adds dependencies that would close a cycle together, each on another node at the same
// time. At least one must be refused, and then all jobs must end.
func (c *Cluster) RunCycle(seed uint64) error {
	r := c.round(seed)
	c.Advance(time.Minute)
	refused, err := r.cycle()
	if err == nil && refused == 0 {
		err = errors.New("the dependencies form a cycle, and none was refused")
	}
	if err == nil {
		err = r.drive()
	}
	if err != nil {
		return fmt.Errorf("seed %d: %w\n%s", seed, err, strings.Join(r.log, "\n"))
	}
	return nil
}

// cycle stores jobs that wait for one that runs, lets each depend on the next one, and returns how
// many of these calls were refused.
func (r *round) cycle() (refused int, err error) {
	if err := r.draw(); err != nil {
		return 0, err
	}
	r.parents = []sojourn.ID{r.id()}
	if err := r.enqueue(r.first, r.job(r.parents[0])); err != nil {
		return 0, err
	}
	if err := r.claim(); err != nil {
		return 0, err
	}
	for range 2 + r.dice.IntN(3) {
		id := r.id()
		r.children = append(r.children, id)
		if err := r.enqueue(r.first, r.job(id, sojourn.DependsOn(r.parents[0]), sojourn.Key(fmt.Sprint("k", id)))); err != nil {
			return 0, err
		}
	}
	calls := make([]func(driver.Store) error, len(r.children))
	for i, id := range r.children {
		next := r.children[(i+1)%len(r.children)]
		if r.chance(50) {
			j := r.job(r.id(), sojourn.Key(fmt.Sprint("k", id)), sojourn.OnKeyConflict(sojourn.Replace), sojourn.DependsOn(next))
			r.say("at once, node %d: replace job %d by %s", i%len(r.Nodes), id, text(j))
			calls[i] = func(s driver.Store) error { return r.enqueue(s, j) }
			continue
		}
		r.say("at once, node %d: add to job %d a dependency on job %d", i%len(r.Nodes), id, next)
		e := sojourn.Edit{Action: sojourn.EditChange, By: "ops", DependOn: &[]sojourn.Dependency{{Jobs: []sojourn.ID{next}}}}
		calls[i] = func(s driver.Store) error { return r.edit(s, id, e) }
	}
	errs := r.atOnce(calls)
	for i, err := range errs {
		if code := sojourn.ErrorCode(err); err != nil && code != sojourn.CodeConflict && code != sojourn.CodeCycle {
			return 0, fmt.Errorf("call %d: %w", i, err)
		}
		if err != nil {
			refused++
		}
	}
	return refused, nil
}
