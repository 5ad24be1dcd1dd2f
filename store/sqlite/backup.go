package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// Copied is the result of Backup.
type Copied struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Bytes int64  `json:"bytes"`
}

// Backup copies the store at path into a new file, with all of its instances, while other processes
// work on it. The copy is the store at one moment after the call: it contains all writes
// acknowledged before the call. It is checked, synced, and appears under its name when it is
// complete, so there is never half a file; an existing file is refused with ErrConflict. Readers
// and writers are not held up, but the write-ahead log cannot be truncated meanwhile.
func Backup(ctx context.Context, path, to string) (Copied, error) {
	from, err := locateExisting(path)
	if err != nil {
		return Copied{}, err
	}
	to, err = filepath.Abs(to)
	if err != nil {
		return Copied{}, err
	}
	if err := mustBeFree(to); err != nil {
		return Copied{}, err
	}
	db, err := openDB(from, options{migrator: true})
	if err != nil {
		return Copied{}, err
	}
	defer db.Close()
	// The files of copies that were killed half way have dead owners.
	mine, err := owner.New(to, defaultPrefix, 0, nil)
	if err != nil {
		return Copied{}, err
	}
	defer mine.Release()
	if err := owner.EndDead(to, mine.ID(), owner.Any, func(id string) (bool, error) {
		return true, filesys.Remove(partial(to, id))
	}); err != nil {
		return Copied{}, err
	}
	part := partial(to, mine.ID())
	defer os.Remove(part)
	if err := copyInto(ctx, from, part); err != nil {
		return Copied{}, err
	}
	if err := publish(part, to); err != nil {
		return Copied{}, err
	}
	return Copied{From: from, To: to, Bytes: filesys.Size(to)}, nil
}

func partial(to, id string) string { return to + "-partial-" + id }

// locateExisting finds the file of a store that must be there.
func locateExisting(path string) (string, error) {
	path, err := locate(path, filesys.Network)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return path, &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "path", Index: -1, Message: "there is no store at " + path, Err: err}
	}
	return path, nil
}

func mustBeFree(to string) error {
	switch _, err := os.Lstat(to); {
	case err == nil:
		return sojourn.Conflict("%s exists; name a new file", to)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// copyInto writes a consistent copy of a database into a new file, without its free pages, and
// checks and syncs it. It reads one snapshot.
func copyInto(ctx context.Context, from, to string) error {
	if err := createFile(to); err != nil {
		return err
	}
	c, err := connect(from, sqlite.OpenReadOnly, nil)
	if err != nil {
		return err
	}
	c.interruptBy(ctx)
	id, err := ask(c.raw, "pragma application_id")
	if err == nil && id != fmt.Sprint(applicationID) {
		err = sojourn.Invalid("path", "%s is no Sojourn store (application_id %s)", from, id)
	}
	if err == nil {
		err = c.patiently(ctx, func() error {
			st, err := c.raw.Prepare("vacuum into ?1")
			if err != nil {
				return err
			}
			st.BindText(1, to)
			return finish(st)
		})
	}
	c.undisturbed()
	err = errors.Join(because(ctx, err), c.raw.Close())
	if err == nil {
		err = intact(ctx, to)
	}
	if err == nil {
		err = filesys.Sync(to)
	}
	if err != nil {
		return fmt.Errorf("sqlite: copy %s: %w", from, err)
	}
	return nil
}

// intact checks a whole database that no other process uses.
func intact(ctx context.Context, path string) error {
	c, err := connect(path, sqlite.OpenReadOnly, nil)
	if err != nil {
		return err
	}
	defer c.raw.Close()
	found, err := damage.Intact(ctx, c.raw)
	if err == nil && found != "" {
		err = fmt.Errorf("%s is damaged: %s", path, found)
	}
	return err
}

// publish renames a complete file to its name, unless another process has taken the name meanwhile.
func publish(part, to string) error {
	err := os.Link(part, to)
	switch {
	case errors.Is(err, fs.ErrExist):
		return sojourn.Conflict("%s exists; name a new file", to)
	case err != nil: // a file system without links
		if err := mustBeFree(to); err != nil {
			return err
		}
		if err := os.Rename(part, to); err != nil {
			return err
		}
	}
	return filesys.SyncDir(filepath.Dir(to))
}

// number reads a pragma or a query that returns one number.
func number(c *conn, q string) (int64, error) {
	text, err := ask(c.raw, q)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
