package edge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qHinder = `select e.child, e.on_failure, l.queue, l.kind from sj_edge e join sj_live l on l.id = e.child
		where e.parent = $1 and e.open = 1 order by e.child`
	qChildren  = `select child from sj_edge where parent = $1 and open = 1 order by child`
	qSetAction = `update sj_edge set on_failure = each($2 bigint) /*from each*/ where child = each($1 bigint) and parent = each($3 bigint) and open = 1`
	qNotEnded  = `delete from sj_ending where job = $1 and state > 0`
	qHasOpen   = `select distinct parent from sj_edge where parent in (ints($1)) and open = 1`
	qIsParent  = `select count(*) from (select 1 from sj_edge where parent = $1 and open = 1 limit 1) a`
	// qHinderQueue finds edges from the jobs of a queue to jobs of others that would wait.
	qHinderQueue = `select l.id, l.queue, l.kind, e.parent from sj_live l join sj_edge e on e.child = l.id and e.open = 1 and e.on_failure = $2
		where l.state = 1 and l.queue <> $1 and (exists (select 1 from sj_live p where p.id = e.parent and p.queue = $1)
		or exists (select 1 from sj_final f where f.id = e.parent and f.queue = $1)) order by l.id, e.parent limit $3`
)

// Ending is the end of a job by an operator, as its dependents see it.
type Ending struct {
	Job        sojourn.ID
	Gone       bool                // it is deleted, so no dependent can wait for a redrive
	Besides    map[sojourn.ID]bool // jobs that the same call ends
	Queue      string              // all live jobs of it end too; "" = of none
	Dependents string              // of the Edit
	Caller     *access.Caller
}

// Clear prepares the edges of a job for its end. Dependents that would wait for ever are refused
// with a conflict that names them, unless the call says what becomes of them. A dependent that the
// caller may not operate on never hinders it: its edge keeps its own action, but where the job is
// deleted, a wait becomes a cancel. It reports whether there are open edges.
func (e Ending) Clear(t *txn.Tx) (open bool, err error) {
	var children, actions, parents sqldb.Ints
	set := func(child int64, action sojourn.OnFailure) {
		n := int64(slices.Index(onFailure, action))
		children, actions, parents = append(children, child), append(actions, n), append(parents, int64(e.Job))
	}
	if e.Dependents != "" {
		t.Events.Cascades[e.Job] = txn.Cascade{Dependents: e.Dependents, Caller: e.Caller}
	}
	var hindered []string
	if t.Concurrent() { // dependents are locked before the edges that name them
		var ids sqldb.Ints
		err := t.Read(qChildren, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, int64(e.Job))
		if err == nil {
			err = t.Lock(txn.QLockLive, ids)
		}
		if err != nil {
			return false, err
		}
	}
	if err := t.Read(qHinder, func(r sqldb.Row) error {
		open = true
		child, waits := r.Int(0), onFailure[r.Int(1)] == sojourn.WaitOnFailure
		own := e.Caller.Allows(access.VerbOperate, r.Text(2), r.Text(3))
		ends := e.Queue != "" && r.Text(2) == e.Queue
		switch {
		case !waits || (ends || e.Besides[sojourn.ID(child)]) && !e.Gone:
		case ends:
			set(child, sojourn.CancelOnFailure)
		case own && e.Dependents == sojourn.DependentsRelease:
			set(child, sojourn.IgnoreFailure)
		case own && e.Dependents == sojourn.DependentsCancel, !own && e.Gone:
			set(child, sojourn.CancelOnFailure)
		case own:
			hindered = append(hindered, fmt.Sprint(child))
		}
		return nil
	}, int64(e.Job)); err != nil {
		return open, err
	}
	if len(hindered) > 0 {
		return open, hindrance("job "+e.Job.String(), hindered)
	}
	return open, t.WriteBulk(qSetAction, func(int64) {}, children, actions, parents)
}

// hindrance is the refusal to end what jobs would wait for.
func hindrance(what string, hindered []string) error {
	more := ""
	if n := len(hindered); n > 10 {
		hindered, more = hindered[:10], fmt.Sprintf(" and %d more", n-10)
	}
	return sojourn.Conflict("%s has dependents that would wait for ever: %s%s; say what becomes of them (--dependents cancel or release)",
		what, strings.Join(hindered, ", "), more)
}

// HinderedQueue refuses the end of all jobs of a queue while jobs of other queues would wait for
// them for ever, unless dependents says what becomes of these. It looks at MaxChildren edges; the
// end of each job looks at its own.
func HinderedQueue(t *txn.Tx, queue, dependents string, c *access.Caller) error {
	if dependents != "" {
		return nil
	}
	var hindered []string
	err := t.Read(qHinderQueue, func(r sqldb.Row) error {
		if c.Allows(access.VerbOperate, r.Text(1), r.Text(2)) {
			hindered = append(hindered, fmt.Sprint(r.Int(0)))
		}
		return nil
	}, queue, int64(slices.Index(onFailure[:], sojourn.WaitOnFailure)), MaxChildren)
	if err != nil || len(hindered) == 0 {
		return err
	}
	return hindrance("queue "+queue, slices.Compact(hindered))
}

// Resume takes the end of a redriven job out of the outbox, and reports whether open edges name it:
// they are resolved by its next end.
func Resume(t *txn.Tx, id sojourn.ID) (dependents bool, err error) {
	if _, err := t.Write(qNotEnded, int64(id)); err != nil {
		return false, err
	}
	n, err := t.ReadInt(qIsParent, int64(id))
	return n > 0, err
}

// Named returns those of some jobs that open edges name. It locks all of them before, so that no
// edge is added after it.
func Named(t *txn.Tx, ids sqldb.Ints) (map[int64]bool, error) {
	named := map[int64]bool{}
	if err := t.Lock(txn.QLockFinal, ids); err != nil {
		return nil, err
	}
	return named, t.Read(qHasOpen, func(r sqldb.Row) error { named[r.Int(0)] = true; return nil }, ids)
}
