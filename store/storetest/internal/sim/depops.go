package sim

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
)

// dependency is one on some jobs, mostly on live ones, now and then on one that does not exist.
func (r actor) dependency(of sojourn.ID, batch []sojourn.Job) (d sojourn.Dependency) {
	d.OnFailure = oneOf(r.dice, "", sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure)
	d.MissingOK = r.chance(30)
	live := r.m.that(func(j *job) bool { return j.State.Live() && j.ID != of })
	for range oneOf(r.dice, 1, 1, 2, 3) {
		id := sojourn.ID(1 + r.n(int(r.m.nextID)))
		switch way := r.n(20); {
		case way < 12 && len(live) > 0:
			id = oneOf(r.dice, live...).ID
		case way < 16 && len(batch) > 0:
			id = oneOf(r.dice, batch...).ID
		case way < 19 && len(r.jobs) > 0:
			id = oneOf(r.dice, r.jobs...).ID
		}
		if !slices.Contains(d.Jobs, id) {
			d.Jobs = append(d.Jobs, id)
		}
	}
	return d
}

// dependSome makes some jobs of a batch depend on others.
func (r actor) dependSome(jobs []sojourn.Job) {
	for i := range jobs {
		for range oneOf(r.dice, 0, 0, 0, 0, 1, 1, 2) {
			jobs[i].Depends = append(jobs[i].Depends, r.dependency(jobs[i].ID, jobs))
		}
	}
}

// changeEdges adds and removes dependencies, mostly of a blocked job.
func (r actor) changeEdges() {
	some := r.m.that(func(j *job) bool { return j.State == sojourn.Blocked })
	if len(some) == 0 || r.chance(10) {
		some = r.m.ordered()
	}
	if len(some) == 0 {
		return
	}
	j := oneOf(r.dice, some...)
	e := sojourn.Edit{Action: sojourn.EditChange, By: "ops"}
	if r.chance(60) {
		e.DependOn = &[]sojourn.Dependency{r.dependency(j.ID, nil)}
	}
	if e.DependOn == nil || r.chance(20) {
		ids := []sojourn.ID{}
		if r.chance(70) {
			for id := range r.m.edges.of[j.ID] {
				ids = append(ids, id)
			}
			if slices.Sort(ids); len(ids) > 0 {
				ids = []sojourn.ID{oneOf(r.dice, ids...)}
			}
		}
		e.Undepend = &ids
	}
	r.edit([]sojourn.ID{j.ID}, e)
}

// unblock removes the dependencies of the jobs that wait for none but ended jobs.
func unblock(r *run) {
	for _, j := range r.m.that(func(j *job) bool { return j.State == sojourn.Blocked }) {
		waits := false
		for parent, l := range r.m.edges.of[j.ID] {
			p := r.m.jobs[parent]
			waits = waits || l.open && p != nil && p.State.Live()
		}
		if !waits && j.State == sojourn.Blocked {
			r.edit([]sojourn.ID{j.ID}, sojourn.Edit{Action: sojourn.EditChange, By: "ops", Undepend: &[]sojourn.ID{}})
		}
	}
}

// edgesAre compares the dependencies of a job with those of the model.
func edgesAre(r *run, j *job) {
	found, err := r.store.Find(r.ctx, sojourn.Filter{ParentsOf: j.ID, Limit: sojourn.MaxFind})
	if err != nil {
		r.fail("Find the parents of %d: %v", j.ID, err)
	}
	var got, want []sojourn.ID
	for _, p := range found {
		got = append(got, p.ID)
	}
	for id := range r.m.edges.of[j.ID] {
		if r.m.jobs[id] != nil {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.fail("job %d depends on the jobs %v, want %v (inv:G1)", j.ID, got, want)
	}
}

// patience is how often a run looks, a millisecond apart, until a store has decided the dependents
// of ended jobs after a call.
const patience = 20_000

// after lists dependencies.
func after(ds []sojourn.Dependency) (text string) {
	for _, d := range ds {
		text += fmt.Sprintf(" after %v (%s, missing %v)", d.Jobs, d.OnFailure, d.MissingOK)
	}
	return text
}

// item is the answer of Edit for one job.
type item struct {
	ID      sojourn.ID
	State   sojourn.State
	Changed bool
	Code    string
}

func (r *run) edit(ids []sojourn.ID, e sojourn.Edit) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	what := fmt.Sprintf("Edit %s %v generation %d", e.Action, ids, e.Generation)
	if e.Dependents != "" {
		what += ", dependents " + e.Dependents
	}
	if e.DependOn != nil {
		what += after(*e.DependOn)
	}
	if e.Undepend != nil {
		what += fmt.Sprint(" not after ", *e.Undepend)
	}
	attempt(r, what, r.fault(faulty.Lost, faulty.Down),
		func() (want []item) {
			r.m.edges.beside = map[sojourn.ID]bool{}
			for _, id := range ids {
				if j := r.m.jobs[id]; j != nil {
					r.m.edges.beside[id] = e.Generation == 0 || e.Generation == j.generation
				}
			}
			for _, id := range ids {
				if j := r.m.jobs[id]; j != nil {
					state, changed, code := r.m.edit(j, e)
					want = append(want, item{id, state, changed, code})
				}
			}
			return want
		},
		func() (got []item, err error) {
			answer, err := r.store.Edit(r.ctx, sojourn.Filter{IDs: ids}, e)
			for _, i := range answer.Items {
				got = append(got, item{i.ID, i.State, i.Changed, sojourn.ErrorCode(i.Err)})
			}
			return got, err
		}, nil,
		func(got, want []item) string {
			if !slices.Equal(got, want) {
				return fmt.Sprintf("answered %+v, want %+v", got, want)
			}
			return ""
		})
	for _, id := range ids {
		if j := r.m.jobs[id]; j == nil || j.State != sojourn.Running {
			r.ledger.over(id)
		}
	}
}
