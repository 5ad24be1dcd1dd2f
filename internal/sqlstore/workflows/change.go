package workflows

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/operate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/workflow"
)

// sliceRows is the number of members of one transaction, so that other requests run in between.
const sliceRows = 500

// changeRequest carries out an action for a caller.
type changeRequest struct {
	name, reason string
	action       workflow.Action
	caller       *access.Caller
}

// ChangeWorkflow closes, cancels or redrives a workflow; see workflow.Store.
func (s *Keeper) ChangeWorkflow(ctx context.Context, name string, a workflow.Action, reason string) (workflow.Status, error) {
	if err := sojourn.ValidName("name", name); err != nil {
		return workflow.Status{}, err
	}
	if a != workflow.ActionClose && a != workflow.ActionCancel && a != workflow.ActionRedrive {
		return workflow.Status{}, sojourn.Invalid("action", "%.64q is none of close, cancel and redrive", string(a))
	}
	out, err := txn.Do(ctx, s.core, s.changeOp, 1, changeRequest{name, sojourn.Cut(reason, sojourn.MaxReason), a, access.CallerOf(ctx)})
	if err == nil {
		err = out.Err
	}
	if err != nil {
		return workflow.Status{}, err
	}
	if out.row.Doing == 0 {
		return out.status(), nil
	}
	if err := repeat(ctx, s.core, s.sliceOp, out.row.ID); err != nil { // the sweep goes on
		return workflow.Status{}, err
	}
	if err := s.counter.FoldNow(ctx, out.row.ID); err != nil {
		return workflow.Status{}, err
	}
	var after workflow.Status
	err = s.core.View(ctx, func(t *txn.Tx) (err error) {
		after, err = showOne(t, nil, name)
		return err
	})
	return after, err
}

// change begins an action, and carries out a close.
func (s *Keeper) change(t *txn.Tx, r changeRequest) (answer, error) {
	w, err := member.Lock(t, r.name)
	if err != nil {
		return answer{}, err
	}
	verb := access.VerbOperate
	if r.action == workflow.ActionClose {
		verb = access.VerbEnqueue
	}
	if refusal, err := check(t, r.caller, w, r.name, verb); refusal != nil || err != nil {
		return answer{Refusal: txn.Refusal{Err: refusal}}, err
	}
	if _, err := s.counter.Fold(t, w); err != nil {
		return answer{}, err
	}
	open := w.State == member.StateOpen
	switch {
	case r.action == workflow.ActionClose && !open, r.action == workflow.ActionCancel && (w.IsFinal() || w.Doing == member.CancelsBlocked || w.Doing == member.Cancels):
		return answer{row: w}, nil // it is so already
	case r.action == workflow.ActionClose:
		w.State = member.StateRunning
	case r.action == workflow.ActionCancel:
		if open {
			w.State = member.StateRunning
		}
		w.Doing = member.CancelsBlocked
	case w.Doing == member.Redrives, w.Failed+w.Cancelled == 0:
		return answer{row: w}, nil
	case w.Doing != 0:
		return refused(sojourn.Conflict("workflow %s is being cancelled; redrive it when that is done", w.Name))
	default:
		member.ReopenWhole(w)
		w.Doing = member.Redrives
	}
	if r.action != workflow.ActionClose {
		w.Done, w.Reason, w.By, w.Problem = "", r.reason, r.caller.Owner(), ""
	}
	if err := w.Update(t); err != nil {
		return answer{}, err
	}
	_, err = s.counter.Fold(t, w) // after a close all members may be final
	return answer{row: w}, err
}

const qNextMembers = `select name, job from sj_member where workflow = $1 and name > $2 and state = 0 order by name limit $3`

// slice does a part of a cancel or a redrive, and reports whether there is more.
func (s *Keeper) slice(t *txn.Tx, id int64) (more bool, err error) {
	w, err := member.LockID(t, id)
	if err != nil || w == nil || w.Doing == 0 {
		return false, err
	}
	t.ReleaseInserts()
	var ids sqldb.Ints
	if err := t.Read(qNextMembers, func(r sqldb.Row) error { w.Done, ids = r.Text(0), append(ids, r.Int(1)); return nil }, w.ID, w.Done, sliceRows); err != nil {
		return false, err
	}
	by := "workflow:" + w.Name
	if w.By != "" {
		by = w.By
	}
	switch {
	case len(ids) == 0:
	case w.Doing == member.Redrives:
		var refusal error
		if refusal, err = operate.RedriveMembers(t, w.ID, w.Done, ids, by, w.Reason); refusal != nil {
			w.Problem = sojourn.Cut(refusal.Error(), sojourn.MaxReason)
		}
	default:
		err = cancel(t, ids, w.Doing == member.CancelsBlocked, by, w.Reason)
	}
	if err != nil {
		return false, err
	}
	if len(ids) < sliceRows {
		w.Done = ""
		if w.Doing == member.CancelsBlocked {
			w.Doing = member.Cancels
		} else {
			w.Doing, w.Reason, w.By = 0, "", ""
		}
	}
	if err := w.Update(t); err != nil {
		return false, err
	}
	if w.Doing != 0 {
		return true, nil
	}
	s.counter.Flush(t)
	_, err = s.counter.Fold(t, w) // all members may be final
	return false, err
}

// cancel ends those of some jobs that are live, or blocked.
func cancel(t *txn.Tx, ids sqldb.Ints, blocked bool, by, reason string) error {
	rows, err := t.Load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		was := rows[sojourn.ID(id)]
		if was == nil || blocked && was.State != sojourn.Blocked {
			continue
		}
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventCancel, Reason: reason})
		if err != nil {
			return err
		}
		if _, err := lifecycle.Apply(t, was, tr, lifecycle.Change{By: by}); err != nil {
			return err
		}
	}
	return nil
}
