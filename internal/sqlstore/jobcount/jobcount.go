// Package jobcount counts jobs by queue, kind and state, and collects what one transaction changes
// (docs/decisions/062-maintained-counts.md). It knows no database.
package jobcount

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Key identifies a row of numbers.
type Key struct{ Queue, Kind string }

// Numbers are the numbers of jobs of a queue and kind, or changes of them, in the order of
// Names: those of each state, the resumed ones apart from other ready ones, and at last the
// weight that they hold.
type Numbers [11]int64

// Names are the columns of Numbers in sj_count and sj_count_change.
var Names = []string{"blocked", "scheduled", "ready", "resumed", "running", "awaiting", "errored", "completed", "failed", "cancelled", "held"}

// resumedCount is the place of resumed jobs in Numbers, heldCount that of the weight.
const (
	resumedCount = 3
	heldCount    = 10
)

// place is where Numbers counts jobs of a state.
func place(state sojourn.State, resumed bool) int {
	switch {
	case state == sojourn.Ready && resumed:
		return resumedCount
	case state <= sojourn.Ready:
		return int(state) - 1
	}
	return int(state)
}

// Of returns the number of jobs in a state; the resumed ones are ready.
func (c *Numbers) Of(state sojourn.State) int64 {
	if state == sojourn.Ready {
		return c[place(state, false)] + c[resumedCount]
	}
	return c[place(state, false)]
}

// Resumed returns the number of resumed jobs.
func (c *Numbers) Resumed() int64 { return c[resumedCount] }

// Held returns the weight in flight.
func (c *Numbers) Held() int64 { return c[heldCount] }

// AddAll adds other numbers to these.
func (c *Numbers) AddAll(other *Numbers) {
	for i, n := range other {
		c[i] += n
	}
}

// String names the numbers that are not 0.
func (c *Numbers) String() string {
	var texts []string
	for i, n := range c {
		if n != 0 {
			texts = append(texts, strconv.FormatInt(n, 10)+" "+Names[i])
		}
	}
	return strings.Join(texts, ", ")
}

// Changes are the changes of a transaction that are not written yet. The zero value is empty.
type Changes struct {
	Off  bool // nothing is counted, see Without.Counts
	rows []Change
	at   map[Key]int // their places
	last int         // the place of the change before
}

// Change is a change of the numbers of a queue and kind.
type Change struct {
	Key
	Numbers
}

// of returns the change of a queue and kind.
func (c *Changes) of(queue, kind string) *Change {
	if c.last < len(c.rows) {
		if r := &c.rows[c.last]; r.Queue == queue && r.Kind == kind {
			return r
		}
	}
	k := Key{queue, kind}
	i, ok := c.at[k]
	if !ok {
		if c.at == nil {
			c.at = map[Key]int{}
		}
		i = len(c.rows)
		c.at[k] = i
		c.rows = append(c.rows, Change{Key: k})
	}
	c.last = i
	return &c.rows[i]
}

// Stored counts a row that is inserted into sj_live.
func (c *Changes) Stored(l *jobrow.Row) {
	if c.Off {
		return
	}
	r := c.of(l.Queue, l.Kind)
	r.Numbers[place(l.State, l.Resumed)]++
	r.Numbers[heldCount] += int64(l.Held)
}

// Moved counts the change of a row: was became l, which holds held.
func (c *Changes) Moved(was, l *jobrow.Row, held int32) {
	from, to := place(was.State, was.Resumed), place(l.State, l.Resumed)
	if c.Off || from == to && was.Held == held && was.Queue == l.Queue && was.Kind == l.Kind {
		return
	}
	r := c.of(was.Queue, was.Kind)
	r.Numbers[from]--
	r.Numbers[heldCount] -= int64(was.Held)
	r = c.of(l.Queue, l.Kind)
	r.Numbers[to]++
	r.Numbers[heldCount] += int64(held)
}

// Started counts a row that a bulk start has changed from ready to l.
func (c *Changes) Started(l *jobrow.Row) {
	if c.Off {
		return
	}
	c.of(l.Queue, l.Kind).Numbers[place(sojourn.Ready, false)]--
	c.Stored(l)
}

// Removed counts a row that is deleted from sj_final.
func (c *Changes) Removed(queue, kind string, state sojourn.State) {
	if c.Off {
		return
	}
	c.of(queue, kind).Numbers[place(state, false)]--
}

// Correct adds a difference that a recount has found.
func (c *Changes) Correct(k Key, by *Numbers) {
	c.of(k.Queue, k.Kind).AddAll(by)
}

// Rows are the parameters of rows of numbers, for a statement: the numbers, the queue and the kind.
func Rows() string {
	params := make([]string, len(Names)+2)
	for i := range params {
		params[i] = "$" + strconv.Itoa(i+1) + " bigint"
	}
	params[len(params)-2] = "$" + strconv.Itoa(len(params)-1) + " text"
	params[len(params)-1] = "$" + strconv.Itoa(len(params)) + " text"
	return "rows(" + strings.Join(params, ", ") + ")"
}

// Each joins a text for each of Names.
func Each(sep string, of func(name string) string) string {
	texts := make([]string, len(Names))
	for i, n := range Names {
		texts[i] = of(n)
	}
	return strings.Join(texts, sep)
}

// ReadyIn returns the change of the number of ready jobs of a queue, of all kinds.
func (c *Changes) ReadyIn(queue string) (n int64) {
	for i := range c.rows {
		if r := &c.rows[i]; r.Queue == queue {
			n += r.Numbers.Of(sojourn.Ready)
		}
	}
	return n
}

// Take empties the changes and returns those that change a number, in the order of their keys.
func (c *Changes) Take() []Change {
	rows := slices.DeleteFunc(c.rows, func(r Change) bool { return r.Numbers == Numbers{} })
	slices.SortFunc(rows, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind)) })
	*c = Changes{Off: c.Off}
	return rows
}

// Any reports whether there are changes.
func (c *Changes) Any() bool { return len(c.rows) > 0 }

// OnlyLess reports whether the change makes no number larger, so that nothing may be left to count.
func (c *Change) OnlyLess() bool { return slices.Max(c.Numbers[:]) <= 0 }

// Columns are changes as rows of a statement with Rows.
func Columns(rows []Change) *jobrow.Columns {
	s := jobrow.NewColumns(len(rows), len(Names)-1, 2, 0)
	for i := range rows {
		r := &rows[i]
		s.Row(r.Numbers[0]).Ints(r.Numbers[1:]...).Strings(r.Queue, r.Kind)
	}
	return s
}
