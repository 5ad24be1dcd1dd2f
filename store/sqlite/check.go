package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

// checkAtOpen is the size of a database, in bytes, up to which opening reads the whole of it after
// an unclean stop. SQLite checks about 100 MB a second.
const checkAtOpen = 16 << 20

var errDamaged = errors.New("the file is damaged")

// checkFile checks the database and refuses a damaged one. The check of a large database is left to
// checkLater, unless damage was found before.
func checkFile(d *DB, c *conn, found string) (later bool, err error) {
	if err := damage.Mark(d.path, found); err != nil {
		return false, err
	}
	if found == "" && filesys.Size(d.path)+filesys.Size(d.path+"-wal") > d.checkAtOpen {
		return true, nil
	}
	if found, err = damage.Whole(context.Background(), c.raw); err != nil {
		return false, fmt.Errorf("sqlite: check %s: %w", d.path, err)
	}
	if found != "" {
		return false, errors.Join(damage.Error(d.path, found), damage.Mark(d.path, found))
	}
	return false, damage.Unmark(d.path)
}

// checkLater checks the tables on a connection of its own while the store works. Damage breaks the
// store. The mark stays if the store is closed before the end.
func checkLater(ctx context.Context, d *DB, c *conn) {
	defer c.raw.Close()
	found, err := damage.Tables(ctx, c.raw, d.readLimit)
	switch {
	case found != "":
		d.fail(fmt.Errorf("%w: %w", errDamaged, damage.Error(d.path, found)))
		_ = damage.Mark(d.path, found) // without it the file is checked all the same when it is opened
	case err == nil:
		_ = damage.Unmark(d.path)
	}
}

// startCheck starts checkLater, which ends when the store is closed.
func startCheck(d *DB) error {
	c, err := connect(d.path, sqlite.OpenReadWrite, readerPragmas())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.checking.Go(func() {
		defer close(done)
		checkLater(ctx, d, c)
	})
	d.checking.Go(func() {
		defer cancel()
		select {
		case <-d.closed:
		case <-done:
		}
	})
	return nil
}
