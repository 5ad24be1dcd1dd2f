package sqlstore

import (
	"fmt"
	"strings"
)

// where collects conditions with their arguments, whose placeholders are in ascending order.
type where struct {
	conds []string
	args  []any
}

// add appends a condition; %s stands for the placeholder.
func (w *where) add(cond string, arg any) {
	w.args = append(w.args, arg)
	w.conds = append(w.conds, fmt.Sprintf(cond, fmt.Sprintf("$%d", len(w.args))))
}

// clause is the WHERE clause, empty without conditions.
func (w *where) clause() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " where " + strings.Join(w.conds, " and ")
}
