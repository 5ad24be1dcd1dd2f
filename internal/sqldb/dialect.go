package sqldb

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect holds the differences between the databases: strings and three functions, no methods to
// override.
//
// The shared texts are common SQL except for these tokens, which SQL fills in once when a store
// opens: the table prefix sj_, placeholders $1, $2, …, /*lock*/, /*lock alias*/, /*hit column*/,
// ints($n), texts($n), rows($1 type, …) and each($n type). The order of RETURNING rows differs:
// sort in Go. Integers are bigint, bytes are bytea or blob. An empty value is never NULL.
//
// A text with each($n type) is run for every row of its columns. With Arrays that is one statement
// over all rows, joined at /*from each*/, /*using each*/ or /*, each*/. Otherwise it is run once a
// row, and the tokens are removed.
type Dialect struct {
	Name   string                       // "sqlite" or "postgres"
	Param  string                       // stands before the number of a placeholder; "" is "$"
	Lock   string                       // locks the rows that a SELECT finds, without those that another transaction has locked
	Wait   string                       // locks the rows of the table with the alias %s, waiting for other transactions
	Hit    string                       // tells which rows of a Bulk changed something; %s is the column; "" if Bulk knows by itself
	Ints   string                       // unfolds an argument of type Ints to a column; %s is the placeholder
	Texts  string                       // the same for Texts
	Among  string                       // "in (ints($n))" where the database finds rows by a list better than by a query; %s is the unfolding of $n; "" if it does not
	Probe  string                       // a comparison by which a join is to look up each row, however few the planner believes there are; %s is its right side; "" is "= %s"
	Rows   func(params []string) string // the source of the rows of a Bulk; params are "$1 bigint", …
	Limit  string                       // of a number of rows that is an argument; %s is the placeholder; "" is "limit %s"
	Arrays bool                         // a column is bound as one array
	Busy   func(error) bool             // the whole transaction is worth another try
	Broken func(error) bool             // an I/O error or corruption, after which the store must refuse all work
	Over   map[string]string            // name of a text → a text of its own, where a measurement or a lock says so

	// Concurrent reports that several transactions may write at a time, in this process or in
	// others. The store then locks rows in ascending order before it decides by them, and checks
	// again after a commit where two transactions have no row in common.
	Concurrent bool
	// Writer is a query for the mark of the rows that this transaction has written; "" if the
	// database has no such mark. See trusted.
	Writer    string
	FindTable string // counts the tables with the name $1
	Shape     string // lists the schema of the tables with the prefix $1: the name of each object, its definition, and its table; see Migrator.Drift
	Migrating string // first statement of each step of a migration, which excludes other processes; "" if any write does

	Migrations []Migration // ascending, versions 1, 2, … without gaps
}

var (
	waitToken  = regexp.MustCompile(`/\*lock ([a-z_]+)\*/`)
	hitToken   = regexp.MustCompile(`/\*hit ([a-z_.]+)\*/`)
	amongToken = regexp.MustCompile(`\b(not )?in \(((?:ints|texts)\(\$[0-9]+\))\)`)
	listToken  = regexp.MustCompile(`\b(ints|texts)\((\$[0-9]+)\)`)
	rowsToken  = regexp.MustCompile(`\brows\((\$[0-9]+ [^()]*)\)`)
	eachToken  = regexp.MustCompile(`\beach\((\$([0-9]+) [a-z]+)\)`)
	joinToken  = regexp.MustCompile(`/\*(,|from|using) each\*/`)
	whereWord  = regexp.MustCompile(`\bwhere\b`)
	eachEqual  = regexp.MustCompile(`= (each\(\$[0-9]+ [a-z]+\))`)
	joinEqual  = regexp.MustCompile(`(\bjoin sj_[a-z]+ [a-z]+ on [a-z]+\.id) = ([a-z]+\.[a-z]+)`)
	limitToken = regexp.MustCompile(`\blimit (\$[0-9]+)`)
	paramToken = regexp.MustCompile(`\$([0-9]+)`)
	tableToken = regexp.MustCompile(`\bsj_`)
)

// SQL renders one text for this database: text, or the dialect's own one of that name ("" has
// none). prefix replaces sj_ at the beginning of names. Call it once for each text when a store
// opens, not for each call: it is slow.
func (d Dialect) SQL(prefix, name, text string) string {
	if own, ok := d.Over[name]; ok && name != "" {
		text = own
	}
	text = strings.ReplaceAll(text, "/*lock*/", d.Lock)
	text = waitToken.ReplaceAllStringFunc(text, func(token string) string {
		return strings.ReplaceAll(d.Wait, "%s", waitToken.FindStringSubmatch(token)[1])
	})
	text = hitToken.ReplaceAllStringFunc(text, func(token string) string {
		return strings.ReplaceAll(d.Hit, "%s", hitToken.FindStringSubmatch(token)[1])
	})
	text = amongToken.ReplaceAllStringFunc(text, func(token string) string {
		m := amongToken.FindStringSubmatch(token)
		if d.Among == "" || m[1] != "" {
			return token
		}
		return strings.ReplaceAll(d.Among, "%s", m[2])
	})
	text = listToken.ReplaceAllStringFunc(text, func(token string) string {
		m := listToken.FindStringSubmatch(token)
		unfold := d.Ints
		if m[1] == "texts" {
			unfold = d.Texts
		}
		return strings.ReplaceAll(unfold, "%s", m[2])
	})
	text = rowsToken.ReplaceAllStringFunc(text, func(token string) string {
		params := strings.Split(rowsToken.FindStringSubmatch(token)[1], ",")
		for i, p := range params {
			params[i] = strings.Join(strings.Fields(p), " ")
		}
		return d.Rows(params)
	})
	text = d.each(d.probe(text))
	if d.Limit != "" {
		text = limitToken.ReplaceAllStringFunc(text, func(token string) string {
			return strings.ReplaceAll(d.Limit, "%s", limitToken.FindStringSubmatch(token)[1])
		})
	}
	if d.Param != "" && d.Param != "$" {
		text = paramToken.ReplaceAllString(text, d.Param+"$1")
	}
	return tableToken.ReplaceAllLiteralString(text, prefix)
}

// probe renders the comparisons that find rows: of joins by ids, and of each.
func (d Dialect) probe(text string) string {
	if d.Probe == "" {
		return text
	}
	text = joinEqual.ReplaceAllString(text, "$1 "+strings.ReplaceAll(d.Probe, "%s", "$2"))
	where := whereWord.FindStringIndex(text)
	if where == nil {
		return text
	}
	return text[:where[0]] + eachEqual.ReplaceAllString(text[where[0]:], strings.ReplaceAll(d.Probe, "%s", "$1"))
}

// each renders the tokens of a text that is run for every row of its columns.
func (d Dialect) each(text string) string {
	if !d.Arrays {
		return joinToken.ReplaceAllLiteralString(eachToken.ReplaceAllString(text, "$$$2"), "")
	}
	params := map[int]string{}
	for _, m := range eachToken.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2]) // the token has digits only
		params[n] = m[1]
	}
	var list, names []string
	for n := 1; n <= len(params); n++ {
		list, names = append(list, params[n]), append(names, "c"+strconv.Itoa(n))
	}
	text = joinToken.ReplaceAllStringFunc(text, func(token string) string {
		return joinToken.FindStringSubmatch(token)[1] + " (" + d.Rows(slices.Clone(list)) + ") v(" + strings.Join(names, ", ") + ")"
	})
	return eachToken.ReplaceAllString(text, "v.c$2")
}

// Newest is the version of the last migration.
func (d Dialect) Newest() int {
	if n := len(d.Migrations); n > 0 {
		return d.Migrations[n-1].Version
	}
	return 0
}
