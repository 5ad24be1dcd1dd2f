package races

import (
	"fmt"

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
	return fmt.Sprintf("job %d: %s, next %s", id, o.Type, text(o.Next...)), func(s driver.Store) error { return r.finish(s, o) }
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
	e := sojourn.Edit{By: "ops", Action: oneOf(r, sojourn.EditCancel, sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditRedrive, sojourn.EditPurge)}
	if e.Action == sojourn.EditCancel || e.Action == sojourn.EditPurge {
		e.Dependents = oneOf(r, "", sojourn.DependentsCancel, sojourn.DependentsRelease)
	}
	return fmt.Sprintf("%s job %d, dependents %q", e.Action, id, e.Dependents), func(s driver.Store) error { return r.edit(s, id, e) }
}
