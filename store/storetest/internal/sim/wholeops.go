package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
	"github.com/sojourn-queue/sojourn/workflow"
)

// The members of workflows are jobs like all others. The callbacks have a queue of their own, and
// nobody claims them: their number and their meta are compared.
const (
	callbackQueue = "callbacks"
	maxWholes     = 6 // workflows of one run
)

// wholes carries out operations of workflows and compares their rows.
type wholes struct{ *run }

// keeper is the store's ability to keep workflows; nil if it has none.
func (r wholes) keeper() workflow.Store {
	k, _ := r.store.Store.(workflow.Store)
	return k
}

func (r actor) wholeSome() {
	s := wholes(r)
	if s.keeper() == nil {
		return
	}
	names := slices.Sorted(maps.Keys(r.m.Whole))
	if len(names) == 0 || len(names) < maxWholes && r.chance(30) {
		s.start(r)
		return
	}
	w := r.m.Whole[oneOf(r.dice, names...)]
	if r.chance(60) { // mostly one for which it can be
		var likely []string
		for _, n := range names {
			if x := r.m.Whole[n]; !x.State.Final() || x.State != workflow.Completed {
				likely = append(likely, n)
			}
		}
		if len(likely) > 0 {
			w = r.m.Whole[oneOf(r.dice, likely...)]
		}
	}
	switch way := r.n(10); {
	case w.State == workflow.Open && way < 4:
		s.add(r, w)
	case w.State == workflow.Open && way < 7:
		s.change(w, workflow.ActionClose)
	case way < 5 || w.State == workflow.Failed || w.State == workflow.Cancelled:
		s.change(w, workflow.ActionRedrive)
	case r.chance(50):
		s.change(w, workflow.ActionCancel)
	}
}

// members makes members that wait for each other, for those of the workflow and for other jobs.
func (r wholes) members(a actor, known *model.Whole) (ms []workflow.Member) {
	var before []string
	if known != nil {
		before = slices.Sorted(maps.Keys(known.Members))
	}
	for range oneOf(r.dice, 1, 2, 3, 5) {
		j := a.job(true)
		j.ID, j.Key, j.OnConflict = 0, "", 0
		m := workflow.Member{Name: r.name("member"), Job: &j}
		for range oneOf(r.dice, 0, 1, 1, 2) {
			if len(before) == 0 {
				break
			}
			n := oneOf(r.dice, before...)
			if slices.Contains(m.After, n) {
				continue
			}
			if m.OnFailure == nil {
				m.OnFailure = map[string]sojourn.OnFailure{}
			}
			m.After = append(m.After, n)
			m.OnFailure[n] = oneOf(r.dice, "", sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure)
		}
		if r.chance(15) {
			j.Depends = []sojourn.Dependency{a.dependency(0, nil)}
		}
		ms, before = append(ms, m), append(before, m.Name)
	}
	if r.chance(50) { // members may wait for later ones
		slices.Reverse(ms)
	}
	return ms
}

func (r wholes) start(a actor) {
	w := workflow.New(r.name("whole"))
	w.Members, w.Open, w.Keep = r.members(a, nil), r.chance(30), sojourn.MaxHorizon
	if r.chance(80) {
		w.OnEnd(sojourn.NewJob("ended", nil, sojourn.Queue(callbackQueue)))
	}
	if r.chance(80) {
		w.OnFirstFailure(sojourn.NewJob("failed", nil, sojourn.Queue(callbackQueue)))
	}
	state := workflow.Running
	if w.Open {
		state = workflow.Open
	}
	r.call("StartWorkflow "+w.Name+textOf(w.Members), func() (err error) {
		_, err = r.keeper().StartWorkflow(r.ctx, cloned(w))
		return err
	}, func() string {
		if r.m.Whole[w.Name] != nil {
			return ""
		}
		code := r.stored(w.Name, nil, w.Members)
		if code == "" {
			s := model.WholesOf(r.m)
			is := s.Start(model.Whole{Name: w.Name, State: state, OnEnd: w.EndJob != nil, OnFailure: w.FailureJob != nil})
			r.join(is, w.Members)
		}
		return code
	})
}

func (r wholes) add(a actor, w *model.Whole) {
	ms := r.members(a, w)
	r.call("AppendWorkflow "+w.Name+textOf(ms), func() (err error) {
		_, err = r.keeper().AppendWorkflow(r.ctx, w.Name, cloned(&workflow.Workflow{Members: ms}).Members)
		return err
	}, func() string {
		if w.Members[ms[0].Name] != 0 {
			return ""
		}
		code := r.stored(w.Name, w, ms)
		if code == "" {
			r.join(w, ms)
		}
		return code
	})
}

func (r wholes) change(w *model.Whole, a workflow.Action) {
	r.call(fmt.Sprintf("ChangeWorkflow %s %s", a, w.Name), func() (err error) {
		_, err = r.keeper().ChangeWorkflow(r.ctx, w.Name, a, "asked")
		return err
	}, func() string {
		model.WholesOf(r.m).Change(w, a, "asked")
		return ""
	})
	for _, id := range w.Members {
		if j := r.m.Jobs[id]; j == nil || j.State != sojourn.Running {
			r.ledger.over(id)
		}
	}
}

// cloned is a workflow whose jobs the store may change.
func cloned(w *workflow.Workflow) workflow.Workflow {
	c := *w
	c.Members = slices.Clone(w.Members)
	for i := range c.Members {
		j := *c.Members[i].Job
		c.Members[i].Job = &j
	}
	return c
}

// call makes a call about workflows. The store draws the ids of members, so the prediction follows
// the call. An answer that is lost needs no fault of its own: no answer is used.
func (r wholes) call(what string, call func() error, predict func() (code string)) {
	f := r.fault(faulty.Down, faulty.Twice)
	r.store.Next = faulty.None // these calls do not go through the faulty store
	r.result.Calls++
	clear(r.m.Touched)
	r.m.Edges.Deep = false
	for range map[faulty.Fault]int{faulty.None: 1, faulty.Twice: 2}[f] {
		r.tick()
		err := call()
		want := predict()
		flush(r.run)
		r.say("%s → %v", what, err)
		if !sameCode(err, want) {
			r.fail("%s: the error is %v, want %q", what, err, want)
		}
	}
	r.look()
}

// stored predicts the members of a call. Their ids are those that the store has drawn; a call that
// was refused has drawn none that anyone knows.
func (r wholes) stored(name string, known *model.Whole, ms []workflow.Member) (code string) {
	ids := map[string]sojourn.ID{}
	listed, err := r.keeper().WorkflowMembers(r.ctx, name, workflow.MemberQuery{Limit: sojourn.MaxFind})
	if err != nil && sojourn.ErrorCode(err) != sojourn.CodeNotFound {
		r.fail("WorkflowMembers %s: %v", name, err)
	}
	for _, m := range listed {
		ids[m.Name] = m.Job
	}
	jobs := make([]sojourn.Job, len(ms))
	blocks := len(r.m.Blocks)
	for i, m := range ms {
		jobs[i] = *m.Job
		if jobs[i].ID = ids[m.Name]; jobs[i].ID == 0 {
			jobs[i].ID = sojourn.ID(1<<50 + i)
		}
		ids[m.Name] = jobs[i].ID
		r.m.Blocks = append(r.m.Blocks, model.Block{First: jobs[i].ID, Size: 1, Leased: r.m.Now})
		jobs[i].Depends = slices.Clone(jobs[i].Depends)
		for _, n := range m.After {
			d := sojourn.Dependency{Jobs: []sojourn.ID{ids[n]}, OnFailure: m.OnFailure[n]}
			d.MissingOK = known != nil && known.Gone[ids[n]] == sojourn.Completed
			jobs[i].Depends = append(jobs[i].Depends, d)
		}
	}
	if _, code = r.m.Enqueue(jobs, false); code != "" {
		r.m.Blocks = r.m.Blocks[:blocks]
		return code
	}
	for i := range jobs {
		r.m.NextID = max(r.m.NextID, jobs[i].ID+1)
		r.ledger.acked[jobs[i].ID] = true
		ms[i].Job.ID = jobs[i].ID
	}
	return ""
}

// join makes stored jobs members in the model.
func (r wholes) join(w *model.Whole, ms []workflow.Member) {
	for i := range ms {
		model.WholesOf(r.m).Add(w, ms[i].Name, ms[i].Job.ID)
		ms[i].Job.ID = 0
	}
}

// textOf lists members for the log.
func textOf(ms []workflow.Member) (text string) {
	for _, m := range ms {
		text += " " + m.Name
		if len(m.After) > 0 {
			text += fmt.Sprint(" after ", m.After, " ", m.OnFailure)
		}
		text += after(m.Job.Depends)
	}
	return text
}

// areAsTheyMustBe compares the workflows and their callbacks. The store adds ends up after the call
// that they belong to, so this waits for them.
func (r wholes) areAsTheyMustBe() {
	if len(r.m.Whole) == 0 {
		return
	}
	want := r.wanted()
	for tries := 0; ; time.Sleep(time.Millisecond) {
		got := r.shown()
		if got == want {
			return
		}
		if tries++; tries > r.patience {
			r.fail("the workflows are not as they must be (inv:E5)\n%s", model.Difference(got, want))
		}
	}
}

// wholeForm is a workflow as text, and callForm one of its callbacks.
const (
	wholeForm = "%s is %s, generation %d, %d members: completed %d, failed %d, cancelled %d"
	callForm  = "; %s in generation %d"
	endForm   = " as %s with %d completed, %d failed, %d cancelled"
)

func (r wholes) wanted() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.m.Whole)) {
		w := r.m.Whole[name]
		text := fmt.Sprintf(wholeForm, name, w.State, w.Generation, len(w.Members), w.Counts[sojourn.Completed], w.Counts[sojourn.Failed], w.Counts[sojourn.Cancelled])
		for _, c := range w.FailCalls {
			text += fmt.Sprintf(callForm, "failed", c.Generation)
		}
		for _, c := range w.EndCalls {
			text += fmt.Sprintf(callForm+endForm, "ended", c.Generation, c.State, c.Completed, c.Failed, c.Cancelled)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func (r wholes) shown() string {
	list, err := r.keeper().Workflows(r.ctx, workflow.Query{Limit: sojourn.MaxFind})
	if err != nil {
		r.fail("Workflows: %v", err)
	}
	calls, err := r.store.Find(r.ctx, sojourn.Filter{Queue: callbackQueue, Limit: sojourn.MaxFind, Full: true})
	if err != nil {
		r.fail("Find the callbacks: %v", err)
	}
	slices.SortFunc(calls, func(a, b sojourn.Job) int { return int(a.ID - b.ID) })
	var out []string
	for _, w := range list {
		text := fmt.Sprintf(wholeForm, w.Name, w.State, w.Generation, w.Total, w.Counts[sojourn.Completed], w.Counts[sojourn.Failed], w.Counts[sojourn.Cancelled])
		for _, kind := range []string{"failed", "ended"} {
			for _, j := range calls {
				if j.Workflow != w.Name || j.Kind != kind {
					continue
				}
				m := func(key string) string { return j.Meta["workflow_"+key] }
				text += fmt.Sprintf("; %s in generation %s", kind, m("generation"))
				if kind == "ended" {
					text += fmt.Sprintf(" as %s with %s completed, %s failed, %s cancelled", m("state"), m("completed"), m("failed"), m("cancelled"))
				}
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// membersAre compares the members of all workflows.
func (r wholes) membersAre() {
	for _, name := range slices.Sorted(maps.Keys(r.m.Whole)) {
		w := r.m.Whole[name]
		listed, err := r.keeper().WorkflowMembers(r.ctx, name, workflow.MemberQuery{Limit: sojourn.MaxFind})
		if err != nil || len(listed) != len(w.Members) {
			r.fail("WorkflowMembers %s: %v, and %d of %d", name, err, len(listed), len(w.Members))
		}
		for _, m := range listed {
			state, id := w.Gone[m.Job], w.Members[m.Name]
			if j := r.m.Jobs[id]; j != nil {
				state = j.State
			}
			if m.Job != id || m.State != state {
				r.fail("member %s of workflow %s is job %d, %s; want job %d, %s", m.Name, name, m.Job, m.State, id, state)
			}
		}
	}
}

// closeAll lets all workflows end.
func (r wholes) closeAll() {
	for _, name := range slices.Sorted(maps.Keys(r.m.Whole)) {
		r.change(r.m.Whole[name], workflow.ActionClose)
	}
}

// allOver wants all workflows to have ended.
func (r wholes) allOver() {
	for _, w := range r.m.Whole {
		if !w.State.Final() {
			r.fail("workflow %s is %s, and no job is live", w.Name, w.State)
		}
	}
}
