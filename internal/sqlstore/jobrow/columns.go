package jobrow

import (
	"fmt"
	"slices"
	"strings"
)

// column is a column of sj_live. One of its functions is set: it returns the field of the row. Both
// encode and decode are set if the value is stored as an encoded text.
type column struct {
	name   string
	long   func(*Row) *int64
	short  func(*Row) *int32
	code   func(*Row) *uint8
	flag   func(*Row) *bool
	text   func(*Row) *string
	encode func(*Row) string
	decode func(*Decoder, *Row, string) error
	fixed  bool // no update changes it
}

// isText reports whether the column is a text; others are numbers.
func (c *column) isText() bool { return c.text != nil || c.encode != nil }

// liveTable has the columns of sj_live except the id: numbers, then texts. All statements over
// whole rows follow it, so a new column needs one line here, besides the migration. It must have a
// default there unless the inserts below name it.
var liveTable = [...]column{
	{name: "state", code: func(l *Row) *uint8 { return (*uint8)(&l.State) }},
	{name: "resumed", flag: func(l *Row) *bool { return &l.Resumed }},
	{name: "purpose", code: func(l *Row) *uint8 { return (*uint8)(&l.Purpose) }},
	{name: "r1", long: func(l *Row) *int64 { return &l.R1 }},
	{name: "r2", long: func(l *Row) *int64 { return &l.R2 }},
	{name: "priority", short: func(l *Row) *int32 { return &l.Priority }},
	{name: "weight", short: func(l *Row) *int32 { return &l.Weight }},
	{name: "run_at_us", long: func(l *Row) *int64 { return &l.RunAt }},
	{name: "wake_at_us", long: func(l *Row) *int64 { return &l.WakeAt }},
	{name: "generation", short: func(l *Row) *int32 { return &l.Generation }},
	{name: "epoch", long: func(l *Row) *int64 { return &l.Epoch }},
	{name: "lease_until_us", long: func(l *Row) *int64 { return &l.LeaseUntil }},
	{name: "lease_us", long: func(l *Row) *int64 { return &l.LeaseUs }},
	{name: "began_us", long: func(l *Row) *int64 { return &l.BeganAt }},
	{name: "attempt", short: func(l *Row) *int32 { return &l.Attempt }},
	{name: "attempt_open", flag: func(l *Row) *bool { return &l.AttemptOpen }},
	{name: "failures", short: func(l *Row) *int32 { return &l.Failures }},
	{name: "crashes", short: func(l *Row) *int32 { return &l.Crashes }},
	{name: "claimed", flag: func(l *Row) *bool { return &l.Claimed }},
	{name: "retry_handler", flag: func(l *Row) *bool { return &l.RetryHandler }},
	{name: "held", short: func(l *Row) *int32 { return &l.Held }},
	{name: "kept", short: func(l *Row) *int32 { return &l.Kept }},
	{name: "in_hand", short: func(l *Row) *int32 { return &l.InHand }},
	{name: "given", flag: func(l *Row) *bool { return &l.Given }},
	{name: "no_poll", flag: func(l *Row) *bool { return &l.NoPoll }},
	{name: "wait_until_us", long: func(l *Row) *int64 { return &l.WaitUntil }},
	{name: "beat_until_us", long: func(l *Row) *int64 { return &l.BeatUntil }},
	{name: "poll_at_us", long: func(l *Row) *int64 { return &l.PollAt }},
	{name: "timeout_at_us", long: func(l *Row) *int64 { return &l.TimeoutAt }},
	{name: "rested_us", long: func(l *Row) *int64 { return &l.ResumedAt }},
	{name: "decide_by_us", long: func(l *Row) *int64 { return &l.DecideBy }},
	{name: "deadline_us", long: func(l *Row) *int64 { return &l.Deadline }},
	{name: "history", short: func(l *Row) *int32 { return &l.History }},
	{name: "has_data", flag: func(l *Row) *bool { return &l.HasData }},
	{name: "updated_us", long: func(l *Row) *int64 { return &l.UpdatedAt }},
	{name: "waits", short: func(l *Row) *int32 { return &l.Waits }},
	{name: "stage", short: func(l *Row) *int32 { return &l.Stage }},
	{name: "waits_for", short: func(l *Row) *int32 { return &l.WaitsFor }},
	{name: "dependents", flag: func(l *Row) *bool { return &l.Dependents }},
	{name: "children_done", flag: func(l *Row) *bool { return &l.ChildrenDone }},
	{name: "workflow", long: func(l *Row) *int64 { return &l.Workflow }, fixed: true},
	{name: "born_us", long: func(l *Row) *int64 { return &l.BornAt }, fixed: true},
	{name: "queue", text: func(l *Row) *string { return &l.Queue }},
	{name: "kind", text: func(l *Row) *string { return &l.Kind }, fixed: true},
	{name: "key", text: func(l *Row) *string { return &l.Key }},
	{name: "worker", text: func(l *Row) *string { return &l.Worker }},
	{name: "wait", encode: waitJSON, decode: decodeWait},
	{name: "lane", text: func(l *Row) *string { return &l.Lane }},
}

// LiveColumns is the list of columns that Decoder.Scan reads, from sj_live l join sj_job j. Further
// columns of a statement follow it, from LiveColumnCount on.
var LiveColumns = "l.id, " + strings.Join(columnNames(liveTable[:], "l."), ", ") + ", j.grp, j.policy"

// LiveColumnCount is the number of columns in LiveColumns.
const LiveColumnCount = len(liveTable) + 3

// RowWrite is a bulk statement over rows of sj_live, with the columns that it binds after the id,
// and after state and epoch if it is an update: first numbers, then texts.
type RowWrite struct {
	Text           string
	Numbers, Texts []column
}

// Fill adds the values of rows to columns, in which each row was begun. first is the number of
// columns of numbers that precede those of the statement.
func (w *RowWrite) Fill(s *Columns, first int, rows []*Row) {
	for i := range w.Numbers {
		to := &s.numbers[first+i]
		switch c := &w.Numbers[i]; {
		case c.long != nil:
			fillNumbers(to, s.rows, rows, c.long)
		case c.short != nil:
			fillNumbers(to, s.rows, rows, c.short)
		case c.code != nil:
			fillNumbers(to, s.rows, rows, c.code)
		default:
			for _, l := range rows {
				to.add(s.rows, Bit(*c.flag(l)))
			}
		}
	}
	for i := range w.Texts {
		c, to := &w.Texts[i], &s.texts[i]
		for _, l := range rows {
			if c.text != nil {
				to.add(s.rows, *c.text(l))
			} else {
				to.add(s.rows, c.encode(l))
			}
		}
	}
}

// Change names the only event that has changed a row in a transaction, so that fewer columns need
// be written. A row that changed otherwise, or twice, is ByAny.
type Change uint8

// The events that have an update of their own in Updates.
const (
	ByAny    Change = iota
	ByClaim         // a claim that starts or resumes the job
	ByAnswer        // a response that ends its wait
)

// Updates are the updates of rows, by Change. Those after the first bind only the columns that
// change, because each binding costs time: a column that a claim or a response changes must be
// named here.
var Updates = [...]RowWrite{
	ByAny: updateRows("", changing()),
	ByClaim: updateRows("state = 4, resumed = 0, claimed = 1, rested_us = 0, decide_by_us = 0, poll_at_us = 0, ",
		columnsNamed(`purpose wake_at_us epoch lease_until_us lease_us began_us attempt attempt_open retry_handler held given
			timeout_at_us updated_us worker`)),
	ByAnswer: updateRows(`state = 3, resumed = 1, given = 0, wait_until_us = 0, beat_until_us = 0, poll_at_us = 0, decide_by_us = 0,
		waits = waits + 1, `, columnsNamed(`r1 r2 wake_at_us kept in_hand rested_us history updated_us`)),
}

// The inserts of rows. They leave out the columns that still have their defaults.
var (
	// InsertWaiting inserts rows that were not claimed in their generation.
	InsertWaiting = insertRows(columnsNamed(`state r1 r2 priority weight run_at_us wake_at_us generation epoch deadline_us history has_data
		updated_us born_us queue kind key worker lane`))
	// InsertLinked inserts rows of jobs that wait for others, or that others wait for, or that
	// belong to a workflow, or that begin another generation.
	InsertLinked = insertRows(columnsNamed(`state r1 r2 priority weight run_at_us wake_at_us generation epoch deadline_us history has_data
		updated_us born_us stage waits_for dependents workflow queue kind key worker lane`))
	// InsertStarted inserts rows that a claim of the same transaction has started.
	InsertStarted = insertRows(columnsNamed(`state r1 r2 priority weight run_at_us wake_at_us generation epoch deadline_us history has_data
		updated_us born_us purpose lease_until_us lease_us began_us attempt attempt_open claimed retry_handler held given timeout_at_us
		queue kind key worker lane`))
)

// fillNumbers adds the values of one column.
func fillNumbers[T int64 | int32 | uint8](to *cell[int64], n int, rows []*Row, at func(*Row) *T) {
	for _, l := range rows { // most rows agree: without a call
		if v := int64(*at(l)); to.all == nil && v == to.same && to.n > 0 {
			to.n++
		} else {
			to.add(n, v)
		}
	}
}

// columnsNamed returns the columns with these names, which must have numbers before texts.
func columnsNamed(names string) []column {
	var out []column
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(liveTable[:], func(c column) bool { return c.name == name })
		if i < 0 {
			panic("sj_live has no column " + name)
		}
		out = append(out, liveTable[i])
	}
	return out
}

// bind numbers the placeholders of the columns from first on, each formatted with its name.
func (w *RowWrite) bind(columns []column, first int, format func(name, placeholder string) string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		sort := "bigint"
		if c.isText() {
			sort = "text"
			w.Texts = append(w.Texts, c)
		} else if w.Numbers = append(w.Numbers, c); len(w.Texts) > 0 {
			panic("Columns has numbers before texts, so " + c.name + " cannot follow them")
		}
		parts[i] = format(c.name, fmt.Sprintf("$%d %s", first+i, sort))
	}
	return strings.Join(parts, ", ")
}

// updateRows is an update of columns, of rows that still have the state and epoch that were read
// (inv:F2). always sets the columns that are the same for all rows.
func updateRows(always string, columns []column) (w RowWrite) {
	set := w.bind(columns, 4, func(name, p string) string { return name + " = each(" + p + ")" })
	w.Text = "update sj_live set " + always + set +
		" /*from each*/ where id = each($1 bigint) and state = each($2 bigint) and epoch = each($3 bigint) /*hit id*/"
	return w
}

// insertRows is an insert of rows that have the defaults of the table in all other columns.
func insertRows(columns []column) (w RowWrite) {
	values := w.bind(columns, 2, func(_, p string) string { return p })
	w.Text = "insert into sj_live (id, " + strings.Join(columnNames(columns, ""), ", ") + ") rows($1 bigint, " + values + ")"
	return w
}

// changing returns the columns of an update of whole rows.
func changing() (columns []column) {
	for _, c := range liveTable {
		if !c.fixed {
			columns = append(columns, c)
		}
	}
	return columns
}

// columnNames lists the names of columns, each with a prefix.
func columnNames(columns []column, prefix string) []string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = prefix + columns[i].name
	}
	return names
}
