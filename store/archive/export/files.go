package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/store/archive"
)

// files are the files of an archive: NAME-000001.jsonl and so on, the last one with the suffix
// .part until it is complete.
type files struct {
	dir, name string
	max       int64
	lock      *os.File // locked by this process

	at   archive.File
	open *os.File  // the file at.Sequence; nil: it is made by the next batch
	last time.Time // when it was written last
}

const part = ".part"

// openFiles locks the files of an archive.
func openFiles(dir, name string, maxFile int64) (*files, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, sojourn.Conflict("the directory %s of archive %s is missing; make it, or mount it", dir, name)
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := lockFile(f)
	if err == nil && !ok {
		err = sojourn.Conflict("another process writes the files of archive %s in %s; end it, or wait", name, dir)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &files{dir: dir, name: name, max: maxFile, lock: f}, nil
}

func (f *files) close() {
	if f.open != nil {
		_ = f.open.Close()
	}
	_ = f.lock.Close() // unlocks
}

// path is the name of a complete file.
func (f *files) path(sequence int64) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s-%06d.jsonl", f.name, sequence))
}

// damaged says that the files are not those that the store has recorded.
func (f *files) damaged(format string, a ...any) error {
	return finalError{sojourn.Conflict("%s: nothing was changed; put the files back, or export to another directory with a new archive", fmt.Sprintf(format, a...))}
}

// recover cuts the file to the recorded length.
func (f *files) recover(l archive.Lease) error {
	f.at = l.File
	if err := f.checkLater(); err != nil || f.at.Sequence == 0 {
		return err
	}
	whole, err := size(f.path(f.at.Sequence))
	if err != nil {
		return err
	}
	if whole >= 0 {
		if whole != f.at.Bytes {
			return f.damaged("%s has %d bytes, recorded are %d", f.path(f.at.Sequence), whole, f.at.Bytes)
		}
		f.at = archive.File{Sequence: f.at.Sequence + 1}
		return nil
	}
	now, err := size(f.path(f.at.Sequence) + part)
	if err != nil {
		return err
	}
	if now < f.at.Bytes {
		return f.damaged("%s is missing or shorter than the %d bytes that are recorded", f.path(f.at.Sequence)+part, f.at.Bytes)
	}
	if f.open, err = os.OpenFile(f.path(f.at.Sequence)+part, os.O_WRONLY, 0); err != nil {
		return err
	}
	info, err := f.open.Stat()
	if err != nil {
		return err
	}
	f.last = info.ModTime()
	if now > f.at.Bytes {
		return errors.Join(f.open.Truncate(f.at.Bytes), f.open.Sync())
	}
	return nil
}

// checkLater refuses files behind the recorded one, except for the one that a batch may have begun:
// the store is a copy from before they were written, and does not know the jobs in them.
func (f *files) checkLater() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), f.name+"-")
		text, unfinished := strings.CutSuffix(text, part)
		text, named := strings.CutSuffix(text, ".jsonl")
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || !named || err != nil {
			continue
		}
		if n > f.at.Sequence+1 || n > f.at.Sequence && !unfinished {
			return f.damaged("%s is there, but the store has recorded files up to number %d only; was an older copy of the store restored?", e.Name(), f.at.Sequence)
		}
	}
	return nil
}

// size is the length of a file; -1 if there is none.
func size(path string) (int64, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, finalError{sojourn.Conflict("%s is not a regular file; remove it", path)}
	}
	return info.Size(), nil
}

// export appends a batch, and syncs it.
func (f *files) export(_ context.Context, jobs []archive.Job, r *archive.Record) error {
	if err := f.rotate(f.at.Bytes >= f.max); err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, j := range jobs {
		line, err := jsonform.Marshal(j)
		if err != nil {
			return err
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	if f.open == nil {
		if err := f.create(); err != nil {
			return err
		}
	}
	if _, err := f.open.WriteAt(lines.Bytes(), f.at.Bytes); err != nil {
		return err
	}
	if err := f.open.Sync(); err != nil {
		return err
	}
	f.at.Bytes += int64(lines.Len())
	f.last = time.Now()
	r.File = f.at
	return nil
}

// create makes the file of the next batch. One that is there has nothing that is recorded.
func (f *files) create() (err error) {
	f.at.Sequence = max(f.at.Sequence, 1)
	name := f.path(f.at.Sequence) + part
	if _, err := size(name); err != nil { // not through a link
		return err
	}
	if f.open, err = os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	return syncDir(f.dir)
}

func (f *files) idle() error { return f.rotate(false) }

// rotate completes the file if it is full or of an earlier day. All its bytes are recorded.
func (f *files) rotate(full bool) error {
	if f.open == nil || f.at.Bytes == 0 || !full && day(f.last) == day(time.Now()) {
		return nil
	}
	if err := f.open.Close(); err != nil {
		return err
	}
	f.open = nil
	name := f.path(f.at.Sequence)
	if err := os.Rename(name+part, name); err != nil {
		return err
	}
	f.at = archive.File{Sequence: f.at.Sequence + 1}
	return syncDir(f.dir)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
