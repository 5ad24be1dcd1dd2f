package sqldb

import (
	"bytes"
	"strings"
	"testing"
)

func TestSQLRendersTokens(t *testing.T) {
	lite := Dialect{
		Param: "?", Limit: "limit +%s", Ints: "select value from json_each(%s)", Texts: "select value from texts_each(%s)",
		Rows: func(ps []string) string {
			for i := range ps {
				ps[i], _, _ = strings.Cut(ps[i], " ")
			}
			return "values (" + strings.Join(ps, ", ") + ")"
		},
	}
	pg := Dialect{
		Arrays: true, Lock: "for update skip locked", Wait: "for update of %s", Hit: "returning %s", Ints: "select unnest(%s::bigint[])", Texts: "select unnest(%s::text[])",
		Among: "= any(array(%s))",
		Rows:  func(ps []string) string { return "select * from unnest(" + strings.Join(ps, "|") + ")" },
		Over:  map[string]string{"end": "delete from sj_own where id = $1", "": "never"},
	}
	for _, c := range []struct{ name, text, lite, pg string }{
		{"", "select id from sj_live l, (sj_key) where $2 = $1 /*lock*/", "select id from app_live l, (app_key) where ?2 = ?1 ",
			"select id from app_live l, (app_key) where $2 = $1 for update skip locked"},
		{"", "select l.id from sj_live l order by l.id /*lock l*/", "select l.id from app_live l order by l.id ", "select l.id from app_live l order by l.id for update of l"},
		{"", "x in (ints($1)) or y in (texts($12)) or z in (ints($2))",
			"x in (select value from json_each(?1)) or y in (select value from texts_each(?12)) or z in (select value from json_each(?2))",
			"x = any(array(select unnest($1::bigint[]))) or y = any(array(select unnest($12::text[]))) or z = any(array(select unnest($2::bigint[])))"},
		{"", "x not in (ints($1)) or y in (ints($2) union select 1)", "x not in (select value from json_each(?1)) or y in (select value from json_each(?2) union select 1)",
			"x not in (select unnest($1::bigint[])) or y in (select unnest($2::bigint[]) union select 1)"},
		{"", "insert into sj_t rows($1 bigint,\n\t$2 text, $3 bytea) /*hit t.id*/", "insert into app_t values (?1, ?2, ?3) ",
			"insert into app_t select * from unnest($1 bigint|$2 text|$3 bytea) returning t.id"},
		{"", "update sj_t set a = each($2 text) /*from each*/ where id = each($1 bigint) /*hit id*/", "update app_t set a = ?2  where id = ?1 ",
			"update app_t set a = v.c2 from (select * from unnest($1 bigint|$2 text)) v(c1, c2) where id = v.c1 returning id"},
		{"", "select a from sj_t t /*, each*/ where t.id = each($1 bigint)", "select a from app_t t  where t.id = ?1",
			"select a from app_t t , (select * from unnest($1 bigint)) v(c1) where t.id = v.c1"},
		{"", "select a from sj_t limit $2", "select a from app_t limit +?2", "select a from app_t limit $2"},
		{"end", "delete from sj_live", "delete from app_live", "delete from app_own where id = $1"},
		{"", "select msj_x, '$.a', prints($1), sum(rows), count(ints)", "select msj_x, '$.a', prints(?1), sum(rows), count(ints)",
			"select msj_x, '$.a', prints($1), sum(rows), count(ints)"},
	} {
		if got := lite.SQL("app_", c.name, c.text); got != c.lite {
			t.Errorf("%q\n got %q\nwant %q", c.text, got, c.lite)
		}
		if got := pg.SQL("app_", c.name, c.text); got != c.pg {
			t.Errorf("%q\n got %q\nwant %q", c.text, got, c.pg)
		}
	}
}

func TestColumns(t *testing.T) {
	if got := (Ints{}).JSON() + (Ints{-1 << 63, 0, 7}).JSON(); got != "[][-9223372036854775808,0,7]" {
		t.Error(got)
	}
	if got := (Texts{"", "a\"b\\", "\x00\n\xff"}).JSON(); got != `["","a\"b\\","\u0000\u000a`+"\xff\"]" {
		t.Errorf("%q", got)
	}
	blobs := Blobs{nil, {1}}
	if b, ok := blobs.At(0).([]byte); !ok || b == nil {
		t.Error("nil bytes must be empty bytes")
	}
	array := blobs.Array().([][]byte)
	if array[0] == nil || !bytes.Equal(array[1], []byte{1}) || blobs[0] != nil {
		t.Error("Array:", array, "or the column itself was changed:", blobs)
	}
}
