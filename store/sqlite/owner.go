package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// An owner is one open store. While it is open it holds the operating system's exclusive lock on a
// file of its own beside the database, FILE-owner-ID. The system releases the lock when the process
// dies, and the file stays: an owner is dead if its file can be locked. After the locked byte, the
// file contains the newest version of the schema that the program knows, the prefix of its tables
// and, once the database is open, the process and the identity of the database file.
//
// Other processes take a shared lock while they check an owner or act on its death. So they do not
// mistake each other for the owner, and no process can become that owner before they have finished.
type owner struct {
	id   string
	path string
	file *os.File
}

const (
	ownerMark   = "-owner-"
	unbornMark  = ".new" // behind the name of an owner's file that is not locked yet
	ownerLength = 16
	anyPrefix   = "" // stands for the owners of all instances in a file
)

// newOwner creates an owner. Its file is locked before it has its name, see ownerTemporary. Tests
// pass created, which is called between the creation of the file and its lock.
func newOwner(database, prefix string, level int, created func()) (*owner, error) {
	for {
		id := strings.ToLower(rand.Text()[:ownerLength]) // a-z2-7: 80 bits
		path := database + ownerMark + id
		temporary := ownerTemporary(path)
		f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("sqlite: the directory of the database must be writable: %w", err)
		}
		if created != nil {
			created()
		}
		locked, err := lock(f)
		if locked && stillThere(f, temporary) {
			if _, err = f.WriteAt(fmt.Append(nil, level, " ", prefix), 1); err == nil && temporary != path {
				err = os.Rename(temporary, path)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("sqlite: write %s: %w", path, err), removeLocked(f, temporary))
			}
			return &owner{id, path, f}, nil
		}
		f.Close()
		os.Remove(temporary) // judged dead by another process: try another name
		if err != nil {
			return nil, fmt.Errorf("sqlite: lock %s: %w", temporary, err)
		}
	}
}

func stillThere(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	found, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, found)
}

// release ends the ownership. Leases of the store's jobs stay until they expire.
func (o *owner) release() error {
	return ignoreMissing(removeLocked(o.file, o.path))
}

// livingOwners returns the levels of the living owners of the tables with a prefix, without self.
func livingOwners(database, self, prefix string) (levels []int, err error) {
	err = eachOwner(database, self, func(_ string, f *os.File, dead bool) error {
		if !dead && concerns(f, prefix) {
			levels = append(levels, levelOf(f))
		}
		return nil
	})
	return levels, err
}

// endDead calls end for each dead owner of the tables with a prefix, and removes the owner's file
// if end returns true. It holds a shared lock on that file, so the owner stays dead until end has
// returned.
func endDead(database, self, prefix string, end func(id string) (finished bool, err error)) error {
	return eachOwner(database, self, func(id string, f *os.File, dead bool) error {
		if !dead || !concerns(f, prefix) {
			return nil
		}
		finished, err := end(id)
		if err != nil || !finished {
			return err
		}
		return ignoreMissing(removeLocked(f, f.Name()))
	})
}

// eachOwner calls look for each owner of a database but self, with its open file. If the owner is
// dead, the file is locked until look returns. Files that a process left before they had their
// names are removed.
func eachOwner(database, self string, look func(id string, f *os.File, dead bool) error) error {
	entries, err := os.ReadDir(filepath.Dir(database))
	if err != nil {
		return fmt.Errorf("sqlite: look for owners: %w", err)
	}
	prefix := filepath.Base(database) + ownerMark
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), prefix)
		id, unborn := strings.CutSuffix(name, unbornMark)
		if !ok || id == self || !validOwner(id) {
			continue
		}
		if err := lookAtOwner(database+ownerMark+name, func(f *os.File, dead bool) error {
			if !unborn {
				return look(id, f, dead)
			}
			if dead {
				return ignoreMissing(removeLocked(f, f.Name()))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// lookAtOwner opens an owner's file, if it is still there, and calls look with a shared lock if
// that is free.
func lookAtOwner(path string, look func(f *os.File, dead bool) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return fmt.Errorf("sqlite: look at an owner: %w", err)
	}
	defer f.Close() // again after removeLocked, which does no harm
	dead, err := lockShared(f)
	if err != nil {
		return fmt.Errorf("sqlite: look at an owner: %w", err)
	}
	if dead && !stillThere(f, path) {
		return nil // it was closed, or another process has removed it
	}
	return look(f, dead)
}

// opened publishes which file the owner has opened.
func (o *owner) opened(prefix string, level int, file fileID) error {
	if _, err := o.file.WriteAt(fmt.Append(nil, level, " ", prefix, " ", os.Getpid(), " ", file), 1); err != nil {
		return fmt.Errorf("sqlite: write %s: %w", o.path, err)
	}
	return nil
}

// ownerFields reads the contents of an owner's file: its level, prefix, process and database file.
func ownerFields(f *os.File) (fields [4]string) {
	text := make([]byte, 200)
	n, _ := f.ReadAt(text, 1)
	copy(fields[:], strings.Fields(string(text[:n])))
	return fields
}

// levelOf reads the level of an owner; 0 if it has not written one yet.
func levelOf(f *os.File) int {
	level, _ := strconv.Atoi(ownerFields(f)[0])
	return level
}

// concerns reports whether an owner has tables with a prefix. An owner whose file does not name a
// prefix has never opened the database: it may be removed by any other.
func concerns(f *os.File, prefix string) bool {
	own := ownerFields(f)[1]
	return prefix == anyPrefix || own == "" || own == prefix
}

func validOwner(id string) bool {
	return len(id) == ownerLength && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
