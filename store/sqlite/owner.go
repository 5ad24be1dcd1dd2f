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

// An owner is one open store. It holds the operating system's lock on a file of its own beside the database, FILE-owner-ID, for as
// long as it is open. The system frees the lock when the process dies, however it dies; the file stays and tells the others who
// is dead. Behind the byte that is locked, the file says the newest version of the schema that the program knows.
type owner struct {
	id   string
	file *os.File
}

const ownerMark = "-owner-"

const ownerLength = 16

func newOwner(database string, level int) (*owner, error) {
	for {
		id := strings.ToLower(rand.Text()[:ownerLength]) // a-z2-7: 80 bits
		path := database + ownerMark + id
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("sqlite: the directory of the database must be writable: %w", err)
		}
		// Between the creation and the lock the file looks like a dead owner's, and another process may forget it.
		locked, err := lock(f)
		if locked && stillThere(f, path) {
			if _, err := f.WriteAt(fmt.Append(nil, level), 1); err != nil {
				return nil, errors.Join(fmt.Errorf("sqlite: write %s: %w", path, err), removeLocked(f))
			}
			return &owner{id, f}, nil
		}
		f.Close()
		os.Remove(path)
		if err != nil {
			return nil, fmt.Errorf("sqlite: lock %s: %w", path, err)
		}
	}
}

func stillThere(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	found, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, found)
}

// release ends the ownership. What the store leased is left to the ends of the leases.
func (o *owner) release() error {
	return ignoreMissing(removeLocked(o.file))
}

// lookAtOwners lists the dead owners of a database and the levels of the living, without the one called self.
func lookAtOwners(database, self string) (dead []string, living []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(database))
	if err != nil {
		return nil, nil, fmt.Errorf("sqlite: look for owners: %w", err)
	}
	prefix := filepath.Base(database) + ownerMark
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || id == self || !validOwner(id) {
			continue
		}
		f, err := os.OpenFile(database+ownerMark+id, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process was faster
		}
		if err != nil {
			return nil, nil, fmt.Errorf("sqlite: look at an owner: %w", err)
		}
		locked, err := lock(f)
		level := levelOf(f)
		f.Close()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("sqlite: look at an owner: %w", err)
		case locked:
			dead = append(dead, id)
		default:
			living = append(living, level)
		}
	}
	return dead, living, nil
}

// levelOf reads the level of an owner; 0 if it has not written one yet.
func levelOf(f *os.File) int {
	text := make([]byte, 16)
	n, _ := f.ReadAt(text, 1)
	level, _ := strconv.Atoi(string(text[:n]))
	return level
}

// forgetOwner removes the file of a dead owner. That of a living one stays.
func forgetOwner(database, id string) error {
	if !validOwner(id) {
		return fmt.Errorf("sqlite: %q is no owner's id", id)
	}
	f, err := os.OpenFile(database+ownerMark+id, os.O_RDWR, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	locked, err := lock(f)
	if err != nil || !locked {
		f.Close()
		return err
	}
	return ignoreMissing(removeLocked(f))
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
