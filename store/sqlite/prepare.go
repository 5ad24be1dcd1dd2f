package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
)

// prepareFile marks a new file as ours, refuses a foreign or damaged one, and sets the writer up.
// After an unclean stop the check of a large file comes later.
func prepareFile(d *DB, c *conn, unclean bool, found string) (later bool, err error) {
	fresh, err := claimFile(c, d.path)
	if err != nil {
		return false, err
	}
	if unclean && !fresh {
		if later, err = checkFile(d, c, found); err != nil {
			return false, err
		}
	}
	if err := c.set(writerPragmas()); err != nil {
		return false, fmt.Errorf("sqlite: open %s: %w", d.path, err)
	}
	return later, nil
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
		return false, damage.Error(path, err.Error())
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
