package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// graph is the dependencies of a model's jobs.
type graph struct {
	m      *model
	of     map[sojourn.ID]map[sojourn.ID]*link // child → parent
	ended  []sojourn.ID                        // by the call under way
	outbox map[sojourn.ID]sojourn.State        // jobs whose dependents are decided after the call
	deep   bool                                // the call has put something into the outbox
	beside map[sojourn.ID]bool                 // the jobs of an edit
}

// link is a dependency of one job on another.
type link struct {
	onFailure sojourn.OnFailure
	open      bool
}

func newGraph(m *model) *graph {
	return &graph{m: m, of: map[sojourn.ID]map[sojourn.ID]*link{}, outbox: map[sojourn.ID]sojourn.State{}}
}

// set stores a dependency.
func (g *graph) set(child, parent sojourn.ID, l link) {
	if g.of[child] == nil {
		g.of[child] = map[sojourn.ID]*link{}
	}
	g.of[child][parent] = &l
}

// name notes on the row of a live job that another one depends on it.
func (g *graph) name(parent sojourn.ID) {
	if p := g.m.jobs[parent]; p != nil && p.State.Live() && !p.named {
		p.named, p.updated = true, g.m.now
		g.m.touched[parent] = true
	}
}

// end notes a job that has ended. What it waited for does not concern it any more.
func (g *graph) end(id sojourn.ID) {
	g.ended = append(g.ended, id)
	for _, l := range g.of[id] {
		l.open = false
	}
}

// children are the jobs that wait for a job, in the order of their ids.
func (g *graph) children(parent sojourn.ID) (ids []sojourn.ID) {
	for _, child := range slices.Sorted(maps.Keys(g.of)) {
		if l := g.of[child][parent]; l != nil && l.open {
			ids = append(ids, child)
		}
	}
	return ids
}

// flush decides the dependents of the jobs that a call has ended, and then, one after the other,
// those of the jobs that end with it.
func (g *graph) flush() {
	type pair struct{ child, parent sojourn.ID }
	var pairs []pair
	for _, parent := range g.ended {
		for _, child := range g.children(parent) {
			pairs = append(pairs, pair{child, parent})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.child, b.child), cmp.Compare(a.parent, b.parent)) })
	g.ended = nil
	for _, p := range pairs {
		g.resolve(p.child, p.parent, g.m.jobs[p.parent].State)
	}
	for g.post(); len(g.outbox) > 0; g.post() {
		g.deep = true
		parent := slices.Min(slices.Collect(maps.Keys(g.outbox)))
		state := g.outbox[parent]
		delete(g.outbox, parent)
		for _, child := range g.children(parent) {
			g.resolve(child, parent, state)
		}
	}
}

// post puts the ended jobs with dependents into the outbox.
func (g *graph) post() {
	for _, id := range g.ended {
		if len(g.children(id)) > 0 {
			g.outbox[id] = g.m.jobs[id].State
		}
	}
	g.ended = nil
}

// resolve decides one dependency of a job.
func (g *graph) resolve(child, parent sojourn.ID, state sojourn.State) {
	if l := g.of[child][parent]; g.step(g.m.jobs[child], rules.Event{Type: rules.EventParent, Parent: state, OnFailure: l.onFailure}) {
		l.open = false
	}
}

// step applies the end of a parent, and reports whether the dependency is resolved.
func (g *graph) step(j *job, e rules.Event) bool {
	if j.State != sojourn.Blocked {
		return false
	}
	tr, err := rules.Decide(j.Row, e)
	if err != nil {
		panic(err) // it is blocked
	}
	if tr.Rule == "S4" {
		return false
	}
	if tr.To.State == sojourn.Ready && j.runAt > g.m.now {
		tr.To.State = sojourn.Scheduled
	}
	g.m.apply(j, tr, change{})
	return true
}

// add predicts a new dependency: whether it is open, whether it is stored at all, and the code of a
// refusal.
func (g *graph) add(w want, ending *job) (open, stored bool, code string) {
	p := g.m.jobs[w.parent]
	switch {
	case p == nil && w.missingOK:
		return false, false, ""
	case p == nil:
		return false, false, sojourn.CodeNotFound
	case p == ending, p.State == sojourn.Completed, p.State.Final() && w.onFailure == sojourn.IgnoreFailure:
		return false, true, ""
	}
	return true, true, ""
}

// acts reports whether a dependency on a job that has ended decides the child at once.
func (g *graph) acts(w want) bool {
	p := g.m.jobs[w.parent]
	return p != nil && p.State.Final() && p.State != sojourn.Completed && (w.onFailure == sojourn.CancelOnFailure || w.onFailure == sojourn.FailOnFailure)
}

// reaches reports whether some jobs depend on a job, over any number of jobs. more are dependencies
// that are not stored yet.
func (g *graph) reaches(from []sojourn.ID, to sojourn.ID, more map[sojourn.ID][]sojourn.ID) bool {
	seen := map[sojourn.ID]bool{}
	for todo := slices.Clone(from); len(todo) > 0; {
		at := todo[0]
		if todo = todo[1:]; at == to {
			return true
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		todo = append(todo, more[at]...)
		for parent, l := range g.of[at] {
			if l.open {
				todo = append(todo, parent)
			}
		}
	}
	return false
}

// change predicts a change of the dependencies of a blocked job; the edit itself is applied by
// then, which commit does.
func (g *graph) change(j *job, e sojourn.Edit) (commit func(), code string) {
	var wants []want
	if e.DependOn != nil {
		wants = wantsOf(*e.DependOn, func(id sojourn.ID) sojourn.ID { return id })
	}
	var parents []sojourn.ID
	for _, w := range wants {
		parents = append(parents, w.parent)
	}
	if g.reaches(parents, j.ID, nil) {
		return nil, sojourn.CodeConflict
	}
	next, post := map[sojourn.ID]link{}, map[sojourn.ID]sojourn.State{}
	for parent, l := range g.of[j.ID] {
		next[parent] = *l
	}
	opens, resolved := int32(0), 0
	for _, w := range wants {
		open, stored, code := g.add(w, nil)
		switch {
		case code != "":
			return nil, code
		case !stored:
			continue
		case open && !next[w.parent].open:
			opens++
		case !open && next[w.parent].open:
			resolved++
		}
		next[w.parent] = link{w.onFailure, open}
		if open && g.acts(w) {
			post[w.parent] = g.m.jobs[w.parent].State
		}
	}
	if e.Undepend != nil {
		gone := *e.Undepend
		if len(gone) == 0 {
			gone = slices.Collect(maps.Keys(next))
		}
		for _, id := range gone {
			l, ok := next[id]
			if !ok {
				return nil, sojourn.CodeNotFound
			}
			if l.open {
				resolved++
			}
			delete(next, id)
		}
	}
	return func() {
		g.of[j.ID] = map[sojourn.ID]*link{}
		for parent, l := range next {
			g.set(j.ID, parent, l)
		}
		for _, id := range parents {
			g.name(id)
		}
		maps.Copy(g.outbox, post)
		j.WaitsFor += opens
		for range resolved {
			g.step(j, rules.Event{Type: rules.EventParent})
		}
	}, ""
}

// clear predicts the effect of a cancel or purge on the dependents: a conflict if one would wait
// for ever. gone says that no redrive can follow.
func (g *graph) clear(id sojourn.ID, dependents string, gone bool) (open bool, code string) {
	action := map[string]sojourn.OnFailure{sojourn.DependentsCancel: sojourn.CancelOnFailure, sojourn.DependentsRelease: sojourn.IgnoreFailure}[dependents]
	var set []*link
	for _, child := range g.children(id) {
		open = true
		l := g.of[child][id]
		if l.onFailure != sojourn.WaitOnFailure || g.beside[child] && !gone {
			continue
		}
		if action == "" {
			return true, sojourn.CodeConflict
		}
		set = append(set, l)
	}
	for _, l := range set {
		l.onFailure = action
	}
	return open, ""
}

// remove forgets the dependencies of a job that is deleted.
func (g *graph) remove(id sojourn.ID) { delete(g.of, id) }
