package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// graph is the dependencies of a model's jobs.
type graph struct {
	m      *Model
	Of     map[sojourn.ID]map[sojourn.ID]*link // child → parent
	ended  []sojourn.ID                        // by the call under way
	staged []sojourn.ID                        // by the call under way: a stage of them has ended
	outbox map[sojourn.ID]sojourn.State        // jobs whose dependents are decided after the call
	Deep   bool                                // the call has put something into the outbox
	Beside map[sojourn.ID]bool                 // the jobs of an edit
	action map[sojourn.ID]sojourn.OnFailure    // by the call under way, for dependents of ended jobs that would wait for ever
}

// link is a dependency of one job on another.
type link struct {
	onFailure sojourn.OnFailure
	Open      bool
	onStage   bool // the end of the parent's stage resolves it
	Awaited   bool // the parent is a child that the job has stored
}

func newGraph(m *Model) *graph {
	return &graph{m: m, Of: map[sojourn.ID]map[sojourn.ID]*link{}, outbox: map[sojourn.ID]sojourn.State{}, action: map[sojourn.ID]sojourn.OnFailure{}}
}

// set stores a dependency.
func (g *graph) set(child, parent sojourn.ID, l link) {
	if g.Of[child] == nil {
		g.Of[child] = map[sojourn.ID]*link{}
	}
	g.Of[child][parent] = &l
}

// name notes on the row of a live job that another one depends on it.
func (g *graph) name(parent sojourn.ID) {
	if p := g.m.Jobs[parent]; p != nil && p.State.Live() && !p.named {
		p.named, p.updated = true, g.m.Now
		g.m.Touched[parent] = true
	}
}

// end notes a job that has ended. What it waited for does not concern it any more.
func (g *graph) end(id sojourn.ID) {
	g.ended = append(g.ended, id)
	g.leave(id)
}

// leave closes the dependencies of a job.
func (g *graph) leave(id sojourn.ID) {
	for _, l := range g.Of[id] {
		l.Open = false
	}
}

// children are the jobs that wait for a job, in the order of their ids.
func (g *graph) children(parent sojourn.ID) (ids []sojourn.ID) {
	for _, child := range slices.Sorted(maps.Keys(g.Of)) {
		if l := g.Of[child][parent]; l != nil && l.Open {
			ids = append(ids, child)
		}
	}
	return ids
}

// Flush decides the dependents of the jobs that a call has ended, and then, one after the other,
// those of the jobs that end with it.
func (g *graph) Flush() {
	staged, ended := g.staged, g.ended
	g.staged, g.ended = nil, nil
	for _, p := range g.pairs(staged, func(l *link) bool { return l.onStage }) {
		g.resolve(p.child, p.parent, stageOver)
	}
	for _, p := range g.pairs(ended, func(*link) bool { return true }) {
		g.resolve(p.child, p.parent, g.m.Jobs[p.parent].State)
	}
	for g.post(); len(g.outbox) > 0; g.post() {
		g.Deep = true
		parent := slices.Min(slices.Collect(maps.Keys(g.outbox)))
		state := g.outbox[parent]
		delete(g.outbox, parent)
		for _, child := range g.children(parent) {
			g.resolve(child, parent, state)
		}
	}
	clear(g.action)
}

// stageOver is the state of a job that has advanced, for the dependencies that wait for its stage.
const stageOver sojourn.State = 0

type pair struct{ child, parent sojourn.ID }

// pairs are the open dependencies on some jobs, in the order in which they are decided.
func (g *graph) pairs(parents []sojourn.ID, which func(*link) bool) (out []pair) {
	for _, parent := range parents {
		for _, child := range g.children(parent) {
			if which(g.Of[child][parent]) {
				out = append(out, pair{child, parent})
			}
		}
	}
	slices.SortFunc(out, func(a, b pair) int { return cmp.Or(cmp.Compare(a.child, b.child), cmp.Compare(a.parent, b.parent)) })
	return out
}

// post puts the ended jobs with dependents into the outbox.
func (g *graph) post() {
	for _, id := range g.ended {
		if len(g.children(id)) > 0 {
			g.outbox[id] = g.m.Jobs[id].State
		}
	}
	g.ended = nil
}

// resolve decides one dependency of a job.
func (g *graph) resolve(child, parent sojourn.ID, state sojourn.State) {
	l, j := g.Of[child][parent], g.m.Jobs[child]
	action, blocked := l.onFailure, j.State == sojourn.Blocked
	if a := g.action[parent]; a != "" && action == sojourn.WaitOnFailure {
		action = a
	}
	if g.step(j, rules.Event{Type: rules.EventParent, Parent: state, OnFailure: action}) {
		l.Open = false
	}
	if blocked && j.State.Final() {
		g.action[child] = g.action[parent]
	}
}

// step applies the end of a parent, and reports whether the dependency is resolved.
func (g *graph) step(j *Job, e rules.Event) bool {
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
	if tr.To.State == sojourn.Ready && j.runAt > g.m.Now {
		tr.To.State = sojourn.Scheduled
	}
	awaits := j.AttemptOpen
	g.m.apply(j, tr, change{})
	if awaits { // a response may have come while it awaited children
		g.m.match(j)
	}
	return true
}

// add predicts a new dependency: whether it is open, whether it is stored at all, and the code of a
// refusal.
func (g *graph) add(w want, ending *Job) (open, stored bool, code string) {
	p := g.m.Jobs[w.parent]
	switch {
	case p == nil && w.missingOK:
		return false, false, ""
	case p == nil:
		return false, false, sojourn.CodeDependency
	case p == ending, p.State == sojourn.Completed, p.State.Final() && w.onFailure == sojourn.IgnoreFailure:
		return false, true, ""
	}
	return true, true, ""
}

// acts reports whether a dependency on a job that has ended decides the child at once.
func (g *graph) acts(w want) bool {
	p := g.m.Jobs[w.parent]
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
		for parent, l := range g.Of[at] {
			if l.Open {
				todo = append(todo, parent)
			}
		}
	}
	return false
}

// change predicts a change of the dependencies of a blocked job; the edit itself is applied by
// then, which commit does.
func (g *graph) change(j *Job, e sojourn.Edit) (commit func(), code string) {
	var wants []want
	if e.DependOn != nil {
		wants = wantsOf(*e.DependOn, func(id sojourn.ID) sojourn.ID { return id })
	}
	var parents []sojourn.ID
	for _, w := range wants {
		parents = append(parents, w.parent)
	}
	if g.reaches(parents, j.ID, nil) {
		return nil, sojourn.CodeCycle
	}
	next, post := map[sojourn.ID]link{}, map[sojourn.ID]sojourn.State{}
	for parent, l := range g.Of[j.ID] {
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
		case open && !next[w.parent].Open:
			opens++
		case !open && next[w.parent].Open:
			resolved++
		}
		next[w.parent] = link{onFailure: w.onFailure, Open: open, onStage: w.onStage}
		if open && g.acts(w) {
			post[w.parent] = g.m.Jobs[w.parent].State
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
			if l.Open {
				resolved++
			}
			if slices.Contains(g.m.awaitedBy(id), j.ID) { // a child of the job stays one
				next[id] = link{onFailure: sojourn.IgnoreFailure, Awaited: true}
			} else {
				delete(next, id)
			}
		}
	}
	return func() {
		g.Of[j.ID] = map[sojourn.ID]*link{}
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
		l := g.Of[child][id]
		if l.onFailure != sojourn.WaitOnFailure || g.Beside[child] && !gone {
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
	g.action[id] = action
	return open, ""
}

// remove forgets the dependencies of a job that is deleted.
func (g *graph) remove(id sojourn.ID) { delete(g.Of, id) }
