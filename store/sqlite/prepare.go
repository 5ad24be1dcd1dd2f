package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
)

// prepareFile marks a new file as ours, refuses a foreign or damaged one, and sets the writer up.
func prepareFile(c *conn, path string, unclean bool) error {
	fresh, err := claimFile(c, path)
	if err != nil {
		return err
	}
	if unclean && !fresh {
		if err := quickCheck(c, path); err != nil {
			return err
		}
	}
	if err := c.set(writerPragmas()); err != nil {
		return fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return nil
}

// claimFile checks that the file is a store or empty before it changes anything in it.
func claimFile(c *conn, path string) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	var id, tables string
	look := func() (err error) {
		if id, err = ask(c.raw, "pragma application_id"); err == nil {
			tables, err = ask(c.raw, "select count(*) from sqlite_schema")
		}
		return err
	}
	err = c.patiently(ctx, look)
	if err == nil && id == "0" && tables == "0" {
		fresh = true
		if err = c.patiently(ctx, func() error { return mark(c.raw) }); err == nil {
			err = c.patiently(ctx, look)
		}
	}
	switch {
	case err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultNotADB:
		return false, sojourn.Invalid("path", "%s is no SQLite database; give the path of a new file or of a Sojourn database", path)
	case err != nil && broken(err):
		return false, damaged(path, err.Error())
	case err != nil:
		return false, fmt.Errorf("sqlite: open %s: %w", path, err)
	case id != fmt.Sprint(applicationID):
		return false, sojourn.Invalid("path", "%s is an SQLite database of another program (application_id %s, %s tables and indexes); "+
			"give the path of a new file", path, id, tables)
	}
	return fresh, nil
}

// mark makes a new database ours, if it is still new when the lock is held.
func mark(raw *sqlite.Conn) error {
	// It can be chosen only before the first page is written, and not inside of a transaction.
	if err := run(raw, "pragma auto_vacuum=incremental"); err != nil {
		return err
	}
	// Exclusive, because this is not in WAL mode yet: there a commit may find readers in its way.
	if err := run(raw, "begin exclusive"); err != nil {
		return err
	}
	tables, err := ask(raw, "select (select count(*) from sqlite_schema) + (select application_id from pragma_application_id)")
	if err == nil && tables == "0" {
		err = run(raw, fmt.Sprint("pragma application_id=", applicationID))
	}
	if err == nil {
		err = run(raw, "commit")
	}
	if err != nil && !raw.AutocommitEnabled() {
		err = errors.Join(err, run(raw, "rollback"))
	}
	if err != nil {
		return err
	}
	if mode, err := ask(raw, "pragma auto_vacuum"); err != nil || mode != "2" {
		return errors.Join(fmt.Errorf("auto_vacuum is %q, not 2 (incremental)", mode), err)
	}
	return nil
}

// quickCheck reads the whole database once.
func quickCheck(c *conn, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	var finding string
	err := c.patiently(ctx, func() (err error) {
		finding, err = ask(c.raw, "pragma quick_check(1)")
		return err
	})
	if err != nil && !broken(err) {
		return fmt.Errorf("sqlite: check %s: %w", path, err)
	}
	if err != nil {
		finding = err.Error()
	}
	if finding != "ok" {
		return damaged(path, finding)
	}
	return nil
}

func damaged(path, finding string) error {
	return fmt.Errorf("sqlite: the check of %s has failed (%s). If it names a CHECK constraint, another program has written rows that break it: correct them with the sqlite3 shell. Otherwise the file is damaged. To restore it: stop every process that uses it, keep copies of %[1]s and %[1]s-wal, "+
		"put a backup in the place of %[1]s, remove %[1]s-wal and %[1]s-shm, and start again. Without a backup, "+
		"\"sqlite3 %[1]s .recover\" may save a part", path, finding)
}
