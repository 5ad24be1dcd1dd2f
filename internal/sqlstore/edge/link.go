package edge

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// onFailure lists the actions by their stored numbers; the last one is that of awaited.
var onFailure = []sojourn.OnFailure{sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure, sojourn.IgnoreFailure}

// awaited is the stored action of an edge from a job to one that it has stored and awaits.
const awaited = 4

// Want is one dependency as a caller wants it.
type Want struct {
	Parent    sojourn.ID
	OnFailure sojourn.OnFailure
	OnStage   bool
	MissingOK bool
	Awaited   bool // it is a child that the job has stored
}

// Wants lists the dependencies by parent, in the order of the ids. The last one on a parent counts.
// target names the job that an id stands for.
func Wants(ds []sojourn.Dependency, target func(sojourn.ID) sojourn.ID) []Want {
	by := map[sojourn.ID]Want{}
	for _, d := range ds {
		for _, id := range d.Jobs {
			id = target(id)
			by[id] = Want{Parent: id, OnFailure: d.OnFailure, OnStage: d.OnStage, MissingOK: d.MissingOK}
		}
	}
	out := make([]Want, 0, len(by))
	for _, w := range by {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Want) int { return int(a.Parent - b.Parent) })
	return out
}

// Itself is the target of an id that stands for itself.
func Itself(id sojourn.ID) sojourn.ID { return id }

// Parents are the jobs that new edges name, with their rows locked.
type Parents struct {
	live  map[sojourn.ID]*jobrow.Row
	final map[sojourn.ID]sojourn.State
}

// qFinals reads final jobs.
const qFinals = `select id, state, queue, kind from sj_final where id in (ints($1))`

// Lock locks jobs and reads their states. Those that do not exist, and those that the caller may
// not read, are both missing in it.
func Lock(t *txn.Tx, ids []sojourn.ID, c *access.Caller) (*Parents, error) {
	p := &Parents{final: map[sojourn.ID]sojourn.State{}}
	all := make(sqldb.Ints, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	slices.Sort(all)
	var err error
	if p.live, err = t.Load(slices.Compact(all)); err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(all, func(id int64) bool { return p.live[sojourn.ID(id)] != nil })
	if len(rest) == 0 {
		p.hide(c)
		return p, nil
	}
	if err := t.Lock(txn.QLockFinal, rest); err != nil {
		return nil, err
	}
	if err := t.Read(qFinals, func(r sqldb.Row) error {
		if c.Allows(access.VerbRead, r.Text(2), r.Text(3)) {
			p.final[sojourn.ID(r.Int(0))] = sojourn.State(r.Int(1))
		}
		return nil
	}, rest); err != nil {
		return nil, err
	}
	if t.Concurrent() && len(p.final) < len(rest) { // between the two locks a redrive may have moved a row
		again, err := t.Load(rest)
		if err == nil && len(again) > 0 {
			err = txn.Raced("a job was redriven meanwhile")
		}
		if err != nil {
			return nil, err
		}
	}
	p.hide(c)
	return p, nil
}

// hide removes live jobs that the caller may not read.
func (p *Parents) hide(c *access.Caller) {
	for id, l := range p.live {
		if !c.Allows(access.VerbRead, l.Queue, l.Kind) {
			delete(p.live, id)
		}
	}
}

// Completes makes a job count as completed: it will be, with this transaction.
func (p *Parents) Completes(id sojourn.ID) {
	delete(p.live, id)
	p.final[id] = sojourn.Completed
}

// Edge is a row of sj_edge.
type Edge struct {
	Child, Parent sojourn.ID
	OnFailure     sojourn.OnFailure
	OnStage       bool
	Awaited       bool
	Open          bool
}

// Links are edges to be stored, with what must be written to the parents.
type Links struct {
	Edges   []Edge
	flag    sqldb.Ints                   // live parents that get the flag
	endings map[sojourn.ID]sojourn.State // final parents whose end decides the child
}

// unknown refuses a dependency on a job that does not exist for the caller.
func unknown(id sojourn.ID) error {
	return &sojourn.Error{Code: sojourn.CodeDependency, Field: "depends_on", Index: -1, Err: sojourn.ErrNotFound,
		Message: "no job has the id " + id.String() + ", so no job can depend on it; set missing_ok if that counts as completed"}
}

// Add adds the edge of a child. CodeDependency if the parent does not exist and the dependency does
// not accept that. open reports whether it keeps the child blocked.
func (s *Links) Add(p *Parents, child sojourn.ID, w Want) (open bool, err error) {
	e := Edge{child, w.Parent, w.OnFailure, w.OnStage, w.Awaited, true}
	state, final := p.final[w.Parent]
	l := p.live[w.Parent]
	switch {
	case l != nil:
		if !l.Dependents && !slices.Contains(s.flag, int64(l.ID)) {
			s.flag = append(s.flag, int64(l.ID))
		}
	case !final && w.MissingOK:
		return false, nil
	case !final:
		return false, unknown(w.Parent)
	case state == sojourn.Completed || w.OnFailure == sojourn.IgnoreFailure:
		e.Open = false
	case w.OnFailure == sojourn.CancelOnFailure || w.OnFailure == sojourn.FailOnFailure:
		if s.endings == nil {
			s.endings = map[sojourn.ID]sojourn.State{}
		}
		s.endings[w.Parent] = state
	}
	s.Edges = append(s.Edges, e)
	return e.Open, nil
}

// AddNew adds the edge of a child to a parent that the same transaction stores as a live job.
func (s *Links) AddNew(child sojourn.ID, w Want) {
	s.Edges = append(s.Edges, Edge{child, w.Parent, w.OnFailure, w.OnStage, w.Awaited, true})
}

const qAddEdge = `insert into sj_edge (child, parent, on_failure, on_stage, open) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint)
	on conflict (child, parent) do update set on_failure = excluded.on_failure, on_stage = excluded.on_stage, open = excluded.open`

// Write adds the edges to the write set, and flags the parents.
func (s *Links) Write(t *txn.Tx) error {
	columns := jobrow.NewColumns(len(s.Edges), 4, 0, 0)
	for _, e := range s.Edges {
		action := max(slices.Index(onFailure, e.OnFailure), 0)
		if e.Awaited {
			action = awaited
		}
		columns.Row(int64(e.Child)).Ints(int64(e.Parent), int64(action), jobrow.Bit(e.OnStage), jobrow.Bit(e.Open))
	}
	t.AddColumns(qAddEdge, 0, "", columns)
	if err := flag(t, s.flag); err != nil {
		return err
	}
	return post(t, s.endings)
}

// flag notes on the rows of live jobs that edges name them. It reads them again, because their own
// call may have changed them since they were locked.
func flag(t *txn.Tx, ids sqldb.Ints) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	rows, err := t.Load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		was := rows[sojourn.ID(id)]
		if was == nil {
			return txn.Raced("a job ended before it got a dependent")
		}
		l := *was
		l.Dependents = true
		if err := t.Save(was, &l); err != nil {
			return err
		}
	}
	return nil
}
