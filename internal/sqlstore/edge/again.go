package edge

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qOfMember = `select e.parent, e.on_failure, e.open, (select count(*) from sj_member m where m.job = e.parent and m.workflow = $2) from sj_edge e
		where e.child = $1 order by e.parent`
	qReopen = `update sj_edge set open = 1 /*from each*/ where child = each($1 bigint) and parent = each($2 bigint) /*hit child*/`
)

// Again opens the edges of a final member of a workflow that is redriven together with the others:
// those to jobs that are live, and to failed and cancelled members, which are redriven too. It
// returns how many keep the member blocked.
func Again(t *txn.Tx, child sojourn.ID, workflow int64) (open int32, err error) {
	type from struct {
		parent          sojourn.ID
		waits, isMember bool
	}
	var edges []from
	var ids []sojourn.ID
	if err := t.Read(qOfMember, func(r sqldb.Row) error {
		e := from{sojourn.ID(r.Int(0)), onFailure[r.Int(1)] == sojourn.WaitOnFailure, r.Int(3) > 0}
		edges, ids = append(edges, e), append(ids, e.parent)
		return nil
	}, int64(child), workflow); err != nil || len(edges) == 0 {
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
		if l != nil && !l.Dependents {
			flags = append(flags, int64(l.ID))
		}
		children, opened, open = append(children, int64(child)), append(opened, int64(e.parent)), open+1
	}
	if err := t.WriteBulk(qReopen, func(int64) {}, children, opened); err != nil {
		return 0, err
	}
	return open, flag(t, flags)
}
