package enqueue

import (
	"errors"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qChildren = `select name, child from sj_child where parent = $1 and generation = $2 and stage = $3 and name in (texts($4))`
	qAddChild = `insert into sj_child (parent, generation, stage, child, name) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 text)`
)

// Children are the jobs that a step stores and awaits (docs/decisions/059-awaited-children.md).
// Those whose names were stored before in this stage are the same jobs.
type Children struct {
	Open int32 // how many are not final

	tx     *txn.Tx
	parent *jobrow.Row
	jobs   []sojourn.Job
	ids    []sojourn.ID // of the jobs, as they are or will be stored; 0 while it is not decided
	at     []int        // the indices of the jobs that are new
	batch  *Batch       // of these; nil without any
	links  edge.Links
	drawn  txn.Block // ids that the store has given to children without one
}

// PlanChildren decides the children of an outcome with the type await_jobs. drawn are ids that the
// store has given to those without one. It only reads. An error with a code refuses the outcome.
func (s *Enqueuer) PlanChildren(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, c *access.Caller, drawn txn.Block) (*Children, error) {
	k := &Children{tx: t, parent: was, jobs: o.Next, drawn: drawn, ids: make([]sojourn.ID, len(o.Next))}
	if len(o.Next) == 0 {
		return k, nil
	}
	if err := k.findStored(); err != nil {
		return nil, err
	}
	for i, id := range k.ids {
		if id != 0 {
			continue
		}
		if err := MayFollow(c, o.Next[i].Queue, o.Next[i].Kind); err != nil {
			return nil, sojourn.AtIndex(i, err)
		}
		k.at = append(k.at, i)
	}
	if err := k.planNew(s, c); err != nil {
		return nil, err
	}
	if err := k.link(); err != nil {
		return nil, err
	}
	if was.ChildrenDone && k.Open == 0 && len(k.at) == 0 {
		return nil, sojourn.Invalid("children", "are all final already: look at Job.ChildrenDone before AwaitJobs, and give other children other names")
	}
	return k, nil
}

// findStored finds the children that this stage has stored before.
func (k *Children) findStored() error {
	names := make(sqldb.Texts, len(k.jobs))
	at := map[string]int{}
	for i := range k.jobs {
		names[i], at[k.jobs[i].Name] = k.jobs[i].Name, i
	}
	return k.tx.Read(qChildren, func(r sqldb.Row) error { k.ids[at[r.Text(0)]] = sojourn.ID(r.Int(1)); return nil },
		int64(k.parent.ID), int64(k.parent.Generation), int64(k.parent.Stage), names)
}

// planNew plans the enqueue of the new children.
func (k *Children) planNew(s *Enqueuer, c *access.Caller) error {
	if len(k.at) == 0 {
		return nil
	}
	jobs := make([]sojourn.Job, len(k.at))
	for n, i := range k.at {
		jobs[n] = k.jobs[i]
	}
	req := Request{Jobs: jobs, Digests: jobrow.Digests(jobs, c), Caller: c, NotJSON: JSONErrors(k.tx.Core, jobs)}
	k.batch = &Batch{Tx: k.tx, Enqueuer: s, Requests: []Request{req}, Follows: true}
	k.batch.Drawn(k.drawn)
	if err := k.batch.ReadAll(k.batch.Reads()); err != nil {
		return err
	}
	done, err := k.batch.Plan(req)
	if e, ok := errors.AsType[*sojourn.Error](err); ok && e.Index >= 0 {
		err = sojourn.AtIndex(k.at[e.Index], err)
	}
	if err != nil {
		return err
	}
	for n, i := range k.at {
		k.ids[i] = done[n].ID
	}
	return nil
}

// link decides the edges. A child may be a job that exists: one that was stored before, or the
// holder of its key, on which the caller may enqueue.
func (k *Children) link() error {
	stored := map[sojourn.ID]bool{} // → whether this call stores it
	for _, id := range k.ids {
		stored[id] = false
	}
	var above []sojourn.ID // what could depend on the parent
	for n, i := range k.at {
		if d := k.batch.done[n]; d.ID == k.jobs[i].ID && !d.Duplicate {
			stored[d.ID] = true
			for _, w := range edge.Wants(k.jobs[i].Depends, edge.Itself) {
				above = append(above, w.Parent)
			}
		}
	}
	var existing []sojourn.ID
	for id, isNew := range stored {
		if !isNew {
			existing = append(existing, id)
		}
	}
	above = slices.DeleteFunc(append(above, existing...), func(id sojourn.ID) bool { return stored[id] })
	if err := k.checkCycle(above); err != nil {
		return err
	}
	parents, err := edge.Lock(k.tx, existing, nil)
	if err != nil {
		return err
	}
	want := edge.Want{OnFailure: sojourn.IgnoreFailure, MissingOK: true, Awaited: true}
	for _, id := range distinct(k.ids) {
		want.Parent = id
		open := stored[id]
		if open {
			k.links.AddNew(k.parent.ID, want)
			k.batch.depend(id)
		} else if open, err = k.links.Add(parents, k.parent.ID, want); err != nil {
			return err
		}
		if open {
			k.Open++
		}
	}
	return nil
}

// checkCycle refuses children that wait for their parent, over any number of jobs.
func (k *Children) checkCycle(above []sojourn.ID) error {
	if len(above) == 0 {
		return nil
	}
	if err := edge.LockCycles(k.tx); err != nil {
		return err
	}
	return edge.CheckCycle(k.tx, k.parent.ID, edge.Only(k.parent.ID, above))
}

// depend notes that an edge names a job of the current call as the parent.
func (p *callPlan) depend(id sojourn.ID) {
	if p.linked == nil {
		p.linked = map[sojourn.ID]link{}
	}
	l := p.linked[id]
	l.dependents = true
	p.linked[id] = l
}

// distinct returns the ids ascending, without repeats.
func distinct(ids []sojourn.ID) []sojourn.ID {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// Write stores the children, their edges and their names. The row of the parent was saved.
func (k *Children) Write() error {
	if k.batch != nil {
		if err := k.batch.WriteJobs(); err != nil {
			return err
		}
	}
	if err := k.links.Write(k.tx); err != nil {
		return err
	}
	names := jobrow.NewColumns(len(k.at), 3, 1, 0)
	for _, i := range k.at {
		names.Row(int64(k.parent.ID)).Ints(int64(k.parent.Generation), int64(k.parent.Stage), int64(k.ids[i])).Strings(k.jobs[i].Name)
	}
	k.tx.AddColumns(qAddChild, 0, "", names)
	return nil
}
