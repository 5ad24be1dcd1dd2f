// Package workflows stores named groups of jobs, shows them, and cancels and redrives them as a
// whole. Package member counts the ends of their members.
//
// A cancel or a redrive of a large workflow runs in slices, each a transaction. What is to be done,
// and up to which member it is done, stands in the row of the workflow. So it goes on after a
// crash: any sweep continues it. While it runs, the end of the whole is not decided.
package workflows

import (
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Keeper keeps the workflows of one store. Safe for concurrent use.
type Keeper struct {
	core     *txn.Core
	hub      *wake.Hub
	enqueuer *enqueue.Enqueuer
	counter  *member.Counter
	startOp  *txn.Op[startRequest, answer]
	appendOp *txn.Op[appendRequest, answer]
	changeOp *txn.Op[changeRequest, answer]
	sliceOp  *txn.Op[int64, bool]
	removeOp *txn.Op[int64, bool]
}

// New makes the keeper of a store; e stores members, m counts their ends, and h wakes calls that
// wait for the end of a workflow.
func New(c *txn.Core, h *wake.Hub, e *enqueue.Enqueuer, m *member.Counter) *Keeper {
	s := &Keeper{core: c, hub: h, enqueuer: e, counter: m}
	s.startOp = txn.EachOp("start workflow", groupcommit.Enqueue, s.start)
	s.appendOp = txn.EachOp("append to workflow", groupcommit.Enqueue, s.add)
	s.changeOp = txn.EachOp("change workflow", groupcommit.Finish, s.change)
	s.sliceOp = txn.EachOp("slice of workflow", groupcommit.Finish, s.slice)
	s.removeOp = txn.EachOp("remove workflow", groupcommit.Enqueue, s.remove)
	return s
}

// answer is a workflow, or the refusal of a call, which was found before any write.
type answer struct {
	row       *member.Row
	duplicate bool
	txn.Refusal
}

func refused(err error) (answer, error) { return answer{Refusal: txn.Refusal{Err: err}}, nil }

// status is the answer for the caller.
func (a answer) status() workflow.Status {
	s := a.row.Status()
	s.Duplicate = a.duplicate
	return s
}

func notFound(name string) error { return sojourn.NotFound("there is no workflow %.64q", name) }

func forbidden(verb access.Verb, queue, kind string) error {
	return &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to " + string(verb) + " in queue " + queue + ", kind " + kind}
}

// scope is where members of a workflow are.
type scope struct{ queue, kind string }

const qScopes = `select queue, kind from sj_workflow_scope where workflow = $1`

// allows returns those of some verbs that a caller may use on all members of a workflow. One
// without members is its owner's.
func allows(t *txn.Tx, c *access.Caller, w *member.Row, verbs ...access.Verb) (may []access.Verb, err error) {
	if c == nil {
		return verbs, nil
	}
	may, none := slices.Clone(verbs), true
	err = t.Read(qScopes, func(r sqldb.Row) error {
		none = false
		may = slices.DeleteFunc(may, func(v access.Verb) bool { return !c.Allows(v, r.Text(0), r.Text(1)) })
		return nil
	}, w.ID)
	if none && c.Token != w.Owner {
		return nil, err
	}
	return may, err
}

// check refuses a caller that may not use a verb on all members: as if the workflow did not exist,
// unless it may read or enqueue all of them.
func check(t *txn.Tx, c *access.Caller, w *member.Row, name string, verb access.Verb) (refusal, err error) {
	if w == nil {
		return notFound(name), nil
	}
	may, err := allows(t, c, w, access.VerbRead, access.VerbEnqueue, verb)
	switch {
	case err != nil || slices.Contains(may, verb):
		return nil, err
	case len(may) == 0:
		return notFound(name), nil
	}
	return &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to " + string(verb) + " all members of workflow " + name}, nil
}

// SweepWorkflows goes on with what other processes have left: ends that are not added up, callbacks
// that were refused, cancels, redrives, and workflows that are kept no longer.
func (s *Keeper) SweepWorkflows(ctx context.Context) error {
	if err := s.counter.Sweep(ctx); err != nil {
		return err
	}
	var due []*member.Row
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		due = nil
		return t.Read(qDue, func(r sqldb.Row) error { due = append(due, member.Scan(r)); return nil }, t.Now, dueAtOnce)
	}); err != nil {
		return err
	}
	for _, w := range due {
		var err error
		switch {
		case w.State == member.StateRemoved || w.IsFinal() && w.Doing == 0 && w.Ended+w.Keep <= w.Due:
			err = repeat(ctx, s.core, s.removeOp, w.ID)
		case w.Doing != 0:
			err = repeat(ctx, s.core, s.sliceOp, w.ID)
		default:
			err = s.counter.FoldNow(ctx, w.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const qDue = `select ` + member.Columns + ` from sj_workflow w where w.due_us <= $1 and w.due_us < 9223372036854775807 order by w.due_us, w.id limit $2`

// dueAtOnce bounds the due workflows of one sweep.
const dueAtOnce = 100

// repeat runs an op on a workflow until it has nothing left to do.
func repeat(ctx context.Context, c *txn.Core, op *txn.Op[int64, bool], id int64) error {
	for {
		more, err := txn.Do(ctx, c, op, sliceRows, id)
		if err != nil || !more {
			return err
		}
	}
}

const (
	qRemoving      = `update sj_workflow set state = 10, doing = 0, due_us = $1 where id = $2 and (state = 10 or state >= 7 and ended_us + keep_us <= $1)`
	qRemoveMembers = `delete from sj_member where workflow = $1 and name in (select name from sj_member where workflow = $1 order by name limit $2)`
	qRemoveScopes  = `delete from sj_workflow_scope where workflow = $1`
	qRemoveEnds    = `delete from sj_workflow_end where workflow = $1`
	qRemove        = `delete from sj_workflow where id = $1 and state = 10`
)

// remove deletes a slice of a workflow that is kept no longer, and reports whether there is more.
func (s *Keeper) remove(t *txn.Tx, id int64) (more bool, err error) {
	n, err := t.Write(qRemoving, t.Now, id)
	if err != nil || n == 0 {
		return false, err
	}
	if n, err = t.Write(qRemoveMembers, id, 2*sliceRows); err != nil || n > 0 {
		return true, err
	}
	for _, q := range []string{qRemoveScopes, qRemoveEnds, qRemove} {
		if _, err := t.Write(q, id); err != nil {
			return false, err
		}
	}
	return false, nil
}
