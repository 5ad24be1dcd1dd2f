package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// TestNothingIsAcknowledgedThatTheServerRolledBack: a commit after a failed statement is a
// rollback, which the server reports as a success (inv:A1).
func TestNothingIsAcknowledgedThatTheServerRolledBack(t *testing.T) {
	d, table := database(t)
	for name, end := range map[string]func(sqldb.Conn) error{
		"by Update": func(sqldb.Conn) error { return nil },
		"by Commit": func(c sqldb.Conn) error { return c.(sqldb.Committer).Commit(nil) },
	} {
		err := d.Update(context.Background(), func(c sqldb.Conn) error {
			if _, err := c.Exec("insert into " + table + " (name, value) values ('lost', 'x')"); err != nil {
				return err
			}
			if _, err := c.Exec("select no_such_column"); err == nil {
				t.Error("the planted statement did not fail")
			}
			return end(c) // as if nothing had happened
		})
		if err == nil {
			t.Error(name + ": a transaction that the server has rolled back was acknowledged")
		}
	}
}

// TestCommitWantsItsRows: a statement that changes or reads another number of rows than wanted ends
// the transaction before its commit.
func TestCommitWantsItsRows(t *testing.T) {
	d, table := database(t)
	ctx := context.Background()
	insert := sqldb.Statement{Text: "insert into " + table + " (name, value) values ('a', 'x')", Wanted: 1}
	count := func() (n int64) {
		t.Helper()
		if err := d.View(ctx, func(c sqldb.Conn) error {
			return c.Query("select count(*) from "+table+" where name = 'a'", func(r sqldb.Row) error { n = r.Int(0); return nil })
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, other := range []sqldb.Statement{
		{Text: "update " + table + " set value = 'y' where name = $1", Args: []any{"nobody"}, Wanted: 1},
		{Text: "delete from " + table + " where name = $1 returning name", Args: []any{"a"}, Wanted: 2},
		{Text: "select name from " + table + " where name = $1", Args: []any{"nobody"}, Wanted: 1},
	} {
		tries := 0
		err := d.Update(ctx, func(c sqldb.Conn) error {
			if tries++; tries > 2 {
				return errors.New("enough")
			}
			return c.(sqldb.Committer).Commit([]sqldb.Statement{insert, other})
		})
		if tries != 3 || err == nil || count() != 0 {
			t.Errorf("%s: %d tries, %v, %d rows", other.Text, tries, err, count())
		}
	}
	if err := d.Update(ctx, func(c sqldb.Conn) error { return c.(sqldb.Committer).Commit([]sqldb.Statement{insert}) }); err != nil || count() != 1 {
		t.Error(err, count())
	}
}
