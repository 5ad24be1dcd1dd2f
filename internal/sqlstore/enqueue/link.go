package enqueue

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// linking decides the dependencies of the jobs of one call, after all else of the call was decided.
// A refused call has stored none of them.
type linking struct {
	*Batch
	at       map[sojourn.ID]int // of this call → index
	stores   map[sojourn.ID]int // that the call inserts or replaces → index
	wants    map[int][]edge.Want
	parents  *edge.Parents
	order    []int       // indices with wants, each after those of the call that it depends on
	state    map[int]int // of the walk: 1 on the path, 2 done
	path     []int
	refusals map[int]error
}

// planLinks decides which jobs of the call are blocked. A job waits for jobs that are stored, or
// for others of the call, in any order.
func (b *Batch) planLinks(partial bool) error {
	s := &linking{Batch: b, at: map[sojourn.ID]int{}, stores: map[sojourn.ID]int{}, wants: map[int][]edge.Want{}, state: map[int]int{}, refusals: map[int]error{}}
	for i := range b.jobs {
		if b.done[i].Err != nil {
			s.refusals[i] = b.done[i].Err
		}
		if _, ok := s.at[b.jobs[i].ID]; !ok {
			s.at[b.jobs[i].ID] = i
		}
	}
	for _, i := range slices.Concat(b.fresh, b.replaced) { // of two that replace one job the second counts
		s.stores[b.done[i].ID] = i
	}
	for _, i := range s.stores {
		if ws := edge.Wants(b.jobs[i].Depends, s.target); len(ws) > 0 {
			s.wants[i] = ws
		}
	}
	if len(s.wants) == 0 {
		return nil
	}
	if err := b.WriteJobs(); err != nil { // of the calls before: their rows are to be there
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	for _, i := range slices.Concat(b.fresh, b.replaced) {
		if err := s.sort(i); err != nil {
			return err
		}
	}
	b.linked = map[sojourn.ID]link{}
	for _, i := range s.order {
		err := s.refusals[i]
		if err == nil {
			err = s.decide(i)
		}
		switch {
		case err == nil:
			continue
		case sojourn.ErrorCode(err) == "" || !partial:
			return sojourn.AtIndex(i, err)
		}
		s.refuse(i, err)
	}
	return nil
}

// inCall returns the index of a job that this call stores or refuses.
func (s *linking) inCall(id sojourn.ID) (int, bool) {
	if i, ok := s.stores[id]; ok {
		return i, true
	}
	i, ok := s.at[id]
	return i, ok && s.done[i].Err != nil
}

// target is the job that a wanted one stands for: a job of the call may be a duplicate of another,
// or replace it.
func (s *linking) target(id sojourn.ID) sojourn.ID {
	if i, ok := s.at[id]; ok && s.done[i].ID != 0 {
		return s.done[i].ID
	}
	return id
}

// lock locks the jobs outside of the call.
func (s *linking) lock() (err error) {
	var ids []sojourn.ID
	for _, ws := range s.wants {
		for _, w := range ws {
			if i, ok := s.inCall(w.Parent); !ok || s.done[i].Replaced {
				ids = append(ids, w.Parent)
			}
		}
	}
	s.parents, err = edge.Lock(s.Tx, ids, s.caller)
	if err == nil && s.Ending != nil {
		s.parents.Completes(s.Ending.ID)
	}
	return err
}

// sort adds job i to the order, after the jobs of the call that it depends on, and refuses those of
// a cycle. It uses no recursion per job outside of the call.
func (s *linking) sort(i int) error {
	if s.state[i] == 2 {
		return nil
	}
	if s.state[i] == 1 {
		from := slices.Index(s.path, i)
		ids := []string{}
		for _, k := range append(slices.Clone(s.path[from:]), i) {
			ids = append(ids, s.done[k].ID.String())
		}
		err := edge.CycleError(strings.Join(ids, " → "))
		for _, k := range s.path[from:] {
			s.refusals[k] = err
		}
		return nil
	}
	s.state[i], s.path = 1, append(s.path, i)
	for _, w := range s.wants[i] {
		if k, ok := s.inCall(w.Parent); ok {
			if err := s.sort(k); err != nil {
				return err
			}
		}
	}
	s.state[i], s.path = 2, s.path[:len(s.path)-1]
	if len(s.wants[i]) > 0 {
		s.order = append(s.order, i)
	}
	return nil
}

// link is what the edges of a call mean for the row of one of its jobs.
type link struct {
	waitsFor   int32
	dependents bool
}

// on sets the link on a row that is stored.
func (k link) on(l *jobrow.Row) {
	l.Dependents = l.Dependents || k.dependents
	if k.waitsFor > 0 {
		l.State, l.WaitsFor = sojourn.Blocked, k.waitsFor
	}
}

// parentsOf lists the dependencies that the call gives to a job.
func (s *linking) parentsOf(id sojourn.ID) (ids []sojourn.ID) {
	if i, ok := s.stores[id]; ok {
		for _, w := range s.wants[i] {
			ids = append(ids, w.Parent)
		}
	}
	return ids
}

// decide adds the edges of job i, and blocks it if any is open.
func (s *linking) decide(i int) error {
	child := s.done[i].ID
	if s.done[i].Replaced {
		if err := edge.CheckCycle(s.Tx, child, s.parentsOf); err != nil {
			return err
		}
	}
	links, open := s.links, int32(0)
	var inside []sojourn.ID
	for _, w := range s.wants[i] {
		if k, ok := s.inCall(w.Parent); ok && s.done[k].Err == nil && s.refusals[k] == nil {
			links.AddNew(child, w)
			inside, open = append(inside, w.Parent), open+1
			continue
		}
		isOpen, err := links.Add(s.parents, child, w)
		if err != nil {
			return err
		}
		if isOpen {
			open++
		}
	}
	for _, id := range inside {
		l := s.linked[id]
		l.dependents = true
		s.linked[id] = l
	}
	l := s.linked[child]
	l.waitsFor = open
	s.links, s.linked[child] = links, l
	if open > 0 {
		s.done[i].State = sojourn.Blocked
	}
	return nil
}

// refuse takes job i out of the call. Jobs that were answered with one that is not stored now share
// its refusal.
func (s *linking) refuse(i int, err error) {
	id, stored := s.done[i].ID, s.done[i].Replaced
	s.refusals[i] = err
	for k := range s.done {
		if s.done[k].ID == id && s.done[k].Err == nil && (!stored || s.done[k].Replaced) {
			s.done[k] = sojourn.Enqueued{Err: sojourn.AtIndex(k, err)}
		}
	}
	j := &s.jobs[i]
	s.reused = slices.DeleteFunc(s.reused, func(k txn.KindKey) bool { return k == txn.KindKey{Kind: j.Kind, Key: j.Key} }) // of a final job, which keeps it
	gone := func(k int) bool { return s.done[k].Err != nil }
	s.fresh, s.replaced = slices.DeleteFunc(s.fresh, gone), slices.DeleteFunc(s.replaced, gone)
}
