package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const testTable = "create table if not exists sj_t (id integer primary key, name text not null, body blob) strict"

// each runs fn on a file and in memory: both must behave in the same way.
func each(t *testing.T, fn func(t *testing.T, d *DB)) {
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), "jobs.db"), "memory": inMemory} {
		t.Run(name, func(t *testing.T) { fn(t, openTest(t, path)) })
	}
}

func openTest(t *testing.T, path string, list ...Option) *DB {
	t.Helper()
	o, err := newOptions(list)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	execute(t, d, testTable)
	return d
}

func execute(t *testing.T, d *DB, q string, args ...any) (changed int64) {
	t.Helper()
	err := d.Update(t.Context(), func(c sqldb.Conn) (err error) { changed, err = c.Exec(q, args...); return })
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func count(t *testing.T, d *DB) (n int64) {
	t.Helper()
	err := d.View(t.Context(), func(c sqldb.Conn) error {
		return c.Query("select count(*) from sj_t", func(r sqldb.Row) error { n = r.Int(0); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Bytes and texts of any content come back unchanged.
func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		const name = "a\x00b\xff'\"\\\n"
		for id, body := range [][]byte{{0, 0xff, 'x', 0xc3, 0}, {}, nil, bytes.Repeat([]byte{0, 1, 2}, 100_000)} {
			execute(t, d, "insert into sj_t (id, name, body) values ($1, $2, $3)", id, name, body)
			err := d.View(t.Context(), func(c sqldb.Conn) error {
				return c.Query("select id, name, body, body is null from sj_t where id = $1", func(r sqldb.Row) error {
					got := r.Bytes(2)
					if r.Int(0) != int64(id) || r.Text(1) != name || !bytes.Equal(got, body) || got == nil || r.Int(3) != 0 {
						t.Errorf("row %d: %d %q %d bytes, nil %v, null %d", id, r.Int(0), r.Text(1), len(got), got == nil, r.Int(3))
					}
					if !bytes.Equal(r.Bytes(1), []byte(name)) {
						t.Errorf("text as bytes: %q", r.Bytes(1))
					}
					return nil
				}, id)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		rows := 0
		err := d.View(t.Context(), func(c sqldb.Conn) error {
			return c.Query("select $1, $2, $3, $4", func(r sqldb.Row) error {
				rows++
				if r.Int(0) != 0 || r.Text(0) != "" || r.Bytes(0) != nil || r.Int(1) != 1 || r.Int(2) != -1<<63 || r.Text(3) != "" {
					t.Error("NULL, true, the smallest integer or the empty text were changed")
				}
				return nil
			}, nil, true, int64(-1<<63), "")
		})
		if err != nil || rows != 1 {
			t.Error(rows, err)
		}
	})
}

// ints and texts unfold to their arguments, byte for byte.
func TestUnfold(t *testing.T) {
	d := openTest(t, inMemory)
	texts := sqldb.Texts{"", "a\x00b", "\xff\xc3", "\"\\/'", "\x1f\n", "käse\U0001f9c0"}
	ints := sqldb.Ints{1 << 53, -1 << 63, 1<<63 - 1, 0}
	var gotTexts sqldb.Texts
	var gotInts sqldb.Ints
	unfold := func(c sqldb.Conn, q string, a any, each func(sqldb.Row)) error {
		return c.Query(d.Dialect().SQL("sj_", "", q), func(r sqldb.Row) error { each(r); return nil }, a)
	}
	err := d.View(t.Context(), func(c sqldb.Conn) error {
		return errors.Join(
			unfold(c, "select * from (texts($1))", texts, func(r sqldb.Row) { gotTexts = append(gotTexts, r.Text(0)) }),
			unfold(c, "select * from (ints($1))", ints, func(r sqldb.Row) { gotInts = append(gotInts, r.Int(0)) }))
	})
	if err != nil || !slices.Equal(gotTexts, texts) || !slices.Equal(gotInts, ints) {
		t.Errorf("%q %v %v", gotTexts, gotInts, err)
	}
}

func TestBulk(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		sql := func(q string) string { return d.Dialect().SQL("sj_", "", q) }
		insert := sql("insert into sj_t (id, name, body) rows($1 bigint, $2 text, $3 bytea) on conflict (id) do nothing /*hit id*/")
		var hits []int64
		hit := func(id int64) { hits = append(hits, id) }
		err := d.Update(t.Context(), func(c sqldb.Conn) error {
			ids, names, bodies := sqldb.Ints{3, 1, 3, 2}, sqldb.Texts{"c", "a", "again", "b"}, sqldb.Blobs{{1}, nil, {3}, {4}}
			if err := c.Bulk(insert, hit, ids, names, bodies); err != nil {
				return err
			}
			// placeholders go by their number, not by their place
			update := sql("update sj_t set name = $2 where id = $1 /*hit id*/")
			if err := c.Bulk(update, hit, sqldb.Ints{2, 9}, sqldb.Texts{"B", "nobody"}); err != nil {
				return err
			}
			return c.Bulk(insert, hit, nil, sqldb.Texts{}, sqldb.Blobs{})
		})
		if err != nil || fmt.Sprint(hits) != "[3 1 2 2]" {
			t.Fatal(hits, err)
		}
		var got string
		err = d.View(t.Context(), func(c sqldb.Conn) error {
			return c.Query("select id, name, body is null from sj_t order by id", func(r sqldb.Row) error {
				got += fmt.Sprint(r.Int(0), r.Text(1), r.Int(2), ";")
				return nil
			})
		})
		if err != nil || got != "1a0;2B0;3c0;" {
			t.Error(got, err)
		}
		err = d.Update(t.Context(), func(c sqldb.Conn) error {
			if err := c.Bulk(insert, nil, sqldb.Ints{7, 8}, sqldb.Texts{"x"}, sqldb.Blobs{nil, nil}); err == nil {
				t.Error("columns of different lengths were accepted")
			}
			return c.Bulk("insert into sj_t (id, name) values ($1, nullif($2, 'bad'))", nil, sqldb.Ints{7, 8}, sqldb.Texts{"x", "bad"})
		})
		if err == nil || !strings.Contains(err.Error(), "row 1") || count(t, d) != 3 {
			t.Error("a row that fails must be named and take the others with it:", err, count(t, d))
		}
	})
}

// Misuse is an error, never a silent surprise.
func TestMisuse(t *testing.T) {
	d := openTest(t, inMemory)
	execute(t, d, "insert into sj_t (id, name) values (1, 'a'), (2, 'b')")
	var kept sqldb.Conn
	const all = "select id from sj_t"
	err := d.Update(t.Context(), func(c sqldb.Conn) error {
		kept = c
		for name, err := range map[string]error{
			"too few":  c.Query("select $1, $2", nil, 1),
			"too many": c.Query("select 1", nil, 1),
			"type":     c.Query("select $1", nil, 1.5),
			"syntax":   c.Query("select from", nil),
			"nested": c.Query(all, func(sqldb.Row) error {
				return c.Query(all, func(sqldb.Row) error { return nil })
			}),
		} {
			if err == nil {
				t.Error(name, "was accepted")
			}
		}
		rows := 0
		err := c.Query(all, func(r sqldb.Row) error {
			_, err := c.Exec("update sj_t set name = 'x' where id = $1", r.Int(0))
			rows++
			return err
		})
		if rows != 2 {
			t.Error("another text inside of a query must not disturb it:", rows)
		}
		return err
	})
	if err != nil {
		t.Error("errors of single statements must not end the transaction:", err)
	}
	if _, err := kept.Exec("delete from sj_t"); !errors.Is(err, errOutside) || count(t, d) != 2 {
		t.Error("a Conn outside of its transaction:", err)
	}
}

func TestRollback(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		mine := errors.New("mine")
		insert := func(c sqldb.Conn) {
			if _, err := c.Exec("insert into sj_t (id, name) values (1, 'a')"); err != nil {
				t.Error(err)
			}
		}
		if err := d.Update(t.Context(), func(c sqldb.Conn) error { insert(c); return mine }); err != mine {
			t.Error(err)
		}
		func() {
			defer func() {
				if recover() != "mine" {
					t.Error("the panic was lost")
				}
			}()
			d.Update(t.Context(), func(c sqldb.Conn) error { insert(c); panic("mine") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		if err := d.Update(ctx, func(c sqldb.Conn) error { insert(c); cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Error("ctx ended before the commit:", err)
		}
		if n := count(t, d); n != 0 {
			t.Error(n, "rows of failed transactions")
		}
		err := d.View(t.Context(), func(c sqldb.Conn) error { _, err := c.Exec("delete from sj_t"); return err })
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultReadOnly {
			t.Error("a write in a View:", err)
		}
		if execute(t, d, "insert into sj_t (id, name) values (1, 'a'), (2, 'b')") != 2 || count(t, d) != 2 {
			t.Error("the connection is not usable after all this")
		}
	})
}

// A full disk makes SQLite roll the whole transaction back. If fn continues after that, none of its
// statements may commit by itself.
func TestRolledBackBySQLite(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "jobs.db"))
	execute(t, d, "insert into sj_t (id, name) values (1, 'a')")
	c := <-d.writer
	if err := run(c.raw, "pragma max_page_count=10"); err != nil {
		t.Fatal(err)
	}
	d.writer <- c
	err := d.Update(t.Context(), func(c sqldb.Conn) error {
		if _, err := c.Exec("insert into sj_t (id, name) values (2, 'lost')"); err != nil {
			t.Error(err)
		}
		if _, err := c.Exec("insert into sj_t (id, name, body) values (3, '', zeroblob(1000000))"); sqlite.ErrCode(err) != sqlite.ResultFull {
			t.Error("no full disk:", err)
		}
		c.Exec("insert into sj_t (id, name) values (4, 'alone')")
		return nil // swallows the errors
	})
	if sqlite.ErrCode(err) != sqlite.ResultFull || count(t, d) != 1 {
		t.Error(err, count(t, d))
	}
	if d.Dialect().Broken(err) {
		t.Error("a full disk is not a broken one")
	}
	execute(t, d, "insert into sj_t (id, name) values (5, 'fits')")
}

// Values stay bound from row to row, so each row must get its own values, independent of those of
// the row before.
func TestBulkBindsEachRow(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		ids := sqldb.Ints{1, 2, 3, 4, 5, 6}
		names := sqldb.Texts{"a", "a", "b", "", "", "a"}
		bodies := sqldb.Blobs{{1}, {1}, {2}, nil, {}, {1}}
		for range 2 { // the statement of the second comes from the cache
			err := d.Update(t.Context(), func(c sqldb.Conn) error {
				return errors.Join(
					c.Bulk("delete from sj_t where id = ?1", nil, ids),
					c.Bulk("insert into sj_t (id, name, body) values (?1, ?2, ?3)", nil, ids, names, bodies))
			})
			if err != nil {
				t.Fatal(err)
			}
			err = d.View(t.Context(), func(c sqldb.Conn) error {
				return c.Query("select id, name, body from sj_t order by id", func(r sqldb.Row) error {
					i := r.Int(0) - 1
					if r.Text(1) != names[i] || !bytes.Equal(r.Bytes(2), bodies[i]) || r.Bytes(2) == nil {
						t.Errorf("row %d: %q %v", i+1, r.Text(1), r.Bytes(2))
					}
					return nil
				})
			})
			if err != nil || count(t, d) != 6 {
				t.Fatal(err, count(t, d))
			}
		}
	})
}
