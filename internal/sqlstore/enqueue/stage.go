package enqueue

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Stage is what an outcome with the type advance needs beside the job's row.
type Stage struct {
	Open  int32 // dependencies that are open
	links edge.Links
}

// Write stores the dependencies.
func (s *Stage) Write(t *txn.Tx) error { return s.links.Write(t) }

// NextStage decides whether a job may go on in the queue of an outcome with the type advance, and
// creates the queue if it does not exist. As with a new job, the queue must be one that the caller
// may enqueue to, and be open together with the job's own windows. Neither its limit nor max_depth
// refuses anything (rules:C7). Dependencies are those of the stage. An error with a code refuses
// the outcome, and nothing is written.
func NextStage(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, c *access.Caller) (*Stage, error) {
	s := &Stage{}
	if err := sojourn.ValidRunAt(o.RunAt, jobrow.Time(t.Now)); err != nil {
		return nil, err
	}
	if err := s.link(t, was, o, c); err != nil {
		return nil, err
	}
	if o.Queue == "" || o.Queue == was.Queue {
		return s, nil
	}
	return s, nextQueue(t, was, o.Queue, c)
}

// link decides the dependencies of the stage.
func (s *Stage) link(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, c *access.Caller) error {
	wants := edge.Wants(o.Depends, edge.Itself)
	if len(wants) == 0 {
		return nil
	}
	ids := make([]sojourn.ID, len(wants))
	for i, w := range wants {
		ids[i] = w.Parent
	}
	if err := edge.LockCycles(t); err != nil { // the job may have dependents already
		return err
	}
	if err := edge.CheckCycle(t, was.ID, edge.Only(was.ID, ids)); err != nil {
		return err
	}
	parents, err := edge.Lock(t, ids, c)
	if err != nil {
		return err
	}
	for _, w := range wants {
		open, err := s.links.Add(parents, was.ID, w)
		if err != nil {
			return err
		}
		if open {
			s.Open++
		}
	}
	return nil
}

// nextQueue decides whether a job may go on in another queue, and creates that if need be.
func nextQueue(t *txn.Tx, was *jobrow.Row, queue string, c *access.Caller) error {
	if err := MayFollow(c, queue, was.Kind); err != nil {
		return err
	}
	q, err := t.ReadQueue(queue)
	if err != nil {
		return err
	}
	j := sojourn.Job{Policy: was.Policy, RunAt: jobrow.Time(t.Now)}
	if err := gate.CheckWindows(t, &j, q.Windows); err != nil {
		return err
	}
	t.AssumeSettings(queue, q.Layout)
	if q.Found {
		return nil
	}
	if t.Core.Cfg.Declared {
		return sojourn.NotFound("there is no queue %s, and this store takes jobs only for queues that were made with DeclareQueue or queue set", queue)
	}
	b := Batch{Tx: t, callPlan: &callPlan{caller: c}}
	if err := b.createQueue(queue); err != nil {
		return err
	}
	b.insertQueues([]*callPlan{b.callPlan})
	return nil
}

// MayFollow refuses a queue to the jobs and stages that follow a step of a caller, unless it may
// enqueue there itself. The error refuses the outcome, and not the other outcomes of its call.
func MayFollow(c *access.Caller, queue, kind string) error {
	if c.Allows(access.VerbEnqueue, queue, kind) {
		return nil
	}
	return &sojourn.Error{Code: access.CodeScope, Field: "queue", Index: -1,
		Message: fmt.Sprintf("the worker's token has no grant to enqueue jobs of kind %.64q into queue %.64q: use another queue, or give it the grant", kind, queue)}
}
