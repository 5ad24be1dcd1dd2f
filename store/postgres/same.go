package postgres

import (
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// The jobs of one transaction have most of their columns in common: queue, kind, policy, worker,
// state and all that are still zero. Such a constant column is bound as one value instead of an
// array, which neither side has to unfold: that saves a third of the server's work for a row of 30
// columns (docs/internals/engine.md#constant-columns). Each choice of columns is a statement of its
// own, which each connection prepares, so there are few of them.
const (
	maxChoices = 8  // for each text; then the best of these is taken
	manyRows   = 16 // fewer make no new choice: their constant columns are chance
)

// unfolding turns rows(…) and each(…) into rows of arrays; the parameters are between the two.
const (
	unfolding    = "select * from unnest("
	unfoldingEnd = ")"
)

// sameness caches the texts in which columns are one value. Safe for concurrent use.
type sameness struct {
	mu    sync.Mutex
	texts map[string]map[columnSet]string // text → columns that are one value → text for that
}

func newSameness() *sameness { return &sameness{texts: map[string]map[columnSet]string{}} }

// columnSet has a bit for each column of a statement. Columns behind the 64th are always arrays.
type columnSet uint64

// fold binds the columns of an insert that are the same in all rows as one value. Where rows are
// joined with a table, a value that is known to be the same would offer the planner another way:
// all rows of a kind, say, instead of one by its key, which is right only while there are few. Rows
// are deleted by their ids, and no index has the other columns that are compared: there is no other
// way.
func (s *sameness) fold(st *sqldb.Statement) {
	if !strings.HasPrefix(st.Text, "insert ") && !strings.HasPrefix(st.Text, "delete ") || !strings.Contains(st.Text, unfolding) || len(st.Rows) == 0 || len(st.Args) > 0 {
		return
	}
	rows := st.Rows[0].Len()
	if rows == 0 {
		return
	}
	same := sameIn(st.Rows)
	text, chosen := s.choose(st.Text, same, rows)
	args := columnsOf(st.Rows)
	for i, column := range st.Rows {
		if chosen.has(i) {
			args[i] = column.At(0)
		}
	}
	st.Text, st.Args, st.Rows = text, args, nil
}

// choose returns the text in which the most of the columns stand as one value.
func (s *sameness) choose(text string, same columnSet, rows int) (string, columnSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.texts[text]
	if known == nil {
		known = map[columnSet]string{0: text}
		s.texts[text] = known
	}
	// One row has everything in common with itself, however many choices there are.
	if _, ok := known[same]; !ok && (rows == 1 || rows >= manyRows && len(known) <= maxChoices) {
		known[same] = folded(text, same)
	}
	best := columnSet(0)
	for choice := range known {
		if choice&^same == 0 && bits.OnesCount64(uint64(choice)) > bits.OnesCount64(uint64(best)) {
			best = choice
		}
	}
	return known[best], best
}

func (c columnSet) has(column int) bool { return column < 64 && c&(1<<column) != 0 }

// sameIn lists the columns that have one value in all rows.
func sameIn(columns []sqldb.Column) (same columnSet) {
	for i, column := range columns[:min(len(columns), 64)] {
		if isSame(column) {
			same |= 1 << i
		}
	}
	return same
}

func isSame(column sqldb.Column) bool {
	_, same := column.(sqldb.Same)
	return same || column.Len() == 1
}

// folded rewrites the unfolding of arrays in a statement: the columns of same become plain
// parameters.
func folded(text string, same columnSet) string {
	before, rest, _ := strings.Cut(text, unfolding)
	params, after, _ := strings.Cut(rest, unfoldingEnd)
	var list, arrays, names []string
	for i, param := range strings.Split(params, ", ") { // $1::bigint[]
		name := "u" + strconv.Itoa(i+1)
		if same.has(i) {
			list = append(list, strings.TrimSuffix(param, "[]"))
		} else {
			list, arrays, names = append(list, name), append(arrays, param), append(names, name)
		}
	}
	text = before + "select " + strings.Join(list, ", ")
	if len(arrays) > 0 {
		text += " from unnest(" + strings.Join(arrays, ", ") + ") u(" + strings.Join(names, ", ") + ")"
	}
	return text + after
}
