package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/workflow"
)

const (
	qPage = `select ` + member.Columns + ` from sj_workflow w where w.name > $1 and w.name >= $2 order by w.name limit $3`
	qOne  = `select ` + member.Columns + ` from sj_workflow w where w.name = $1`
	// qEnds sums the ends that are not in the counts yet.
	qEnds = `select coalesce(sum(completed), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled), 0) from sj_workflow_end where workflow = $1`
	// qLive looks up each member: a join without statistics may compare all members with all jobs.
	qLive = `select a.state, count(*) from (select coalesce((select l.state from sj_live l where l.id = m.job), 0) as state from sj_member m where m.workflow = $1) a
		group by a.state`
)

// Workflows lists workflows; see workflow.Store.
func (s *Keeper) Workflows(ctx context.Context, q workflow.Query) (out []workflow.Status, err error) {
	if err := sojourn.ValidLimit(q.Limit); err != nil {
		return nil, err
	}
	if len(q.Names) > sojourn.MaxFind {
		return nil, sojourn.Invalid("names", "%d names exceed the limit of %d a call", len(q.Names), sojourn.MaxFind)
	}
	for _, state := range q.States {
		if _, err := workflow.ParseState(string(state)); err != nil {
			return nil, err
		}
	}
	if q.Wait < 0 || q.Wait > 0 && len(q.Names) != 1 {
		return nil, sojourn.Invalid("wait", "is not negative, and goes with one name")
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	c := access.CallerOf(ctx)
	read := func() (done bool, err error) {
		err = s.core.View(ctx, func(t *txn.Tx) (err error) {
			out, err = list(t, c, q)
			return err
		})
		return len(out) == 1 && out[0].State.Final(), err
	}
	if q.Wait == 0 {
		_, err = read()
		return out, err
	}
	var id int64
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		return t.Read(qOne, func(r sqldb.Row) error { id = r.Int(0); return nil }, q.Names[0])
	}); err != nil {
		return nil, err
	}
	// The number of a workflow is no id of a job, so it wakes this call alone.
	err = s.hub.Block(ctx, &wake.Waiter{IDs: []sojourn.ID{sojourn.ID(id)}}, q.Wait, read)
	return out, err
}

func list(t *txn.Tx, c *access.Caller, q workflow.Query) (out []workflow.Status, err error) {
	for _, name := range q.Names {
		one, err := showOne(t, c, name)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if len(q.Names) > 0 {
		return out, nil
	}
	return page(t, c, q)
}

// showOne shows a workflow with the numbers of its members by state.
func showOne(t *txn.Tx, c *access.Caller, name string) (out workflow.Status, err error) {
	var w *member.Row
	if err := t.Read(qOne, func(r sqldb.Row) error { w = member.Scan(r); return nil }, name); err != nil {
		return out, err
	}
	if w != nil && w.State == member.StateRemoved {
		w = nil
	}
	refusal, err := check(t, c, w, name, access.VerbRead)
	if refusal != nil || err != nil {
		return out, first(err, refusal)
	}
	if err := addEnds(t, w); err != nil {
		return out, err
	}
	out = w.Status()
	return out, t.Read(qLive, func(r sqldb.Row) error {
		if state := sojourn.State(r.Int(0)); state != 0 { // 0: it is final
			out.Counts[state] = r.Int(1)
		}
		return nil
	}, w.ID)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// addEnds adds the ends to a row that are not in its counts yet. It does not write it.
func addEnds(t *txn.Tx, w *member.Row) error {
	return t.Read(qEnds, func(r sqldb.Row) error {
		w.Completed, w.Failed, w.Cancelled = w.Completed+r.Int(0), w.Failed+r.Int(1), w.Cancelled+r.Int(2)
		return nil
	}, w.ID)
}

// page reads on until the page is full, because a caller may see few of many workflows.
func page(t *txn.Tx, c *access.Caller, q workflow.Query) (out []workflow.Status, err error) {
	for after := q.After; ; {
		var rows []*member.Row
		if err := t.Read(qPage, func(r sqldb.Row) error { rows = append(rows, member.Scan(r)); return nil }, after, q.Prefix, q.Limit); err != nil {
			return nil, err
		}
		for _, w := range rows {
			after = w.Name
			if !strings.HasPrefix(w.Name, q.Prefix) {
				return out, nil
			}
			may, err := allows(t, c, w, access.VerbRead)
			if err != nil {
				return nil, err
			}
			if len(may) == 0 || w.State == member.StateRemoved || len(q.States) > 0 && !slices.Contains(q.States, w.Status().State) {
				continue
			}
			if err := addEnds(t, w); err != nil {
				return nil, err
			}
			if out = append(out, w.Status()); len(out) == q.Limit {
				return out, nil
			}
		}
		if len(rows) < q.Limit {
			return out, nil
		}
	}
}

// qMembers lists members with their jobs. A deleted job has the state in which it ended.
const qMembers = `select m.name, m.job, coalesce(l.state, f.state, m.state), coalesce(l.kind, f.kind, ''), coalesce(l.queue, f.queue, ''), coalesce(f.reason, '') from sj_member m
	left join sj_live l on l.id = m.job left join sj_final f on f.id = m.job where m.workflow = $1 and m.name > $2`

// WorkflowMembers lists the members of a workflow; see workflow.Store.
func (s *Keeper) WorkflowMembers(ctx context.Context, name string, q workflow.MemberQuery) (out []workflow.MemberStatus, err error) {
	if err := sojourn.ValidLimit(q.Limit); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		var w *member.Row
		if err := t.Read(qOne, func(r sqldb.Row) error { w = member.Scan(r); return nil }, name); err != nil {
			return err
		}
		refusal, err := check(t, access.CallerOf(ctx), w, name, access.VerbRead)
		if refusal != nil || err != nil {
			return first(err, refusal)
		}
		args, states := []any{w.ID, q.After}, ""
		if q.States != nil {
			numbers := sqldb.Ints{}
			for _, state := range q.States {
				numbers = append(numbers, int64(state))
			}
			args, states = append(args, numbers), " and coalesce(l.state, f.state, m.state) in (ints($3))"
		}
		return t.Read(qMembers+states+fmt.Sprintf(" order by m.name limit $%d", len(args)+1), func(r sqldb.Row) error {
			out = append(out, workflow.MemberStatus{Name: r.Text(0), Job: sojourn.ID(r.Int(1)), State: sojourn.State(r.Int(2)), Kind: r.Text(3), Queue: r.Text(4), Reason: r.Text(5)})
			return nil
		}, append(args, q.Limit)...)
	})
	return out, err
}
