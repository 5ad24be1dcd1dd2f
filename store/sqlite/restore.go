package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// Restored is the result of Restore.
type Restored struct {
	From     string     `json:"from"`
	To       string     `json:"to"`
	Replaced string     `json:"replaced,omitempty"` // where the store that was there before is now
	NextID   sojourn.ID `json:"next_id"`            // of the first new job; below it are gaps. Of several instances the highest
}

// Restore makes a backup the store at path. It copies the backup, checks it as the database and as
// sojourn doctor does, and only then puts it in place, with all instances that the backup contains.
// An existing store is refused with ErrConflict unless replace is set, and is kept beside it under
// another name. Restore does nothing while any process has the store open, and none can open it
// meanwhile.
//
// New jobs get ids above all that can have been given out since the backup, so that neither ids nor
// idempotency keys are reused; and epochs rise, so that leases and Job.Fence of that time are
// outdated. If the process is killed here, path has the old store or the new one, or a store that
// refuses to open until Restore has been repeated.
func Restore(ctx context.Context, backup, path string, replace bool) (Restored, error) {
	r := restoring{step: func() {}, now: time.Now, replace: replace}
	return r.run(ctx, backup, path)
}

const (
	restoreMark = "-restoring"
	replacing   = "replacing" // in that file: the store's files are being moved, so it must not be opened
)

// noRestore refuses to open a store that is being restored, or that an interrupted restore has left
// in an unusable state.
func noRestore(path string) error {
	f, err := os.OpenFile(path+restoreMark, os.O_RDWR, 0)
	if err != nil {
		return filesys.IgnoreMissing(err)
	}
	defer f.Close()
	locked, err := filesys.Lock(f)
	if err != nil {
		return fmt.Errorf("sqlite: look at %s: %w", f.Name(), err)
	}
	busy := &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "path", Index: -1, Retryable: true, Message: path + " is being restored; try again later"}
	if !locked {
		return busy
	}
	text, err := phase(f)
	if err == nil && text == replacing {
		busy.Retryable, busy.Message = false, "the restore of "+path+" was interrupted: repeat sojourn store restore"
		return busy
	}
	return err
}

// phase reads the mark of a restore, behind the byte that is locked.
func phase(f *os.File) (string, error) {
	text := make([]byte, len(replacing))
	n, err := f.ReadAt(text, 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(text[:n]), err
}

// restoring is one restore under way.
type restoring struct {
	step    func() // called between the steps, where tests kill the process
	now     func() time.Time
	replace bool
	mark    *os.File
	path    string
}

func (r *restoring) run(ctx context.Context, backup, path string) (out Restored, err error) {
	if out.From, err = locateExisting(backup); errors.Is(err, fs.ErrNotExist) {
		return out, &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "backup", Index: -1,
			Message: "there is no backup at " + out.From + "; name a file that sojourn store backup has written"}
	} else if err != nil {
		return out, err
	}
	if r.path, err = locate(path, filesys.Network); err != nil {
		return out, err
	}
	out.To = r.path
	if out.From == r.path {
		return out, sojourn.Invalid("path", "%s is the backup itself; name another file for the store", path)
	}
	if err := r.begin(); err != nil {
		return out, err
	}
	defer func() {
		if text, look := phase(r.mark); look == nil && text != replacing {
			filesys.RemoveLocked(r.mark, r.mark.Name())
		} else {
			r.mark.Close()
		}
	}()
	r.step()
	exists := mustBeFree(r.path) != nil
	if interrupted, _ := phase(r.mark); exists && interrupted != replacing && !r.replace {
		return out, sojourn.Conflict("there is a store at %s; replace it with --replace (it is kept under another name)", r.path)
	}
	healthy, next := false, map[string]int64{}
	if exists {
		if healthy, next, err = r.settle(ctx); err != nil {
			return out, err
		}
	}
	r.step()
	if out.NextID, err = r.prepare(ctx, out.From, next); err != nil {
		return out, err
	}
	r.step()
	if healthy {
		out.Replaced, err = r.swap()
	} else {
		out.Replaced, err = r.moveIn()
	}
	if err == nil {
		r.step()
		err = errors.Join(r.mark.Truncate(0), r.mark.Sync())
	}
	return out, err
}

// begin takes the mark, and then looks for others: who opens the store makes itself known first and
// looks for the mark then.
func (r *restoring) begin() error {
	name := r.path + restoreMark
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: the directory of the store must be writable: %w", err)
	}
	locked, err := filesys.Lock(f)
	if err == nil && (!locked || !filesys.At(f, name)) {
		err = sojourn.Conflict("another restore of %s is under way", r.path)
	}
	var living []int
	if err == nil {
		r.mark = f
		living, err = owner.Living(r.path, "", owner.Any)
	}
	if err == nil && len(living) > 0 {
		err = sojourn.Conflict("%d open stores use %s; stop their processes first", len(living), r.path)
	}
	if err != nil && r.mark != nil {
		if text, look := phase(f); look == nil && text != replacing {
			return errors.Join(err, filesys.RemoveLocked(f, name))
		}
	}
	if err != nil {
		f.Close()
	}
	return err
}

// settle writes the log of the old store back, so that its file alone contains all of it, and reads
// the next id of each instance. An unreadable store is not healthy.
func (r *restoring) settle(ctx context.Context) (healthy bool, next map[string]int64, err error) {
	c, err := connect(r.path, sqlite.OpenReadWrite, nil)
	if err != nil {
		return false, nil, nil
	}
	defer c.raw.Close()
	limited, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	id, blocked := "", ""
	err = c.patiently(limited, func() (err error) {
		if id, err = ask(c.raw, "pragma application_id"); err == nil {
			blocked, err = ask(c.raw, "pragma wal_checkpoint(truncate)")
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return false, nil, ctx.Err()
	case limited.Err() != nil, blocked == "1":
		return false, nil, sojourn.Conflict("another program has %s open; stop it first", r.path)
	case err == nil && id != "0" && id != fmt.Sprint(applicationID):
		return false, nil, sojourn.Invalid("path", "%s is an SQLite database of another program; name another file for the store", r.path)
	case err == nil:
		next, err = nextIDs(c)
	}
	return err == nil && len(next) > 0 && filesys.Size(r.path+"-wal") == 0, next, nil
}

// instances lists the prefixes of the instances in a database.
func instances(c *conn) (prefixes []string, err error) {
	text, err := ask(c.raw, `select coalesce(group_concat(p, ' '), '') from (select substr(name, 1, length(name) - length('migration')) as p
		from sqlite_schema where type = 'table' and name like '%migration')
		where (select count(*) from sqlite_schema where type = 'table' and name in (p || 'meta', p || 'job', p || 'live')) = 3`)
	for _, p := range strings.Fields(text) {
		if migration.CheckPrefix(p) == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, err
}

// nextIDs reads the next id of each instance; 0 if it has not given out any.
func nextIDs(c *conn) (map[string]int64, error) {
	prefixes, err := instances(c)
	next := map[string]int64{}
	for _, p := range prefixes {
		if err == nil {
			next[p], err = number(c, "select coalesce(max(cast(value as integer)), 0) from "+p+"meta where name = 'next_id'")
		}
	}
	return next, err
}

// prepare makes the new store beside the old one: a checked copy of the backup, with new ids.
func (r *restoring) prepare(ctx context.Context, backup string, next map[string]int64) (sojourn.ID, error) {
	part := r.part()
	for _, leftover := range []string{part, part + "-wal", part + "-shm", part + damage.MarkEnd} {
		if err := filesys.Remove(leftover); err != nil {
			return 0, err
		}
	}
	// Owners of a restore that was killed.
	if err := owner.EndDead(part, "", owner.Any, func(string) (bool, error) { return true, nil }); err != nil {
		return 0, err
	}
	if err := copyInto(ctx, backup, part); err != nil {
		return 0, err
	}
	r.step()
	id, err := r.beginAnew(ctx, part, next)
	if err != nil {
		return 0, err
	}
	if filesys.Size(part+"-wal") > 0 {
		return 0, fmt.Errorf("sqlite: the log of %s was not written back", part)
	}
	return id, errors.Join(filesys.Remove(part+"-wal"), filesys.Remove(part+"-shm"), filesys.Sync(part))
}

func (r *restoring) part() string { return r.path + restoreMark + "-db" }

// beginAnew checks the copy and gives each of its instances new ids and epochs. It returns the
// highest of the next ids.
func (r *restoring) beginAnew(ctx context.Context, part string, next map[string]int64) (highest sojourn.ID, err error) {
	c, err := connect(part, sqlite.OpenReadOnly, nil)
	if err != nil {
		return 0, err
	}
	prefixes, err := instances(c)
	if err := errors.Join(err, c.raw.Close()); err != nil {
		return 0, err
	}
	if len(prefixes) == 0 { // a copy of a file in which no store was opened yet
		prefixes = []string{defaultPrefix}
	}
	for _, p := range prefixes {
		db, err := openDB(part, options{prefix: p, migrator: true, allowNetworkFS: true})
		if err != nil {
			return 0, err
		}
		id, err := r.begun(ctx, db, next[p])
		if err := errors.Join(err, db.Close()); err != nil {
			return 0, err
		}
		highest = max(highest, id)
	}
	return highest, nil
}

// begun checks an instance and gives it new ids and epochs; see BeginAnew.
func (r *restoring) begun(ctx context.Context, db *DB, next int64) (sojourn.ID, error) {
	if err := (options{}).tend(db).Raise(ctx); err != nil {
		return 0, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{Prefix: db.prefix, Now: r.now})
	if err != nil {
		return 0, err
	}
	return s.BeginAnew(ctx, next)
}

// swap puts the new store over the old one, which is one file and gets a second name before.
func (r *restoring) swap() (kept string, err error) {
	kept = r.aside()
	if err := os.Link(r.path, kept); err != nil { // a file system without links
		return r.moveIn()
	}
	r.step()
	if err := errors.Join(filesys.Remove(r.path+"-wal"), filesys.Remove(r.path+"-shm")); err != nil {
		return "", err
	}
	r.step()
	if err := os.Rename(r.part(), r.path); err != nil {
		return "", err
	}
	return kept, errors.Join(damage.Unmark(r.path), filesys.SyncDir(filepath.Dir(r.path)))
}

// moveIn renames the old files, an unreadable one with its log, and puts the new store in place.
// Meanwhile a mark keeps others from opening, and so from making, a store there.
func (r *restoring) moveIn() (kept string, err error) {
	if _, err := r.mark.WriteAt([]byte(replacing), 1); err != nil {
		return "", err
	}
	if err := errors.Join(r.mark.Sync(), filesys.SyncDir(filepath.Dir(r.path))); err != nil {
		return "", err
	}
	r.step()
	aside := r.aside()
	for _, end := range []string{"-wal", "-shm", ""} {
		switch err := os.Rename(r.path+end, aside+end); {
		case err == nil && end == "":
			kept = aside
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		r.step()
	}
	if err := os.Rename(r.part(), r.path); err != nil {
		return "", err
	}
	return kept, errors.Join(damage.Unmark(r.path), filesys.SyncDir(filepath.Dir(r.path)))
}

// aside is a free name for the old store.
func (r *restoring) aside() string {
	name := r.path + ".before-restore-" + r.now().UTC().Format("20060102T150405")
	for i, free := 1, name; ; i++ {
		if mustBeFree(free) == nil && mustBeFree(free+"-wal") == nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}
