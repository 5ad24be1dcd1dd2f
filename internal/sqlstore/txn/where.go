package txn

import (
	"fmt"
	"strings"
)

// Conditions collects conditions with their arguments, whose placeholders are in ascending order.
type Conditions struct {
	Conds []string
	Args  []any
}

// Add appends a condition; %s stands for the placeholder.
func (w *Conditions) Add(cond string, arg any) {
	w.Args = append(w.Args, arg)
	w.Conds = append(w.Conds, fmt.Sprintf(cond, fmt.Sprintf("$%d", len(w.Args))))
}

// Clause is the WHERE clause, empty without conditions.
func (w *Conditions) Clause() string {
	if len(w.Conds) == 0 {
		return ""
	}
	return " where " + strings.Join(w.Conds, " and ")
}
