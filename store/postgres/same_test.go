package postgres

import (
	"fmt"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

func TestFoldBindsWhatIsTheSameOnce(t *testing.T) {
	d, err := newDialect(options{prefix: "sj_"})
	if err != nil {
		t.Fatal(err)
	}
	ids := sqldb.Ints{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	same, empty := sqldb.Same{Value: "", N: len(ids)}, sqldb.Same{Value: []byte{}, N: len(ids)}
	last := append(make(sqldb.Texts, len(ids)-1), "another")
	for _, c := range []struct {
		text string
		rows []sqldb.Column
		want string
		args []any
	}{
		{"insert into sj_a (a, b, c) rows($1 bigint, $2 text, $3 bytea)", []sqldb.Column{ids, same, empty},
			"insert into sj_a (a, b, c) select u1, $2::text, $3::bytea from unnest($1::bigint[]) u(u1)", []any{ids, "", []byte{}}},
		{"insert into sj_a (a, b) rows($1 bigint, $2 text)", []sqldb.Column{ids, last}, "insert into sj_a (a, b) select * from unnest($1::bigint[], $2::text[])", []any{ids, last}},
		{"insert into sj_a (a, b, c) rows($1 bigint, $2 text, $3 bytea)", []sqldb.Column{ids[:1], sqldb.Texts{""}, sqldb.Blobs{{7}}},
			"insert into sj_a (a, b, c) select $1::bigint, $2::text, $3::bytea", []any{int64(1), "", []byte{7}}},
		{"update sj_a set b = each($2 text) /*from each*/ where id = each($1 bigint) and c = each($3 bigint) /*hit id*/", []sqldb.Column{ids, same, ids},
			// One value for all would let the planner read all rows that have it: an answer took 30
			// ms once there were 6,000 keys of its kind.
			"update sj_a set b = v.c2 from (select * from unnest($1::bigint[], $2::text[], $3::bigint[])) v(c1, c2, c3) where id = any(array[v.c1]) and c = any(array[v.c3]) returning id", nil},
		{"select a from sj_a t /*, each*/ where t.b = each($1 text) and t.c = each($2 bigint)", []sqldb.Column{same, ids},
			"select a from sj_a t , (select * from unnest($1::text[], $2::bigint[])) v(c1, c2) where t.b = any(array[v.c1]) and t.c = any(array[v.c2])", nil},
		{"insert into sj_a (a) rows($1 bigint)", []sqldb.Column{ids}, "insert into sj_a (a) select * from unnest($1::bigint[])", []any{ids}},
		{"select a from sj_a where id in (ints($1))", []sqldb.Column{sqldb.Ints{5}}, "select a from sj_a where id = any(array(select unnest($1::bigint[])))", nil},
	} {
		st := sqldb.Statement{Text: d.SQL("sj_", "", c.text), Rows: c.rows}
		newSameness().fold(&st)
		if st.Text != c.want || fmt.Sprint(st.Args) != fmt.Sprint(c.args) || (c.args != nil) != (st.Rows == nil) {
			t.Errorf("%s\n got %s %v %v\nwant %s %v", c.text, st.Text, st.Args, st.Rows, c.want, c.args)
		}
	}
}

// TestFoldMakesFewTexts: each text is prepared on each connection, so that load which has ever
// other columns in common must not make ever more.
func TestFoldMakesFewTexts(t *testing.T) {
	s := newSameness()
	const columns = 10
	text := "insert into a " + unfolding
	for c := range columns {
		text += fmt.Sprintf("$%d::bigint[], ", c+1)
	}
	text = text[:len(text)-2] + unfoldingEnd
	texts := map[string]bool{}
	fold := func(rows int, same columnSet) (bound int) {
		st := sqldb.Statement{Text: text}
		for c := range columns {
			if same.has(c) {
				st.Rows = append(st.Rows, sqldb.Same{Value: int64(c), N: rows})
			} else {
				st.Rows = append(st.Rows, make(sqldb.Ints, rows))
			}
		}
		s.fold(&st)
		texts[st.Text] = true
		for _, a := range st.Args {
			if _, ok := a.(int64); ok {
				bound++
			}
		}
		return bound
	}
	if n := fold(manyRows-1, 0b1110); n != 0 {
		t.Errorf("%d columns of a few rows were taken for the rule", n)
	}
	if n := fold(manyRows, 0b1110); n != 3 {
		t.Errorf("%d columns were bound once, want 3", n)
	}
	if n := fold(2, 0b1111110); n != 3 {
		t.Errorf("%d columns of a few rows were bound once, want the 3 that are known", n)
	}
	for same := range columnSet(1 << columns) {
		fold(manyRows, same)
	}
	if n := fold(1, 0); n != columns {
		t.Errorf("%d columns of one row were bound once", n)
	}
	if len(texts) > maxChoices+2 { // with arrays alone, and of one row
		t.Errorf("%d texts", len(texts))
	}
	if n := fold(manyRows, 1<<columns-1); n == 0 {
		t.Error("what is known is not used any more")
	}
}
