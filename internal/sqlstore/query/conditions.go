package query

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// conditions collects conditions with their arguments, whose placeholders are in ascending order.
type conditions struct {
	conds []string
	args  []any
}

// add appends a condition; %s stands for the placeholder.
func (w *conditions) add(cond string, arg any) {
	w.args = append(w.args, arg)
	w.conds = append(w.conds, fmt.Sprintf(cond, fmt.Sprintf("$%d", len(w.args))))
}

// clause returns the WHERE clause, empty without conditions.
func (w *conditions) clause() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " where " + strings.Join(w.conds, " and ")
}

// addFilter adds the conditions of a filter that hold for live and final jobs alike; a is the alias
// of their table.
func (w *conditions) addFilter(a string, f sojourn.Filter, states sqldb.Ints) {
	if f.IDs != nil {
		ids := make(sqldb.Ints, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = int64(id)
		}
		w.add(a+".id in (ints(%s))", ids)
	}
	if f.ParentsOf > 0 {
		w.add(a+".id in (select parent from sj_edge where child = %s and on_failure < 4)", int64(f.ParentsOf))
	}
	if f.ChildrenOf > 0 {
		w.add(a+".id in (select child from sj_edge where parent = %s)", int64(f.ChildrenOf))
	}
	if f.AwaitedBy > 0 {
		w.add(a+`.id in (select c.child from sj_child c where c.parent = %s and (c.generation, c.stage) in
			(select generation, stage from sj_live where id = c.parent union all select generation, stage from sj_final where id = c.parent))`, int64(f.AwaitedBy))
	}
	if len(states) > 0 {
		w.add(a+".state in (ints(%s))", states)
	}
	queue := f.Queue
	if f.Fields != nil && !byField(f) { // it is in the conditions of the values; a planner could prefer it to the ids
		queue = ""
	}
	for _, c := range []struct{ cond, v string }{{a + ".kind = %s", f.Kind}, {a + ".queue = %s", queue}, {"j.grp = %s", f.Group}} {
		if c.v != "" {
			w.add(c.cond, c.v)
		}
	}
	switch {
	case f.Tag == "":
	case byTag(f):
		w.add("g.tag = %s and "+a+".id = g.job", f.Tag)
	default:
		w.add("exists (select 1 from sj_tag g where g.tag = %s and g.job = "+a+".id)", f.Tag)
	}
	w.addFields(a, f)
	if us := jobrow.Micros(f.CreatedAfter); us != 0 {
		w.add("j.created_us > %s", us)
	}
	if us := jobrow.Micros(f.CreatedBefore); us != 0 {
		w.add("j.created_us < %s", us)
	}
	w.addEnd(a, f)
	after, _ := strconv.ParseInt(f.After, 10, 64) // Validate has refused other cursors
	if after > 0 && f.Newest {
		w.add(cursor(a, f)+" < %s", after)
	} else if after > 0 {
		w.add(cursor(a, f)+" > %s", after)
	}
}

// byTag reports whether a filter finds its jobs by their tag. One that names few jobs in another
// way looks up the tag of each.
func byTag(f sojourn.Filter) bool {
	return f.Tag != "" && f.Fields == nil && f.IDs == nil && f.ParentsOf == 0 && f.ChildrenOf == 0 && f.AwaitedBy == 0 && f.Failure == ""
}

// from returns the tables of a query; a is the alias of the one with live or final jobs. SQLite
// reads the tables of a cross join in their order, so the rows of a tag come first.
func from(a string, f sojourn.Filter) string {
	tables := map[string]string{"l": "sj_live l", "f": "sj_final f"}[a] + " join sj_job j on j.id = " + a + ".id"
	switch {
	case byTag(f):
		return " from sj_tag g cross join " + tables
	case byField(f):
		return " from sj_field d cross join " + tables
	}
	return " from " + tables
}

// cursor is the column with the ids by which pages are read.
func cursor(a string, f sojourn.Filter) string {
	switch {
	case byTag(f):
		return "g.job"
	case byField(f):
		return "d.job"
	}
	return a + ".id"
}

// addEnd adds the conditions about how jobs have ended. Live jobs have no end, but a failure group
// if their last step has failed.
func (w *conditions) addEnd(a string, f sojourn.Filter) {
	group, err := strconv.ParseInt(f.Failure, 16, 64)
	switch {
	case f.Failure == "":
	case err != nil:
		w.add("1 = %s", 0) // there is no such group
	case a == "f":
		w.add("f.failure <> 0 and f.failure = %s", group)
	default:
		w.add("l.id in (select h.job from sj_history h where h.failure <> 0 and h.failure = %s and h.seq = l.history)", group)
	}
	if a != "f" {
		return
	}
	if f.Reason != "" {
		w.add("f.reason = %s", f.Reason)
	}
	if us := jobrow.Micros(f.EndedAfter); us != 0 {
		w.add("f.finished_us > %s", us)
	}
	if us := jobrow.Micros(f.EndedBefore); us != 0 {
		w.add("f.finished_us < %s", us)
	}
}

// onlyFinal reports whether a filter has a condition that only final jobs meet.
func onlyFinal(f sojourn.Filter) bool {
	return f.Reason != "" || !f.EndedAfter.IsZero() || !f.EndedBefore.IsZero()
}

// page returns the WHERE clause with the order and the limit of a filter.
func (w *conditions) page(a string, f sojourn.Filter) string {
	order := " order by " + cursor(a, f)
	if f.Newest {
		order += " desc"
	}
	w.args = append(w.args, f.Limit)
	order += fmt.Sprintf(" limit $%d", len(w.args))
	return w.clause() + order
}
