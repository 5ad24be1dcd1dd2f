package edge

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qLockCycles = `insert into sj_meta (name, value) values ('edges', '') on conflict (name) do update set value = excluded.value`
	qAbove      = `select child, parent from sj_edge where child in (ints($1)) and open = 1 order by child, parent`
	qOf         = `select parent, child, open from sj_edge where child = $1 order by parent`
	// qOfNamed is qOf for some parents: a job may have many more dependencies than a call names.
	qOfNamed = `select parent, child, open from sj_edge where child = $1 and parent in (ints($2)) order by parent`
	qOwn     = `select distinct child from sj_child where parent = $1`
	qRemove  = `delete from sj_edge /*using each*/ where child = each($1 bigint) and parent = each($2 bigint) /*hit child*/`
	// qClose ends the wait for an awaited child. If a dependency has taken the place of its edge,
	// the edge becomes that of a child again.
	qClose     = `update sj_edge set open = 0, on_failure = 4, on_stage = 0 /*from each*/ where child = each($1 bigint) and parent = each($2 bigint) /*hit child*/`
	qForget    = `delete from sj_edge where child in (ints($1))`
	qForgetOwn = `delete from sj_child where parent in (ints($1))`
)

// maxWalk bounds the jobs that a check for cycles looks at.
const maxWalk = 100_000

// LockCycles makes transactions that add edges to existing jobs wait for each other: two of them
// could close a cycle that neither sees. Edges of new jobs need no such lock, because nothing
// depends on a job that does not exist.
func LockCycles(t *txn.Tx) error {
	if !t.Concurrent() {
		return nil
	}
	_, err := t.Write(qLockCycles)
	return err
}

// LockParents locks the rows of jobs that others are to depend on, in their order, and before those
// of dependents that exist: the end of a job locks its row and then those of its dependents. In
// another order the two often end in a deadlock, which costs a second.
func LockParents(t *txn.Tx, ds []sojourn.Dependency) error {
	if !t.Concurrent() {
		return nil
	}
	var ids sqldb.Ints
	for _, d := range ds {
		for _, id := range d.Jobs {
			ids = append(ids, int64(id))
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	live := 0
	if err := t.Read(txn.QLockLive, func(sqldb.Row) error { live++; return nil }, ids); err != nil || live == len(ids) {
		return err
	}
	return t.Lock(txn.QLockFinal, ids)
}

// Only is the argument of CheckCycle for a call that adds edges to one job.
func Only(child sojourn.ID, parents []sojourn.ID) func(sojourn.ID) []sojourn.ID {
	return func(id sojourn.ID) []sojourn.ID {
		if id != child {
			return nil
		}
		return parents
	}
}

// CycleError refuses dependencies that close a cycle.
func CycleError(path string) error {
	return &sojourn.Error{Code: sojourn.CodeCycle, Field: "depends_on", Index: -1, Err: sojourn.ErrConflict,
		Message: "the dependencies form a cycle, and none of its jobs could ever start: " + path}
}

// CheckCycle refuses new edges of a stored job, child, if a job that it would depend on depends on
// it, over any number of jobs. added lists the jobs that the call makes a job depend on. The caller
// has called LockCycles.
func CheckCycle(t *txn.Tx, child sojourn.ID, added func(sojourn.ID) []sojourn.ID) error {
	below := map[sojourn.ID]sojourn.ID{} // a job → the one that depends on it
	var level sqldb.Ints
	visit := func(from, to sojourn.ID) {
		if _, seen := below[to]; !seen {
			below[to], level = from, append(level, int64(to))
		}
	}
	for _, p := range added(child) {
		visit(child, p)
	}
	for len(level) > 0 {
		ids := level
		level = nil
		for _, id := range ids {
			for _, p := range added(sojourn.ID(id)) {
				visit(sojourn.ID(id), p)
			}
		}
		if err := t.Read(qAbove, func(r sqldb.Row) error { visit(sojourn.ID(r.Int(0)), sojourn.ID(r.Int(1))); return nil }, ids); err != nil {
			return err
		}
		if _, found := below[child]; found {
			return CycleError(cyclePath(below, child))
		}
		if len(below) > maxWalk {
			return sojourn.Conflict("more than %d jobs stand before job %d: the check for cycles ends here", maxWalk, child)
		}
	}
	return nil
}

// cyclePath names the jobs of a cycle, from child through what it depends on.
func cyclePath(below map[sojourn.ID]sojourn.ID, child sojourn.ID) string {
	ids := []string{child.String()}
	for at := below[child]; at != child; at = below[at] {
		ids = append(ids, at.String())
	}
	ids = append(ids, child.String())
	slices.Reverse(ids)
	return strings.Join(ids, " → ")
}

// Change is a decided change of the edges of a blocked job.
type Change struct {
	links    Links
	opens    int32 // edges that are open and were not
	resolved int   // open edges that go away
	removed  []sojourn.ID
	closed   []sojourn.ID // children that the job has stored: their edges stay, resolved
}

// Plan decides a change of the edges of a blocked job, whose row is locked. It writes nothing, and
// an error with a code refuses the change.
func Plan(t *txn.Tx, l *jobrow.Row, add []sojourn.Dependency, remove *[]sojourn.ID, c *access.Caller) (*Change, error) {
	ch := &Change{}
	wants := Wants(add, Itself)
	open, err := openOf(t, l.ID, wants, remove)
	if err != nil {
		return nil, err
	}
	if len(wants) > 0 {
		ids := make([]sojourn.ID, len(wants))
		for i, w := range wants {
			ids[i] = w.Parent
		}
		if err := CheckCycle(t, l.ID, Only(l.ID, ids)); err != nil {
			return nil, err
		}
		parents, err := Lock(t, ids, c)
		if err != nil {
			return nil, err
		}
		for _, w := range wants {
			n := len(ch.links.Edges)
			isOpen, err := ch.links.Add(parents, l.ID, w)
			if err != nil {
				return nil, err
			}
			if len(ch.links.Edges) == n { // missing, or hidden from the caller: an edge of before stays as it is
				continue
			}
			if was := open[w.Parent]; isOpen && !was {
				ch.opens++
			} else if was && !isOpen {
				ch.resolved++
			}
			open[w.Parent] = isOpen
		}
	}
	if remove == nil {
		return ch, nil
	}
	return ch, ch.remove(t, l.ID, *remove, open)
}

// openOf reads which of the dependencies that a change names a job has, and whether they are open.
// A change that removes all names all.
func openOf(t *txn.Tx, job sojourn.ID, wants []Want, remove *[]sojourn.ID) (map[sojourn.ID]bool, error) {
	open := map[sojourn.ID]bool{}
	note := func(r sqldb.Row) error { open[sojourn.ID(r.Int(0))] = r.Int(2) != 0; return nil }
	if remove != nil && len(*remove) == 0 {
		return open, t.Read(qOf, note, int64(job))
	}
	var named sqldb.Ints
	for _, w := range wants {
		named = append(named, int64(w.Parent))
	}
	if remove != nil {
		for _, id := range *remove {
			named = append(named, int64(id))
		}
	}
	slices.Sort(named)
	return open, t.Read(qOfNamed, note, int64(job), slices.Compact(named))
}

// remove decides which of a job's edges go away; none are named for all of them.
func (ch *Change) remove(t *txn.Tx, job sojourn.ID, named []sojourn.ID, open map[sojourn.ID]bool) error {
	for _, id := range named {
		if _, ok := open[id]; !ok {
			return sojourn.NotFound("job %d does not depend on job %d", job, id)
		}
	}
	children := map[sojourn.ID]bool{}
	if err := t.Read(qOwn, func(r sqldb.Row) error { children[sojourn.ID(r.Int(0))] = true; return nil }, int64(job)); err != nil {
		return err
	}
	for id, isOpen := range open {
		if len(named) > 0 && !slices.Contains(named, id) {
			continue
		}
		if children[id] {
			ch.closed = append(ch.closed, id)
		} else {
			ch.removed = append(ch.removed, id)
		}
		if isOpen {
			ch.resolved++
		}
	}
	slices.Sort(ch.removed)
	slices.Sort(ch.closed)
	return nil
}

// Apply writes the change. l is the child's row as it was saved last; the result is its row after
// the change, released if no edge is open any more.
func (ch *Change) Apply(t *txn.Tx, l *jobrow.Row, by string) (*jobrow.Row, error) {
	if err := ch.links.Write(t); err != nil {
		return nil, err
	}
	s := jobrow.NewColumns(len(ch.removed), 1, 0, 0)
	for _, id := range ch.removed {
		s.Row(int64(l.ID)).Ints(int64(id))
	}
	t.AddColumns(qRemove, len(ch.removed), "an edge was removed meanwhile", s)
	c := jobrow.NewColumns(len(ch.closed), 1, 0, 0)
	for _, id := range ch.closed {
		c.Row(int64(l.ID)).Ints(int64(id))
	}
	t.AddColumns(qClose, len(ch.closed), "an edge was removed meanwhile", c)
	if ch.opens > 0 {
		more := *l
		more.WaitsFor += ch.opens
		if err := t.Save(l, &more); err != nil {
			return nil, err
		}
		l = &more
	}
	var err error
	for range ch.resolved {
		if l, err = resolve(t, l, rules.Event{Type: rules.EventParent}, by); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Forget deletes the edges of jobs that are deleted, or that get others. Each awaited child has an
// edge, so without edges there are no names of children.
func Forget(t *txn.Tx, jobs sqldb.Ints) error {
	if len(jobs) == 0 {
		return nil
	}
	n, err := t.Write(qForget, jobs)
	if err == nil && n > 0 {
		_, err = t.Write(qForgetOwn, jobs)
	}
	return err
}
