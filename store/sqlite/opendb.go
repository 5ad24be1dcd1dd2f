package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

const (
	inMemory = ":memory:"

	// applicationID marks a database file as ours, in SQLite's header. file(1) shows it.
	applicationID = 0x536a726e // "Sjrn"

	// oldestSQLite is the first version in which a checkpoint that meets a reset of the log can no
	// longer corrupt the database.
	oldestSQLite = 3_051_003

	// openPatience bounds the wait for a busy database at opening, such as one that another process
	// is recovering.
	openPatience = 30 * time.Second
)

// opening serialises the opening of files in this process: see createFile.
var opening sync.Mutex

// openDB opens or creates a database file, or a private database in memory. It brings no schema.
func openDB(path string, o options) (_ *DB, err error) {
	if err := supported(lib.SQLITE_VERSION_NUMBER); err != nil {
		return nil, err
	}
	if err := markLibrary(); err != nil {
		return nil, err
	}
	d := &DB{lifecycle: lifecycle{path: path, closed: make(chan struct{})}, prefix: o.tables(), relaxed: o.relaxed, created: o.created, writer: make(chan *conn, 1),
		readLimit: readLimit, walLimit: walLimit, walNext: walLimit, checkAtOpen: cmp.Or(o.checkAtOpen, checkAtOpen)}
	if d.dialect, err = newDialect(o); err != nil {
		return nil, err
	}
	d.log.life = &d.lifecycle
	if d.log.sync = o.sync; d.log.sync == nil {
		d.log.sync = (*os.File).Sync
	}
	d.level = len(d.dialect.Migrations)
	if o.migrator {
		d.level = math.MaxInt
	}
	if path == inMemory {
		d.reader = d.writer
		c, err := connect(inMemory, sqlite.OpenReadWrite|sqlite.OpenMemory, memoryPragmas())
		if err != nil {
			return nil, err
		}
		d.writer <- c
		return d, nil
	}
	network := filesys.Network
	if o.allowNetworkFS {
		network = func(string) string { return "" }
	}
	if d.path, err = locate(path, network); err != nil {
		return nil, err
	}
	if err := oneName(d.path); err != nil {
		return nil, err
	}
	opening.Lock()
	defer opening.Unlock()
	d.reader, d.probe = make(chan *conn, readers), make(chan *conn, 1)
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// open makes the connections, the one that writes first: it creates and checks the file. The owner
// comes before all, so that a restore sees it, or it sees the restore.
func (d *DB) open() (err error) {
	if d.owner, err = owner.New(d.path, d.prefix, d.level, d.created); err != nil {
		return err
	}
	var made []*conn
	defer func() {
		if err != nil {
			for _, c := range made {
				c.raw.Close()
			}
			d.owner.Release()
		}
	}()
	if err := noRestore(d.path); err != nil {
		return err
	}
	unclean, found, err := damage.Due(d.path, d.OwnerID())
	if err != nil {
		return err
	}
	if err := createFile(d.path); err != nil {
		return err
	}
	opened, err := filesys.Identify(d.path)
	if err != nil {
		return fmt.Errorf("sqlite: look at %s: %w", d.path, err)
	}
	writer, err := connect(d.path, sqlite.OpenReadWrite, nil)
	if err != nil {
		return err
	}
	made = append(made, writer)
	later, err := prepareFile(d, writer, unclean, found)
	if err != nil {
		return err
	}
	for range readers + 1 {
		c, err := connect(d.path, sqlite.OpenReadWrite, readerPragmas())
		if err != nil {
			return err
		}
		made = append(made, c)
	}
	if d.places, err = places(d.path); err != nil {
		return err
	}
	if d.places[0].file != opened {
		return fmt.Errorf("sqlite: %s was %w", d.path, errMoved)
	}
	if err := d.owner.Opened(d.prefix, d.level, opened); err != nil {
		return err
	}
	if !d.relaxed {
		if err := d.log.open(writer); err != nil {
			return err
		}
	}
	if later {
		if err := startCheck(d); err != nil {
			return err
		}
	}
	d.writer <- made[0]
	d.probe <- made[1]
	for _, c := range made[2:] {
		d.reader <- c
	}
	return nil
}

func supported(version int) error {
	if version < oldestSQLite {
		return fmt.Errorf("sqlite: this program is built with SQLite %d.%d.%d, whose write-ahead log can corrupt the database; "+
			"require modernc.org/sqlite v1.60.0 or newer", version/1_000_000, version/1_000%1_000, version%1_000)
	}
	return nil
}

// locate turns the user's path into the one under which SQLite will know the file, so that the log
// and the owners' files stand beside the file itself and not beside a symbolic link to it. network
// names the network file system of a directory.
func locate(path string, network func(dir string) string) (string, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", sojourn.Invalid("path", "%q names no file", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", sojourn.Invalid("path", "%s is a symbolic link that leads nowhere", path)
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	} else {
		return "", sojourn.Invalid("path", "the directory %s cannot be used (%v); create it first", filepath.Dir(path), err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", sojourn.Invalid("path", "%s is no regular file", path)
	}
	if name := network(filepath.Dir(path)); name != "" {
		return "", sojourn.Invalid("path", "%s is on a network file system (%s), where SQLite's locks do not work reliably; "+
			"use a local disk, a server beside the file, or PostgreSQL (AllowNetworkFS overrides)", path, name)
	}
	return path, nil
}

// oneName refuses a file with several names. SQLite finds the log by the name under which a file is
// opened, so writes under one name would be missing under the other, and both would overwrite each
// other.
func oneName(path string) error {
	info, err := os.Stat(path)
	if err != nil || filesys.Links(info) < 2 {
		return nil // opening reports the error
	}
	if _, err := os.Stat(path + restoreMark); err == nil {
		return nil // a restore that was interrupted has given the store a second name, which no program uses
	}
	return sojourn.Invalid("path", "%s has %d names (hard links), each of which would have a log of its own; stop all programs that use the file, keep the "+
		"name beside which the files -wal and -shm are, and remove the others, which \"find DIR -samefile %[1]s\" lists. To copy a store use sojourn store backup", path, filesys.Links(info))
}

// createFile makes a missing file that only its owner can read; SQLite gives the log the same mode.
// An existing file must not be opened here: closing it again would free the locks that other
// connections of this process hold on it, since POSIX locks belong to the process. For the same
// reason no connection may open the new file before it is closed here.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sqlite: create the database: %w", err)
	}
	return f.Close()
}

// connect opens a connection and sets it up.
func connect(path string, flags sqlite.OpenFlags, pragmas []pragma) (*conn, error) {
	raw, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	raw.SetBusyTimeout(0) // conn.patiently waits instead
	c := &conn{raw: raw, ended: errOutside}
	if err := c.set(pragmas); err != nil {
		raw.Close()
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return c, nil
}
