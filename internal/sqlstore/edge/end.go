package edge

import (
	"context"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// MaxChildren bounds the edges that one transaction decides.
const MaxChildren = 1000

const (
	qStagesOf = `select parent, child, on_failure, on_stage from sj_edge where parent in (ints($1)) and on_stage = 1 and open = 1 order by child, parent limit $2`
	qOpenOf   = `select parent, child, on_failure, on_stage from sj_edge where parent in (ints($1)) and open = 1 order by child, parent limit $2`
	qSlice    = `select parent, child, on_failure, on_stage from sj_edge where parent = $1 and open = 1 and child > $2 order by child limit $3`
	qStages   = `select parent, child, on_failure, on_stage from sj_edge where parent = $1 and on_stage = 1 and open = 1 and child > $2 order by child limit $3`
	qStands   = `select parent, child, on_failure, on_stage from sj_edge where parent in (ints($1)) and open = 1 and child in (ints($2)) order by child, parent`
	// qResolve closes edges. They were read under the child's lock, so each must still be open.
	qResolve = `update sj_edge set open = 0 /*from each*/ where child = each($1 bigint) and parent = each($2 bigint) and open = 1 /*hit child*/`
	qLeave   = `update sj_edge set open = 0 where open = 1 and child in (ints($1))`
	qPost    = `insert into sj_ending (job, state, done, dependents, owner) values ($1, $2, 0, $3, $4)
		on conflict (job, state) do update set done = 0, dependents = excluded.dependents, owner = excluded.owner`
	qTakePosted = `select e.job, e.state, e.done, e.dependents, e.owner from sj_ending e order by e.job, e.state limit 1 /*lock e*/`
	qAdvance    = `update sj_ending set done = $1 where job = $2 and state = $3`
	qDone       = `delete from sj_ending where job = $1 and state = $2`
	qStagePosts = `select job from sj_ending where job in (ints($1)) and state = 0`
)

// AnyPosted reads whether the outbox has an entry.
const AnyPosted = `select count(*) from (select 1 from sj_ending where job > 0 limit 1) a`

// states are jobs with dependents that have ended, with their final states; stageOver if only a
// stage of the job has ended.
type states map[sojourn.ID]sojourn.State

// stageOver is the state in the outbox of a job that has advanced. For the rules it is the removal
// of the dependencies that wait for the stage only.
const stageOver sojourn.State = 0

// dependents are the values of sojourn.Edit.Dependents by their number in the outbox.
var dependents = []string{"", sojourn.DependentsCancel, sojourn.DependentsRelease}

// ids lists the jobs, ascending.
func (s states) ids() sqldb.Ints {
	var ids sqldb.Ints
	for _, id := range slices.Sorted(maps.Keys(s)) {
		ids = append(ids, int64(id))
	}
	return ids
}

// Flush decides the children of the jobs that this transaction has ended or advanced so far. It
// runs before the transaction's end, and reads nothing if no such job has edges.
func Flush(t *txn.Tx) error {
	if len(t.Events.Ended) == 0 {
		return nil
	}
	restaged := slices.ContainsFunc(t.Events.Ended, func(e [2]*jobrow.Row) bool { return e[0].Stage > 0 })
	ended, stages := takeEnded(t)
	if err := flush(t, qStagesOf, stages); err != nil {
		return err
	}
	if restaged && len(ended) > 0 {
		if err := afterStages(t, ended); err != nil {
			return err
		}
	}
	if err := flush(t, qOpenOf, ended); err != nil {
		return err
	}
	ended, _ = takeEnded(t)
	return post(t, ended) // one level a transaction
}

// flush decides the children of jobs, or posts all of these if they have too many.
func flush(t *txn.Tx, q string, s states) error {
	if len(s) == 0 {
		return nil
	}
	edges, err := read(t, q, s.ids(), MaxChildren+1)
	if err != nil {
		return err
	}
	if len(edges) > MaxChildren {
		return post(t, s)
	}
	return decide(t, edges, s)
}

// afterStages posts the ends of jobs whose last stage is still in the outbox: its dependents are
// released whatever the end is, so they come first.
func afterStages(t *txn.Tx, ended states) error {
	later := states{}
	if err := t.Read(qStagePosts, func(r sqldb.Row) error {
		id := sojourn.ID(r.Int(0))
		later[id] = ended[id]
		delete(ended, id)
		return nil
	}, ended.ids()); err != nil {
		return err
	}
	return post(t, later)
}

// FlushJoined is Flush in a transaction of the application. The statements of a strictly isolated
// one may miss dependents that were added since its snapshot, so it leaves them to the outbox.
func FlushJoined(t *txn.Tx) error {
	if c, ok := t.Conn.(sqldb.Isolated); !ok || !c.Isolated() {
		return Flush(t)
	}
	ended, stages := takeEnded(t)
	if err := post(t, stages); err != nil {
		return err
	}
	return post(t, ended)
}

// takeEnded empties the list of jobs with edges that have ended or advanced. It closes the edges of
// those that were blocked, and returns those that have dependents.
func takeEnded(t *txn.Tx) (ended, stages states) {
	ended, stages = states{}, states{}
	var blocked sqldb.Ints
	for _, e := range t.Events.Ended {
		was, now := e[0], e[1]
		if was.WaitsFor > 0 {
			blocked = append(blocked, int64(was.ID))
		}
		switch {
		case was.Dependents && now.State.Final():
			ended[was.ID] = now.State
		case was.Dependents && now.Stage > was.Stage:
			stages[was.ID] = stageOver
		}
	}
	t.Events.Ended = nil
	if len(blocked) > 0 {
		t.Add(qLeave, 0, "", blocked)
	}
	return ended, stages
}

// read reads open edges.
func read(t *txn.Tx, q string, args ...any) (edges []Edge, err error) {
	err = t.Read(q, func(r sqldb.Row) error {
		edges = append(edges, Edge{Parent: sojourn.ID(r.Int(0)), Child: sojourn.ID(r.Int(1)), OnFailure: onFailure[r.Int(2)], OnStage: r.Int(3) != 0, Open: true})
		return nil
	}, args...)
	return edges, err
}

// decide lets the rules decide the children of ended jobs, and writes what they say.
func decide(t *txn.Tx, edges []Edge, states states) error {
	if len(edges) == 0 {
		return nil
	}
	var parents, children sqldb.Ints
	for _, e := range edges {
		parents, children = append(parents, int64(e.Parent)), append(children, int64(e.Child))
	}
	slices.Sort(parents)
	parents, children = slices.Compact(parents), slices.Compact(children)
	rows, err := t.Load(children)
	if err != nil {
		return err
	}
	if t.Concurrent() { // another transaction may have resolved, changed or removed some before the locks
		if edges, err = stillOpen(t, edges, parents, children, states); err != nil {
			return err
		}
	}
	resolved := jobrow.NewColumns(len(edges), 1, 0, 0)
	for _, e := range edges {
		was := rows[e.Child]
		if was == nil || was.State != sojourn.Blocked {
			continue // an edge before it has ended the child
		}
		through, carried := t.Events.Cascades[e.Parent]
		if carried && e.OnFailure == sojourn.WaitOnFailure && through.Caller.Allows(access.VerbOperate, was.Queue, was.Kind) {
			e.OnFailure = sojourn.CancelOnFailure
			if through.Dependents == sojourn.DependentsRelease {
				e.OnFailure = sojourn.IgnoreFailure
			}
		}
		l, err := resolve(t, was, rules.Event{Type: rules.EventParent, Parent: states[e.Parent], OnFailure: e.OnFailure}, "job "+e.Parent.String())
		if err != nil {
			return err
		}
		if carried && l.State.Final() {
			t.Events.Cascades[e.Child] = through
		}
		rows[e.Child] = l
		if l != was && l.State.Live() { // the end of a child closes all its edges
			resolved.Row(int64(e.Child)).Ints(int64(e.Parent))
		}
	}
	t.AddColumns(qResolve, len(resolved.IDs), "an edge was resolved meanwhile", resolved)
	return nil
}

// stillOpen reads edges again, under the locks of their children. It returns the edges that
// are still open and that the end of their parent resolves; the end of a stage resolves only edges
// with OnStage.
func stillOpen(t *txn.Tx, edges []Edge, parents, children sqldb.Ints, states states) ([]Edge, error) {
	found := make(map[[2]sojourn.ID]bool, len(edges))
	for _, e := range edges {
		found[[2]sojourn.ID{e.Parent, e.Child}] = true
	}
	now, err := read(t, qStands, parents, children) // all edges between these jobs, also others
	return slices.DeleteFunc(now, func(e Edge) bool {
		return !found[[2]sojourn.ID{e.Parent, e.Child}] || states[e.Parent] == stageOver && !e.OnStage
	}), err
}

// resolve applies the end of a parent to a child. It returns the same row if the edge still stands.
func resolve(t *txn.Tx, was *jobrow.Row, e rules.Event, by string) (*jobrow.Row, error) {
	tr, err := rules.Decide(was.Row, e)
	if err != nil {
		return nil, err
	}
	if tr.Rule == "S4" {
		return was, nil
	}
	if tr.To.State == sojourn.Ready && was.RunAt > t.Now {
		tr.To.State = sojourn.Scheduled
	}
	l, err := lifecycle.Apply(t, was, tr, lifecycle.Change{By: by})
	if err == nil && was.AttemptOpen { // a response may have come while it awaited children
		l, err = lifecycle.Match(t, l)
	}
	return l, err
}

// post puts ended jobs into the outbox, and has it worked on after the commit.
func post(t *txn.Tx, states states) error {
	if len(states) == 0 {
		return nil
	}
	for _, id := range states.ids() {
		c := t.Events.Cascades[sojourn.ID(id)]
		if _, err := t.Write(qPost, id, int64(states[sojourn.ID(id)]), int64(slices.Index(dependents, c.Dependents)), c.Caller.Owner()); err != nil {
			return err
		}
	}
	core := t.Core
	t.Events.After = append(t.Events.After, func() {
		go func() { _ = Drain(context.Background(), core) }() // after an error a sweep goes on
	})
	return nil
}

// Post is the end of jobs in another way than by their rows: a purge, or a redrive that is refused.
func Post(t *txn.Tx, ended map[sojourn.ID]sojourn.State) error {
	return post(t, ended)
}

// Drain works on the outbox until it is empty.
func Drain(ctx context.Context, c *txn.Core) error {
	for {
		more, err := txn.Do(ctx, c, drainOp, MaxChildren, struct{}{})
		if err != nil || !more {
			return err
		}
	}
}

// drainOp decides a slice of the first entry of the outbox. The lock of the entry makes processes
// wait for each other, so whoever finds the outbox empty knows that all was decided.
var drainOp *txn.Op[struct{}, bool]

func init() { drainOp = txn.EachOp("endings", groupcommit.Finish, drain) } // drain posts what drainOp works on

// drain is one call of drainOp. It reports whether there may be more entries.
func drain(t *txn.Tx, _ struct{}) (more bool, err error) {
	var job, done int64
	var state sojourn.State
	var through txn.Cascade
	var owner string
	if err := t.Read(qTakePosted, func(r sqldb.Row) error {
		job, state, done, through.Dependents, owner = r.Int(0), sojourn.State(r.Int(1)), r.Int(2), dependents[r.Int(3)], r.Text(4)
		return nil
	}); err != nil {
		return false, err
	}
	if job == 0 { // or another transaction has deleted the entry while this one waited for it, and posted others
		n, err := t.ReadInt(AnyPosted)
		return n > 0, err
	}
	if through.Dependents != "" {
		if through.Caller, _, err = txn.OwnerOf(t, owner); err != nil {
			return false, err
		}
		t.Events.Cascades[sojourn.ID(job)] = through
	}
	slice := qSlice
	if state == stageOver {
		slice = qStages
	}
	edges, err := read(t, slice, job, done, MaxChildren)
	if err != nil {
		return false, err
	}
	if err := decide(t, edges, states{sojourn.ID(job): state}); err != nil {
		return false, err
	}
	ended, _ := takeEnded(t)
	if err := post(t, ended); err != nil {
		return false, err
	}
	if len(edges) == MaxChildren {
		_, err = t.Write(qAdvance, int64(edges[len(edges)-1].Child), job, int64(state))
	} else {
		_, err = t.Write(qDone, job, int64(state))
	}
	return true, err
}
