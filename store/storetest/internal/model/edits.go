package model

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Operator predicts what a person does by hand.
type Operator struct{ *Model }

// Edits predicts the edits of people on a model.
func Edits(m *Model) Operator { return Operator{m} }

// Edit predicts the answer of Edit for one job: its state, whether it has changed, and the code of
// a refusal.
func (m Operator) Edit(j *Job, e sojourn.Edit) (state sojourn.State, changed bool, code string) {
	if e.Generation != 0 && e.Generation != j.Generation {
		return j.State, false, sojourn.CodeConflict
	}
	switch e.Action {
	case sojourn.EditCancel:
		return m.endByHand(j, e, rules.EventCancel, sojourn.Cancelled)
	case sojourn.EditFail:
		return m.endByHand(j, e, rules.EventFail, sojourn.Failed)
	case sojourn.EditRedrive:
		return m.redrive(j, e)
	case sojourn.EditRelease:
		if err := m.happen(j, rules.Event{Type: rules.EventRelease, Reason: e.Reason}, change{}); err != nil {
			return j.State, false, sojourn.CodeConflict
		}
		return j.State, true, ""
	case sojourn.EditPurge:
		if !j.State.Final() || m.Now-j.created < sojourn.IDLife.Microseconds() {
			return j.State, false, sojourn.CodeConflict
		}
		if j.State != sojourn.Completed {
			open, code := m.Edges.clear(j.ID, e.Dependents, true)
			if code != "" {
				return j.State, false, code
			}
			if open {
				m.Edges.outbox[j.ID] = sojourn.Cancelled
			}
		}
		m.remove(j)
		return j.State, true, ""
	}
	links, code := func() {}, ""
	if e.DependOn != nil || e.Undepend != nil {
		if j.State != sojourn.Blocked {
			return j.State, false, sojourn.CodeConflict
		}
		if links, code = m.Edges.change(j, e); code != "" {
			return j.State, false, code
		}
	}
	if j.State.Final() || j.State == sojourn.Running || j.State == sojourn.Awaiting && !rules.WhileAwaiting(e) || j.Resumed {
		return j.State, false, sojourn.CodeConflict
	}
	was, c := *j, e
	if c.Priority != nil {
		j.priority = *c.Priority
	}
	if c.Queue != nil {
		j.moveTo(m.Model, *c.Queue)
	}
	if c.Delay != nil {
		j.runAt = m.Now + c.Delay.Microseconds()
		if j.State == sojourn.Ready || j.State == sojourn.Scheduled {
			j.State = sojourn.Ready
			if *c.Delay > 0 {
				j.State = sojourn.Scheduled
			}
		}
	}
	j.record(&was, rules.Transition{To: j.Row, Outcome: "edited", Reason: e.Reason}, m.Now)
	j.updated = m.Now
	m.Touched[j.ID] = true
	links()
	return j.State, true, ""
}

func (m Operator) endByHand(j *Job, e sojourn.Edit, event rules.EventType, to sojourn.State) (sojourn.State, bool, string) {
	switch {
	case j.State == to:
		return to, false, ""
	case j.State.Final(), j.State == sojourn.Running && e.Refuse:
		return j.State, false, sojourn.CodeConflict
	}
	if to == sojourn.Cancelled {
		if _, code := m.Edges.clear(j.ID, e.Dependents, false); code != "" {
			return j.State, false, code
		}
	}
	reason := e.Reason
	if reason == "" && to == sojourn.Failed {
		reason = "operator"
	}
	if err := m.happen(j, rules.Event{Type: event, Reason: reason}, change{}); err != nil {
		return j.State, false, sojourn.CodeInvalid
	}
	return to, true, ""
}

func (m Operator) redrive(j *Job, e sojourn.Edit) (sojourn.State, bool, string) {
	return m.redriveAfter(j, e, func() int32 { return 0 })
}

// redriveAfter is redrive of a job that waits for as many dependencies as block opens.
func (m Operator) redriveAfter(j *Job, e sojourn.Edit, block func() int32) (sojourn.State, bool, string) {
	tr, err := rules.Decide(rules.Row{ID: j.ID, State: j.State, Weight: j.Weight, Stage: j.Stage, Policy: j.Policy}, rules.Event{Type: rules.EventRedrive, Reason: e.Reason})
	if err != nil {
		return j.State, false, sojourn.CodeConflict
	}
	n := Name{j.Kind, j.Key}
	if j.Key != "" {
		if m.taken(j.ID, n) {
			return j.State, false, sojourn.CodeConflict
		}
		m.remember(n, j.ID)
		m.keys[n] = &holder{job: j.ID, own: true, live: true}
	}
	for _, before := range m.past {
		delete(before, j.ID)
	}
	was := *j
	m.memberBack(j.ID, was.State)
	if tr.To.WaitsFor = block(); tr.To.WaitsFor > 0 {
		tr.To.State = sojourn.Blocked
	}
	j.Row, j.Generation, j.runAt = tr.To, j.Generation+1, m.Now
	j.deadline, j.named = m.deadlineOf(j.Policy), len(m.Edges.children(j.ID)) > 0
	j.timeoutAt, j.waitUntil, j.decideBy, j.rested, j.LeaseUntil, j.finished = 0, 0, 0, 0, 0, 0
	j.reason, j.text, j.result = "", "", ""
	j.record(&was, tr, m.Now)
	j.updated = max(m.Now, was.finished)
	m.Touched[j.ID] = true
	return j.State, true, ""
}
