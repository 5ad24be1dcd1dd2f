package model

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// childName is the name of a child within a stage of its parent.
type childName struct {
	parent            sojourn.ID
	generation, stage int32
	name              string
}

// following is what an outcome stores beside its own job: next jobs, children, dependencies.
type following struct {
	open  int32 // dependencies or children that are open
	write func()
}

// follow predicts what an outcome stores beside its own job, or the code of its refusal.
func (m Steps) follow(j *Job, o *sojourn.Outcome) (f following, code string) {
	switch o.Type {
	case sojourn.OutcomeAwaitJobs:
		return m.awaitJobs(j, o)
	case sojourn.OutcomeAdvance:
		return m.nextStage(j, o.Depends)
	}
	next := newPlan(m.Model, o.Next)
	next.ending = j
	for i := range o.Next {
		if code := next.one(i); code != "" {
			return f, code
		}
	}
	return following{write: next.write}, next.link(false)
}

// nextStage predicts the dependencies of a next stage.
func (m Steps) nextStage(j *Job, ds []sojourn.Dependency) (f following, code string) {
	wants := wantsOf(ds, func(id sojourn.ID) sojourn.ID { return id })
	var parents []sojourn.ID
	for _, w := range wants {
		parents = append(parents, w.parent)
	}
	if m.Edges.reaches(parents, j.ID, nil) {
		return f, sojourn.CodeCycle
	}
	s := &storing{graph: m.Edges, child: j.ID}
	for _, w := range wants {
		if code := s.add(w); code != "" {
			return f, code
		}
	}
	return following{s.open, s.write}, ""
}

// awaitJobs predicts the children of a step. Those whose names were stored before in this stage are
// the same jobs.
func (m Steps) awaitJobs(j *Job, o *sojourn.Outcome) (f following, code string) {
	ids, added, at := make([]sojourn.ID, len(o.Next)), []sojourn.Job{}, []int{}
	for i := range o.Next {
		if ids[i] = m.children[j.child(o.Next[i].Name)]; ids[i] == 0 {
			added, at = append(added, o.Next[i]), append(at, i)
		}
	}
	p := newPlan(m.Model, added)
	for n := range added {
		if code := p.one(n); code != "" {
			return f, code
		}
	}
	if code := p.link(false); code != "" {
		return f, code
	}
	for n, i := range at {
		ids[i] = p.done[n].ID
	}
	stored, above := map[sojourn.ID]bool{}, []sojourn.ID{}
	for _, n := range p.fresh {
		stored[added[n].ID] = true
		for _, d := range added[n].Depends {
			above = append(above, d.Jobs...)
		}
	}
	above = slices.DeleteFunc(append(above, ids...), func(id sojourn.ID) bool { return stored[id] })
	if m.Edges.reaches(above, j.ID, nil) {
		return f, sojourn.CodeCycle
	}
	s := &storing{graph: m.Edges, child: j.ID, awaited: true}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if stored[id] {
			s.edge(id, link{onFailure: sojourn.IgnoreFailure, Open: true, Awaited: true})
		} else if code := s.add(want{parent: id, onFailure: sojourn.IgnoreFailure, missingOK: true}); code != "" {
			return f, code
		}
	}
	if j.ChildrenDone && s.open == 0 && len(at) == 0 && len(ids) > 0 {
		return f, sojourn.CodeInvalid
	}
	return following{s.open, func() {
		p.write()
		s.write()
		for _, i := range at {
			m.children[j.child(o.Next[i].Name)] = ids[i]
		}
	}}, ""
}

// child is the name of a child in the present stage of a job.
func (j *Job) child(name string) childName {
	return childName{j.ID, j.Generation, j.Stage, name}
}

// awaitedBy lists the jobs that have stored a job as their child, in any stage.
func (m *Model) awaitedBy(child sojourn.ID) (parents []sojourn.ID) {
	for n, id := range m.children {
		if id == child {
			parents = append(parents, n.parent)
		}
	}
	return parents
}

// storing is the edges of one stored job that a step adds.
type storing struct {
	*graph
	child   sojourn.ID
	awaited bool
	open    int32
	edges   map[sojourn.ID]link
	post    map[sojourn.ID]sojourn.State // ended jobs that decide the child
}

// edge stores a dependency.
func (s *storing) edge(parent sojourn.ID, l link) {
	if s.edges == nil {
		s.edges = map[sojourn.ID]link{}
	}
	s.edges[parent] = l
	if l.Open {
		s.open++
	}
}

// add predicts a dependency on a job that is stored already, or the code of its refusal.
func (s *storing) add(w want) (code string) {
	open, stored, code := s.graph.add(w, nil)
	if code != "" || !stored {
		return code
	}
	s.edge(w.parent, link{onFailure: w.onFailure, Open: open, onStage: w.onStage, Awaited: s.awaited})
	if open && s.acts(w) {
		if s.post == nil {
			s.post = map[sojourn.ID]sojourn.State{}
		}
		s.post[w.parent] = s.m.Jobs[w.parent].State
	}
	return ""
}

// write stores the edges.
func (s *storing) write() {
	for parent, l := range s.edges {
		s.set(s.child, parent, l)
		s.name(parent)
	}
	for parent, state := range s.post {
		s.outbox[parent] = state
	}
}

// Children are the children of a job's present stage that are stored, by id. A nil job has none.
func (m *Model) Children(j *Job) (ids []sojourn.ID) {
	if j == nil {
		return nil
	}
	for n, id := range m.children {
		if n.parent == j.ID && n.generation == j.Generation && n.stage == j.Stage && m.Jobs[id] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
