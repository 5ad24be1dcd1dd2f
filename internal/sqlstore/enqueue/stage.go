package enqueue

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// NextStage decides whether a job may go on in the queue of an outcome with the type advance, and
// creates the queue if it does not exist. As with a new job, the queue must be one that the caller
// may enqueue to, and be open together with the job's own windows. Neither its limit nor max_depth
// refuses anything (rules:C7). An error with a code refuses the outcome, and nothing is written.
func NextStage(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, c *access.Caller) error {
	if err := sojourn.ValidRunAt(o.RunAt, jobrow.Time(t.Now)); err != nil {
		return err
	}
	queue := o.Queue
	if queue == "" || queue == was.Queue {
		return nil
	}
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
