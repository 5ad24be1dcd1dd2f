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
	qOf         = `select parent, child, on_failure, open from sj_edge where child = $1 order by parent`
	qRemove     = `delete from sj_edge /*using each*/ where child = each($1 bigint) and parent = each($2 bigint) /*hit child*/`
	qForget     = `delete from sj_edge where child in (ints($1))`
	qForgetOwn  = `delete from sj_child where parent in (ints($1))`
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

// CycleError refuses dependencies that close a cycle.
func CycleError(path string) error {
	return sojourn.Conflict("the dependencies form a cycle, and none of its jobs could ever start: %s", path)
}

// CheckCycle refuses edges from child to parents if one of these depends on child, over any number
// of jobs. The caller has called LockCycles.
func CheckCycle(t *txn.Tx, child sojourn.ID, parents []sojourn.ID) error {
	if slices.Contains(parents, child) {
		return CycleError(child.String() + " → " + child.String())
	}
	below := map[sojourn.ID]sojourn.ID{} // a job → the one that depends on it
	var level sqldb.Ints
	for _, p := range parents {
		below[p] = child
		level = append(level, int64(p))
	}
	for len(level) > 0 {
		var next sqldb.Ints
		found := false
		if err := t.Read(qAbove, func(r sqldb.Row) error {
			from, to := sojourn.ID(r.Int(0)), sojourn.ID(r.Int(1))
			if to == child && !found {
				found, below[child] = true, from
			} else if _, seen := below[to]; !seen {
				below[to], next = from, append(next, int64(to))
			}
			return nil
		}, level); err != nil {
			return err
		}
		if found {
			return CycleError(cyclePath(below, child))
		}
		if len(below) > maxWalk {
			return sojourn.Conflict("more than %d jobs stand before job %d: the check for cycles ends here", maxWalk, child)
		}
		level = next
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
	closed   []sojourn.ID // awaited children: their edges stay, resolved
}

// Plan decides a change of the edges of a blocked job, whose row is locked. It writes nothing, and
// an error with a code refuses the change.
func Plan(t *txn.Tx, l *jobrow.Row, add []sojourn.Dependency, remove *[]sojourn.ID, c *access.Caller) (*Change, error) {
	ch := &Change{}
	open, children := map[sojourn.ID]bool{}, map[sojourn.ID]bool{}
	if err := t.Read(qOf, func(r sqldb.Row) error {
		open[sojourn.ID(r.Int(0))], children[sojourn.ID(r.Int(0))] = r.Int(3) != 0, r.Int(2) == awaited
		return nil
	}, int64(l.ID)); err != nil {
		return nil, err
	}
	wants := Wants(add)
	if len(wants) > 0 {
		ids := make([]sojourn.ID, len(wants))
		for i, w := range wants {
			ids[i] = w.Parent
		}
		if err := CheckCycle(t, l.ID, ids); err != nil {
			return nil, err
		}
		parents, err := Lock(t, ids, c)
		if err != nil {
			return nil, err
		}
		for _, w := range wants {
			isOpen, err := ch.links.Add(parents, l.ID, w)
			if err != nil {
				return nil, err
			}
			if was := open[w.Parent]; isOpen && !was {
				ch.opens++
			} else if was && !isOpen {
				ch.resolved++
			}
			open[w.Parent] = isOpen
		}
	}
	if remove != nil {
		for id, isOpen := range open {
			if len(*remove) > 0 && !slices.Contains(*remove, id) {
				continue
			}
			if !children[id] {
				ch.removed = append(ch.removed, id)
			} else if isOpen {
				ch.closed = append(ch.closed, id)
			}
			if isOpen {
				ch.resolved++
			}
		}
		slices.Sort(ch.removed)
		for _, id := range *remove {
			if _, ok := open[id]; !ok {
				return nil, sojourn.NotFound("job %d does not depend on job %d", l.ID, id)
			}
		}
	}
	return ch, nil
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
	t.AddColumns(qResolve, len(ch.closed), "an edge was resolved meanwhile", c)
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
	n, err := t.Write(qForget, jobs)
	if err == nil && n > 0 {
		_, err = t.Write(qForgetOwn, jobs)
	}
	return err
}
