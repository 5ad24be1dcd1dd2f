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
	for _, c := range []struct{ cond, v string }{{a + ".kind = %s", f.Kind}, {a + ".queue = %s", f.Queue}, {"j.grp = %s", f.Group}} {
		if c.v != "" {
			w.add(c.cond, c.v)
		}
	}
	if f.Tag != "" && sojourn.ValidName("tag", f.Tag) != nil {
		w.add("1 = %s", 0) // no job has it
	} else if f.Tag != "" { // tags are stored as a JSON list of names, which have no character to escape but _
		w.add(`j.tags like %s escape '!'`, `%"`+strings.ReplaceAll(f.Tag, "_", "!_")+`"%`)
	}
	if us := jobrow.Micros(f.CreatedAfter); us != 0 {
		w.add("j.created_us > %s", us)
	}
	if us := jobrow.Micros(f.CreatedBefore); us != 0 {
		w.add("j.created_us < %s", us)
	}
	after, _ := strconv.ParseInt(f.After, 10, 64) // Validate has refused other cursors
	if after > 0 && f.Newest {
		w.add(a+".id < %s", after)
	} else if after > 0 {
		w.add(a+".id > %s", after)
	}
}

// page returns the WHERE clause with the order and the limit of a filter.
func (w *conditions) page(a string, f sojourn.Filter) string {
	order := " order by " + a + ".id"
	if f.Newest {
		order += " desc"
	}
	w.args = append(w.args, f.Limit)
	order += fmt.Sprintf(" limit $%d", len(w.args))
	return w.clause() + order
}
