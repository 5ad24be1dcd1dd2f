// Package owner tells the processes that use a database which of the others are alive.
//
// An owner is one open store. While it is open it holds the operating system's exclusive lock on a
// file of its own beside the database, FILE-owner-ID. The system releases the lock when the process
// dies, and the file stays: an owner is dead if its file can be locked. After the locked byte, the
// file contains the newest version of the schema that the program knows, the prefix of its tables
// and, once the database is open, the process and the identity of the database file.
//
// Other processes take a shared lock while they check an owner or act on its death. So they do not
// mistake each other for the owner, and no process can become that owner before they have finished.
package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

// Owner is the owner of one open store.
type Owner struct {
	id   string
	path string
	file *os.File
}

const (
	// Mark is in the name of an owner's file, between that of the database and the owner's id.
	Mark = "-owner-"
	// Any stands for the owners of all instances in a file.
	Any = ""

	// unborn ends the name of an owner's file until it is locked. An owner that has its name and is
	// not locked is dead: it cannot be one that is being created. Windows renames no open file, so
	// there it has its name at once. Who takes it for dead before it is locked holds the lock while
	// acting on that; the new owner then does not get the lock, and takes another name.
	unborn   = ".new"
	idLength = 16
)

// New creates an owner of the tables with a prefix. Its file is locked before it has its name, see
// unborn. Tests pass created, which is called between the creation of the file and its lock.
func New(database, prefix string, level int, created func()) (*Owner, error) {
	for {
		id := strings.ToLower(rand.Text()[:idLength]) // a-z2-7: 80 bits
		path := database + Mark + id
		temporary := path
		if filesys.RenamesOpen {
			temporary += unborn
		}
		f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("sqlite: the directory of the database must be writable: %w", err)
		}
		if created != nil {
			created()
		}
		locked, err := filesys.Lock(f)
		if locked && filesys.At(f, temporary) {
			if _, err = f.WriteAt(fmt.Append(nil, level, " ", prefix), 1); err == nil && temporary != path {
				err = os.Rename(temporary, path)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("sqlite: write %s: %w", path, err), filesys.RemoveLocked(f, temporary))
			}
			return &Owner{id, path, f}, nil
		}
		f.Close()
		os.Remove(temporary) // judged dead by another process: try another name
		if err != nil {
			return nil, fmt.Errorf("sqlite: lock %s: %w", temporary, err)
		}
	}
}

// ID names the owner in the leases of its store.
func (o *Owner) ID() string { return o.id }

// Release ends the ownership. Leases of the store's jobs stay until they expire.
func (o *Owner) Release() error {
	return filesys.IgnoreMissing(filesys.RemoveLocked(o.file, o.path))
}

// Die leaves the owner as the end of its process does, for tests.
func (o *Owner) Die() error { return o.file.Close() }

// Living returns the levels of the living owners of the tables with a prefix, without self.
func Living(database, self, prefix string) (levels []int, err error) {
	err = each(database, self, func(_ string, f *os.File, dead bool) error {
		if !dead && concerns(f, prefix) {
			levels = append(levels, levelOf(f))
		}
		return nil
	})
	return levels, err
}

// EndDead calls end for each dead owner of the tables with a prefix, and removes the owner's file
// if end returns true. It holds a shared lock on that file, so the owner stays dead until end has
// returned.
func EndDead(database, self, prefix string, end func(id string) (finished bool, err error)) error {
	return each(database, self, func(id string, f *os.File, dead bool) error {
		if !dead || !concerns(f, prefix) {
			return nil
		}
		finished, err := end(id)
		if err != nil || !finished {
			return err
		}
		return filesys.IgnoreMissing(filesys.RemoveLocked(f, f.Name()))
	})
}

// Elsewhere returns the processes of the living owners, without self, that have opened another file
// than this one under the path of the database.
func Elsewhere(database, self string, file filesys.ID) (processes []string, err error) {
	err = each(database, self, func(_ string, f *os.File, dead bool) error {
		if found := fields(f); !dead && found[3] != "" && found[3] != file.String() {
			processes = append(processes, found[2])
		}
		return nil
	})
	return processes, err
}

// each calls look for each owner of a database but self, with its open file. If the owner is
// dead, the file is locked until look returns. Files that a process left before they had their
// names are removed.
func each(database, self string, look func(id string, f *os.File, dead bool) error) error {
	entries, err := os.ReadDir(filepath.Dir(database))
	if err != nil {
		return fmt.Errorf("sqlite: look for owners: %w", err)
	}
	prefix := filepath.Base(database) + Mark
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), prefix)
		id, temporary := strings.CutSuffix(name, unborn)
		if !ok || id == self || !Valid(id) {
			continue
		}
		if err := inspect(database+Mark+name, func(f *os.File, dead bool) error {
			if !temporary {
				return look(id, f, dead)
			}
			if dead {
				return filesys.IgnoreMissing(filesys.RemoveLocked(f, f.Name()))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// inspect opens an owner's file, if it is still there, and calls look with a shared lock if
// that is free.
func inspect(path string, look func(f *os.File, dead bool) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return fmt.Errorf("sqlite: look at an owner: %w", err)
	}
	defer f.Close() // again after removeLocked, which does no harm
	dead, err := filesys.LockShared(f)
	if err != nil {
		return fmt.Errorf("sqlite: look at an owner: %w", err)
	}
	if dead && !filesys.At(f, path) {
		return nil // it was closed, or another process has removed it
	}
	return look(f, dead)
}

// Opened publishes which file the owner has opened.
func (o *Owner) Opened(prefix string, level int, file filesys.ID) error {
	if _, err := o.file.WriteAt(fmt.Append(nil, level, " ", prefix, " ", os.Getpid(), " ", file), 1); err != nil {
		return fmt.Errorf("sqlite: write %s: %w", o.path, err)
	}
	return nil
}

// fields reads the contents of an owner's file: its level, prefix, process and database file.
func fields(f *os.File) (all [4]string) {
	text := make([]byte, 200)
	n, _ := f.ReadAt(text, 1)
	copy(all[:], strings.Fields(string(text[:n])))
	return all
}

// levelOf reads the level of an owner; 0 if it has not written one yet.
func levelOf(f *os.File) int {
	level, _ := strconv.Atoi(fields(f)[0])
	return level
}

// concerns reports whether an owner has tables with a prefix. An owner whose file does not name a
// prefix has never opened the database: it may be removed by any other.
func concerns(f *os.File, prefix string) bool {
	own := fields(f)[1]
	return prefix == Any || own == "" || own == prefix
}

// Valid reports whether a text has the form of an owner's id.
func Valid(id string) bool {
	return len(id) == idLength && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}
