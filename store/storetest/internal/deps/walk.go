package deps

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var walkTrials = []kit.Trial{
	{Name: "random compositions", Law: "Whatever jobs with dependencies, stages and children do, each ends in the state that a model predicts.",
		Covers: "spec:D3 spec:D5 spec:D7 spec:D8 spec:D10 tr:S3 tr:S4 tr:S5 tr:F16 tr:F17 inv:G1 inv:G2 inv:G4", Run: func(s *kit.Scene) { walkFor(s, 60) }},
}

// tie is a dependency in the model. A closed one stays.
type tie struct {
	action  sojourn.OnFailure
	onStage bool
	open    bool
}

// node is a job in the model.
type node struct {
	id       sojourn.ID
	state    sojourn.State
	parents  map[int]*tie
	children bool // those that it awaits, or has awaited, are in its parents
}

// walk compares random calls with a model. Each job has a queue of its own, so that a claim can
// choose it.
type walk struct {
	*kit.Scene
	nodes   []*node
	outbox  map[int]sojourn.State     // ended jobs whose dependents are not decided
	cascade map[int]sojourn.OnFailure // what a cancel says about dependents that would wait
}

func walkFor(s *kit.Scene, ops int) {
	w := &walk{Scene: s, outbox: map[int]sojourn.State{}, cascade: map[int]sojourn.OnFailure{}}
	var said []string
	for range ops {
		said = append(said, w.op())
		w.drain()
		s.Sweep()
		if text := w.differs(); text != "" {
			s.Fatalf("%s, after\n%v", text, said)
		}
	}
}

func (w *walk) queue(i int) sojourn.Option { return sojourn.Queue(fmt.Sprint("q", i)) }

// op does one random call.
func (w *walk) op() string {
	ready, others := w.those(sojourn.Ready), w.those(sojourn.Ready, sojourn.Blocked)
	ended, n := w.those(sojourn.Failed, sojourn.Cancelled), w.Random(10)
	switch {
	case n < 4 || len(others) == 0:
		return w.enqueue()
	case n < 8 && len(ready) > 0:
		return w.finish(ready[w.Random(len(ready))])
	case n == 8 && len(ended) > 0:
		i := ended[w.Random(len(ended))]
		w.Edited(w.nodes[i].id, kit.RedriveEdit, sojourn.Ready)
		w.nodes[i].state, w.nodes[i].children = sojourn.Ready, false
		return fmt.Sprint("redrive ", i)
	}
	return w.cancel(others[w.Random(len(others))])
}

// those are the jobs in some states.
func (w *walk) those(states ...sojourn.State) (is []int) {
	for i, n := range w.nodes {
		if slices.Contains(states, n.state) {
			is = append(is, i)
		}
	}
	return is
}

func (w *walk) enqueue() string {
	n, i, text := &node{state: sojourn.Ready, parents: map[int]*tie{}}, len(w.nodes), ""
	options := []sojourn.Option{w.queue(i)}
	for range min(w.Random(4), i) {
		p := i - 1 - w.Random(min(i, 8))
		if n.parents[p] != nil {
			continue
		}
		t := &tie{actions[1+w.Random(4)], w.Random(3) == 0, true}
		options = append(options, sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{w.nodes[p].id}, OnFailure: t.action, OnStage: t.onStage}))
		switch state := w.nodes[p].state; {
		case state == sojourn.Completed || state.Final() && t.action == sojourn.IgnoreFailure:
			t.open = false
		case state.Final():
			w.outbox[p] = state // it decides this edge, if the action says so
		}
		n.parents[p], text = t, text+fmt.Sprint(" ", p, *t)
	}
	n.id = w.Enqueue(options...)
	w.nodes = append(w.nodes, n)
	if n.open() > 0 {
		n.state = sojourn.Blocked
	}
	return fmt.Sprint("enqueue ", i, ":", text)
}

// open is the number of dependencies that keep a job blocked.
func (n *node) open() (open int32) {
	for _, t := range n.parents {
		if t.open {
			open++
		}
	}
	return open
}

// finish runs a step of a job.
func (w *walk) finish(i int) string {
	n := w.nodes[i]
	c := w.Claim(kit.From(fmt.Sprint("q", i)))
	kit.Same(w, "the claimed job", c.Job.ID, n.id)
	report := func(o sojourn.Outcome) { w.Reports(o, driver.FinishApplied) }
	switch w.Random(5) {
	case 0:
		report(kit.Abort(c))
		w.end(i, sojourn.Failed)
		return fmt.Sprint("abort ", i)
	case 1:
		report(kit.Advance(c, ""))
		n.children = false
		for _, child := range w.dependents(i, true) {
			w.resolve(child, i)
		}
		return fmt.Sprint("advance ", i)
	case 2:
		if n.children {
			break
		}
		n.children, n.state = true, sojourn.Blocked
		var parts []sojourn.Job
		for range 1 + w.Random(3) {
			p := len(w.nodes)
			parts = append(parts, w.Job(w.queue(p), sojourn.Name(fmt.Sprint("part", p))))
			w.nodes = append(w.nodes, &node{id: parts[len(parts)-1].ID, state: sojourn.Ready, parents: map[int]*tie{}})
			n.parents[p] = &tie{sojourn.IgnoreFailure, false, true}
		}
		report(kit.AwaitJobs(c, 0, parts...))
		return fmt.Sprint("await children ", i)
	}
	report(kit.Completed(c))
	w.end(i, sojourn.Completed)
	return fmt.Sprint("complete ", i)
}

func (w *walk) cancel(i int) string {
	mode := []string{"", sojourn.DependentsCancel, sojourn.DependentsRelease}[w.Random(3)]
	waits := slices.ContainsFunc(w.dependents(i, false), func(c int) bool { return w.nodes[c].parents[i].action == sojourn.WaitOnFailure })
	e := w.Edit(w.nodes[i].id, sojourn.Edit{Action: sojourn.EditCancel, Dependents: mode})
	if waits && mode == "" {
		w.Is(e.Err, sojourn.ErrConflict, "a cancel with a dependent that would wait")
		return fmt.Sprint("refused cancel ", i)
	}
	w.Must(e.Err, "cancel")
	w.cascade[i] = map[string]sojourn.OnFailure{sojourn.DependentsCancel: sojourn.CancelOnFailure, sojourn.DependentsRelease: sojourn.IgnoreFailure}[mode]
	w.end(i, sojourn.Cancelled)
	return fmt.Sprint("cancel ", i, " ", mode)
}

// dependents are the jobs that wait for a job, or only for its stage.
func (w *walk) dependents(i int, stage bool) (is []int) {
	for c, n := range w.nodes {
		if t := n.parents[i]; t != nil && t.open && (t.onStage || !stage) {
			is = append(is, c)
		}
	}
	return is
}

// end ends a job; drain decides its dependents.
func (w *walk) end(i int, state sojourn.State) {
	w.nodes[i].state, w.outbox[i] = state, state
	for _, t := range w.nodes[i].parents {
		t.open = false
	}
}

func (w *walk) resolve(child, parent int) {
	n := w.nodes[child]
	n.parents[parent].open = false
	if n.state == sojourn.Blocked && n.open() == 0 {
		n.state = sojourn.Ready
	}
}

// drain decides the dependents of all jobs that have ended, in the order of their ids.
func (w *walk) drain() {
	for len(w.outbox) > 0 {
		i := slices.Min(slices.Collect(maps.Keys(w.outbox)))
		state := w.outbox[i]
		delete(w.outbox, i)
		for _, c := range w.dependents(i, false) {
			action := w.nodes[c].parents[i].action
			if a := w.cascade[i]; a != "" && action == sojourn.WaitOnFailure {
				action = a
			}
			switch {
			case state == sojourn.Completed || action == sojourn.IgnoreFailure:
				w.resolve(c, i)
			case action == sojourn.WaitOnFailure:
			default:
				w.cascade[c] = w.cascade[i]
				w.end(c, after[action])
			}
		}
	}
	clear(w.cascade)
}

// differs compares all jobs with the model.
func (w *walk) differs() string {
	ids := make([]sojourn.ID, len(w.nodes))
	for i, n := range w.nodes {
		ids[i] = n.id
	}
	found, err := w.Store.Find(w.Ctx, sojourn.Filter{IDs: ids, Limit: sojourn.MaxFind})
	w.Must(err, "Find")
	by := map[sojourn.ID]sojourn.Job{}
	for _, j := range found {
		by[j.ID] = j
	}
	for i, n := range w.nodes {
		j := by[n.id]
		if open := n.open(); j.State != n.state || j.State == sojourn.Blocked && j.WaitsFor != open || j.ChildrenDone != (n.children && n.state == sojourn.Ready) && j.State == sojourn.Ready {
			return fmt.Sprintf("job %d (%d) is %s, waits for %d, children done %v; want %s, %d, %v", i, n.id, j.State, j.WaitsFor, j.ChildrenDone, n.state, open, n.children)
		}
	}
	return ""
}
