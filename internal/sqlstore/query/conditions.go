package query

import (
	"fmt"
	"strings"
)

// conditions collects conditions with their arguments, whose placeholders are in ascending order.
type conditions struct {
	conds []string
	args  []any
}

// Add appends a condition; %s stands for the placeholder.
func (w *conditions) add(cond string, arg any) {
	w.args = append(w.args, arg)
	w.conds = append(w.conds, fmt.Sprintf(cond, fmt.Sprintf("$%d", len(w.args))))
}

// Clause is the WHERE clause, empty without conditions.
func (w *conditions) clause() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " where " + strings.Join(w.conds, " and ")
}
