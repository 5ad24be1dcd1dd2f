package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// dependency is one on some jobs, mostly on live ones, now and then on one that does not exist.
func (r actor) dependency(of sojourn.ID, batch []sojourn.Job) (d sojourn.Dependency) {
	d.OnFailure = oneOf(r.dice, "", sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure)
	d.MissingOK, d.OnStage = r.chance(30), r.chance(25)
	live := r.m.That(func(j *model.Job) bool { return j.State.Live() && j.ID != of })
	for range oneOf(r.dice, 1, 1, 2, 3) {
		id := sojourn.ID(1 + r.n(int(r.m.NextID)))
		if len(r.m.Blocks) > 0 { // not one of a schedule's job
			b := oneOf(r.dice, r.m.Blocks...)
			id = b.First + sojourn.ID(r.n(b.Size))
		}
		switch way := r.n(20); {
		case way < 12 && len(live) > 0:
			id = oneOf(r.dice, live...).ID
		case way < 16 && len(batch) > 0:
			id = oneOf(r.dice, batch...).ID
		case way < 19 && len(r.jobs) > 0:
			id = oneOf(r.dice, r.jobs...).ID
		}
		if children := r.m.Children(r.m.Jobs[of]); len(children) > 0 && r.chance(30) {
			id = oneOf(r.dice, children...)
		}
		if !slices.Contains(d.Jobs, id) {
			d.Jobs = append(d.Jobs, id)
		}
	}
	return d
}

// awaitJobs lets a step store children and wait for them. Steps of one stage use the same few
// names, so some of the children exist.
func (r actor) awaitJobs(o *sojourn.Outcome) {
	if r.chance(50) {
		o.Wait.Within = r.between(time.Second, 20*time.Minute)
	}
	for _, name := range []string{"a", "b", "c"}[:oneOf(r.dice, 0, 1, 1, 2, 3)] {
		j := r.job(true)
		j.Name = name
		o.Next = append(o.Next, j)
	}
	if r.chance(20) {
		r.dependSome(o.Next)
	}
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
	some := r.m.That(func(j *model.Job) bool { return j.State == sojourn.Blocked })
	if len(some) == 0 || r.chance(10) {
		some = r.m.Ordered()
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
			for id := range r.m.Edges.Of[j.ID] {
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
	for _, j := range r.m.That(func(j *model.Job) bool { return j.State == sojourn.Blocked }) {
		waits := false
		for parent, l := range r.m.Edges.Of[j.ID] {
			p := r.m.Jobs[parent]
			waits = waits || l.Open && p != nil && p.State.Live()
		}
		if !waits && j.State == sojourn.Blocked {
			r.edit([]sojourn.ID{j.ID}, sojourn.Edit{Action: sojourn.EditChange, By: "ops", Undepend: &[]sojourn.ID{}})
		}
	}
}

// edgesAre compares the dependencies and the children of a job with those of the model.
func edgesAre(r *run, j *model.Job) {
	compare := func(what string, f sojourn.Filter, want []sojourn.ID) {
		f.Limit = sojourn.MaxFind
		found, err := r.store.Find(r.ctx, f)
		if err != nil {
			r.fail("Find %s job %d: %v", what, j.ID, err)
		}
		var got []sojourn.ID
		for _, p := range found {
			got = append(got, p.ID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			r.fail("%s job %d are the jobs %v, want %v (inv:G1)", what, j.ID, got, want)
		}
	}
	var parents []sojourn.ID
	for id, l := range r.m.Edges.Of[j.ID] {
		if r.m.Jobs[id] != nil && !l.Awaited {
			parents = append(parents, id)
		}
	}
	slices.Sort(parents)
	compare("the parents of", sojourn.Filter{ParentsOf: j.ID}, parents)
	compare("the children of", sojourn.Filter{AwaitedBy: j.ID}, r.m.Children(j))
}

// How often a run looks, a millisecond apart, until a store has decided the dependents of ended
// jobs, or added the ends of members up, after a call. A run that only looks for a shorter way to a
// failure is less patient.
const patience, patienceToShrink = 10_000, 500

// after lists dependencies.
func after(ds []sojourn.Dependency) (text string) {
	for _, d := range ds {
		text += fmt.Sprintf(" after %v (%s, missing %v, stage %v)", d.Jobs, d.OnFailure, d.MissingOK, d.OnStage)
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
			r.m.Edges.Beside = map[sojourn.ID]bool{}
			for _, id := range ids {
				if j := r.m.Jobs[id]; j != nil {
					r.m.Edges.Beside[id] = e.Generation == 0 || e.Generation == j.Generation
				}
			}
			for _, id := range ids {
				if j := r.m.Jobs[id]; j != nil {
					state, changed, code := model.Edits(r.m).Edit(j, e)
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
		if j := r.m.Jobs[id]; j == nil || j.State != sojourn.Running {
			r.ledger.over(id)
		}
	}
}
