package edge

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// In qOfMember, member is 1 for a parent whose turn has come at $3, 2 for one that comes later.
	qOfMember = `select e.parent, e.on_failure, coalesce((select case when m.name <= $3 then 1 else 2 end from sj_member m
		where m.job = e.parent and m.workflow = $2), 0) as member from sj_edge e where e.child = $1 order by e.parent`
	qReopen = `update sj_edge set open = 1 /*from each*/ where child = each($1 bigint) and parent = each($2 bigint) /*hit child*/`
)

// Redrive is the redrive of all members of a workflow, in the order of their names.
type Redrive struct {
	Workflow int64
	Last     string // the turn of the members up to this name has come
	// Stayed are failed and cancelled members that stay so after their turn. Post ends them once
	// more, for those that wait for them.
	Stayed map[sojourn.ID]sojourn.State
}

// Again opens the edges of a final member that is redriven: those to jobs that are live, and to
// failed and cancelled members, which are redriven too unless they stay as they are. It returns how
// many keep the member blocked.
func (r *Redrive) Again(t *txn.Tx, child sojourn.ID) (open int32, err error) {
	type from struct {
		parent                 sojourn.ID
		waits, isMember, tried bool
	}
	var edges []from
	var ids []sojourn.ID
	if err := t.Read(qOfMember, func(row sqldb.Row) error {
		e := from{sojourn.ID(row.Int(0)), onFailure[row.Int(1)] == sojourn.WaitOnFailure, row.Int(2) > 0, row.Int(2) == 1}
		edges, ids = append(edges, e), append(ids, e.parent)
		return nil
	}, int64(child), r.Workflow, r.Last); err != nil || len(edges) == 0 {
		return 0, err
	}
	parents, err := Lock(t, ids, nil)
	if err != nil {
		return 0, err
	}
	var children, opened, flags sqldb.Ints
	for _, e := range edges {
		state, final := parents.final[e.parent]
		l := parents.live[e.parent]
		if l == nil && (!final || state == sojourn.Completed || !e.waits && !e.isMember) {
			continue
		}
		switch {
		case l == nil && e.tried:
			r.Stayed[e.parent] = state
		case l != nil && !l.Dependents:
			flags = append(flags, int64(l.ID))
		}
		children, opened, open = append(children, int64(child)), append(opened, int64(e.parent)), open+1
	}
	if err := t.WriteBulk(qReopen, func(int64) {}, children, opened); err != nil {
		return 0, err
	}
	return open, flag(t, flags)
}
