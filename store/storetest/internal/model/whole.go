package model

import (
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Whole is a workflow as it is stored. Its members are jobs of the model; their ends are counted
// here as they happen.
type Whole struct {
	Name                string
	State               workflow.State
	Generation          int32
	Counts              map[sojourn.State]int64
	Members             map[string]sojourn.ID
	Gone                map[sojourn.ID]sojourn.State // final states of members that were deleted
	OnEnd, OnFailure    bool
	EndCalls, FailCalls []WholeCall // the callbacks that were enqueued, in order

	fired int32 // the generation whose first failure is known
}

// WholeCall is a callback: the state of the whole when it was enqueued. That of a first failure
// shows only the generation.
type WholeCall struct {
	State                        workflow.State
	Generation                   int32
	Completed, Failed, Cancelled int64
}

// Wholes predicts the calls about workflows on a model.
type Wholes struct{ *Model }

// WholesOf predicts the calls about workflows on a model.
func WholesOf(m *Model) Wholes { return Wholes{m} }

// Start stores a workflow without members.
func (m Wholes) Start(w Whole) *Whole {
	w.Generation, w.Counts, w.Members, w.Gone = 1, map[sojourn.State]int64{}, map[string]sojourn.ID{}, map[sojourn.ID]sojourn.State{}
	m.Whole[w.Name] = &w
	return &w
}

// Add makes stored jobs members of a workflow.
func (m Wholes) Add(w *Whole, name string, id sojourn.ID) {
	w.Members[name], m.memberOf[id] = id, w
}

// Change predicts the effect of an action.
func (m Wholes) Change(w *Whole, a workflow.Action, reason string) {
	switch {
	case a == workflow.ActionClose:
		if w.State == workflow.Open {
			w.State = workflow.Running
		}
	case a == workflow.ActionCancel:
		m.cancel(w, reason)
	case w.Counts[sojourn.Failed]+w.Counts[sojourn.Cancelled] > 0:
		w.reopen()
		m.redrive(w, reason)
	}
}

// cancel ends all members, first those that are blocked, so that the ends of others start none. The
// dependents of these are decided before the others end.
func (m Wholes) cancel(w *Whole, reason string) {
	if w.State.Final() {
		return
	}
	w.State = workflow.Running
	for _, blocked := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(w.Members)) {
			j := m.Jobs[w.Members[name]]
			if j == nil || j.State.Final() || blocked && j.State != sojourn.Blocked {
				continue
			}
			if err := m.happen(j, rules.Event{Type: rules.EventCancel, Reason: reason}, change{}); err != nil {
				panic(err) // it is live
			}
		}
		m.Edges.Flush()
	}
}

// redrive redrives the failed and cancelled members in the order of their names. Each waits again
// for those of its parents that are live, and for members that are redriven with it. A member whose
// redrive is refused has ended once more for those that wait for it.
func (m Wholes) redrive(w *Whole, reason string) {
	var again []*Job
	for _, name := range slices.Sorted(maps.Keys(w.Members)) {
		if j := m.Jobs[w.Members[name]]; j != nil && (j.State == sojourn.Failed || j.State == sojourn.Cancelled) {
			again = append(again, j)
		}
	}
	for _, j := range again {
		Edits(m.Model).redriveAfter(j, sojourn.Edit{Reason: reason}, func() int32 { return m.Edges.again(j.ID, w) })
	}
	for _, j := range again {
		if j = m.Jobs[j.ID]; j.State.Final() && len(m.Edges.children(j.ID)) > 0 {
			m.Edges.outbox[j.ID] = j.State
		}
	}
}

// again opens the dependencies of a member that is redriven with its workflow, and returns how many
// it waits for.
func (g *graph) again(child sojourn.ID, w *Whole) (open int32) {
	for parent, l := range g.Of[child] {
		p := g.m.Jobs[parent]
		if p == nil || p.State == sojourn.Completed || p.State.Final() && l.onFailure != sojourn.WaitOnFailure && g.m.memberOf[parent] != w {
			continue
		}
		l.Open = true
		g.name(parent)
		open++
	}
	return open
}

// reopen begins another generation of a workflow that is over.
func (w *Whole) reopen() {
	if w.State.Final() {
		w.State, w.Generation = workflow.Running, w.Generation+1
	}
}

// memberEnded counts the end of a member.
func (m *Model) memberEnded(j *Job) {
	w := m.memberOf[j.ID]
	if w == nil {
		return
	}
	w.Counts[j.State]++
	if j.State != sojourn.Completed && w.fired < w.Generation {
		if w.fired = w.Generation; w.OnFailure {
			w.FailCalls = append(w.FailCalls, WholeCall{Generation: w.Generation})
		}
	}
}

// memberBack takes the end of a redriven member back.
func (m *Model) memberBack(id sojourn.ID, was sojourn.State) {
	if w := m.memberOf[id]; w != nil {
		w.reopen()
		w.Counts[was]--
	}
}

// Settle ends the workflows whose members are all final. It follows each call.
func (m Wholes) Settle() {
	for _, w := range m.Whole {
		done, failed, cancelled := w.Counts[sojourn.Completed], w.Counts[sojourn.Failed], w.Counts[sojourn.Cancelled]
		if w.State != workflow.Running || done+failed+cancelled < int64(len(w.Members)) {
			continue
		}
		switch {
		case failed > 0:
			w.State = workflow.Failed
		case cancelled > 0:
			w.State = workflow.Cancelled
		default:
			w.State = workflow.Completed
		}
		if w.OnEnd {
			w.EndCalls = append(w.EndCalls, WholeCall{w.State, w.Generation, done, failed, cancelled})
		}
	}
}
