package model

import (
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// want is a dependency that a caller asks for.
type want struct {
	parent    sojourn.ID
	onFailure sojourn.OnFailure
	missingOK bool
	onStage   bool
}

// wantsOf lists dependencies by parent. The last one on a parent counts.
func wantsOf(ds []sojourn.Dependency, target func(sojourn.ID) sojourn.ID) (out []want) {
	by := map[sojourn.ID]want{}
	for _, d := range ds {
		for _, id := range d.Jobs {
			w := want{target(id), d.OnFailure, d.MissingOK, d.OnStage}
			if w.onFailure == "" {
				w.onFailure = sojourn.WaitOnFailure
			}
			by[w.parent] = w
		}
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[id])
	}
	return out
}

// links are the dependencies of the jobs of one call.
type links struct {
	*plan
	at     map[sojourn.ID]int // the first job of the call with an id
	stores map[sojourn.ID]int // jobs that the call inserts or replaces
	wants  map[int][]want
	more   map[sojourn.ID][]sojourn.ID // as ids
	codes  map[int]string              // refusals
	walked map[int]bool
	again  map[int]bool // jobs that replace stored ones
	order  []int
	path   []int
}

// link predicts the dependencies of a call, after all else of it. It returns the code of a refusal
// of the whole call.
func (p *plan) link(partial bool) string {
	s := &links{plan: p, at: map[sojourn.ID]int{}, stores: map[sojourn.ID]int{}, wants: map[int][]want{}, more: map[sojourn.ID][]sojourn.ID{},
		codes: map[int]string{}, walked: map[int]bool{}, again: map[int]bool{}}
	for i := range p.jobs {
		if _, ok := s.at[p.jobs[i].ID]; !ok {
			s.at[p.jobs[i].ID] = i
		}
	}
	both := slices.Concat(p.fresh, p.replay)
	for _, i := range both {
		s.stores[p.done[i].ID], s.again[i] = i, p.done[i].Replaced
	}
	for id, i := range s.stores {
		for _, w := range wantsOf(p.jobs[i].Depends, s.target) {
			s.wants[i], s.more[id] = append(s.wants[i], w), append(s.more[id], w.parent)
		}
	}
	for _, i := range both {
		s.walk(i)
	}
	for _, i := range s.order {
		code := s.codes[i]
		if code == "" {
			code = s.decide(i)
		}
		if code != "" && !partial {
			return code
		}
		if code != "" {
			s.refuse(i, code)
		}
	}
	return ""
}

// target is the job that an id of the call stands for.
func (s *links) target(id sojourn.ID) sojourn.ID {
	if i, ok := s.at[id]; ok && s.done[i].ID != 0 {
		return s.done[i].ID
	}
	return id
}

// walk orders the jobs of the call, parents first, and finds cycles among them.
func (s *links) walk(i int) {
	if from := slices.Index(s.path, i); from >= 0 {
		for _, k := range s.path[from:] {
			s.codes[k] = sojourn.CodeCycle
		}
		return
	}
	if s.walked[i] {
		return
	}
	s.walked[i], s.path = true, append(s.path, i)
	for _, w := range s.wants[i] {
		if k, ok := s.stores[w.parent]; ok {
			s.walk(k)
		}
	}
	s.path = s.path[:len(s.path)-1]
	if len(s.wants[i]) > 0 {
		s.order = append(s.order, i)
	}
}

// decide predicts the dependencies of one job.
func (s *links) decide(i int) (code string) {
	g, id := s.m.Edges, s.done[i].ID
	if s.done[i].Replaced && g.reaches(s.more[id], id, s.more) {
		return sojourn.CodeCycle
	}
	of, post := map[sojourn.ID]link{}, map[sojourn.ID]sojourn.State{}
	blocks := false
	for _, w := range s.wants[i] {
		k, inside := s.stores[w.parent]
		at, named := s.at[w.parent]
		refused := inside && s.codes[k] != "" && !s.again[k] || !inside && named && s.done[at].Err != nil
		open, stored := true, true
		switch {
		case inside && s.codes[k] == "":
		case refused && w.missingOK:
			stored = false
		case refused:
			return sojourn.CodeDependency
		default:
			if open, stored, code = g.add(w, s.ending); code != "" {
				return code
			}
			if open && g.acts(w) {
				post[w.parent] = s.m.Jobs[w.parent].State
			}
		}
		if stored {
			of[w.parent] = link{onFailure: w.onFailure, Open: open, onStage: w.onStage}
			blocks = blocks || open
		}
	}
	s.linked[id] = of
	maps.Copy(s.post, post)
	if blocks {
		s.done[i].State = sojourn.Blocked
	}
	return ""
}

// refuse takes a job out of the call.
func (s *links) refuse(i int, code string) {
	id, stored := s.done[i].ID, s.done[i].Replaced
	s.codes[i] = code
	for k := range s.done {
		if s.done[k].ID == id && s.done[k].Err == nil && (!stored || s.done[k].Replaced) {
			s.done[k] = sojourn.Enqueued{Err: &sojourn.Error{Code: code}}
		}
	}
	gone := func(k int) bool { return s.done[k].Err != nil }
	s.fresh, s.replay = slices.DeleteFunc(s.fresh, gone), slices.DeleteFunc(s.replay, gone)
}

// block sets the dependencies of a job that the call has inserted or replaced.
func (p *plan) block(j *Job) {
	j.WaitsFor = 0
	for parent, l := range p.linked[j.ID] {
		p.m.Edges.set(j.ID, parent, l)
		p.m.Edges.name(parent)
		if l.Open {
			j.State = sojourn.Blocked
			j.WaitsFor++
		}
	}
}
