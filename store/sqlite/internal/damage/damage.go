// Package damage finds damage in an SQLite file after an unclean stop. A mark beside the file
// remembers that a check is due, until one has passed.
package damage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// MarkEnd ends the name of the mark. The mark is empty, or has the damage that a check has found.
const MarkEnd = "-unchecked"

// patience bounds the wait for a busy database, such as one that another process is recovering.
const patience = 30 * time.Second

// Due reports whether a file was not checked since an unclean stop: the process that used it last
// has left a log or the mark, and no process uses it now, apart from the owner self. found is the
// damage that an earlier check has found.
func Due(path, self string) (due bool, found string, err error) {
	text, err := os.ReadFile(path + MarkEnd)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, "", fmt.Errorf("sqlite: %w", err)
	}
	if err != nil && filesys.Size(path+"-wal") == 0 {
		return false, "", nil
	}
	living, err := owner.Living(path, self, owner.Any)
	return len(living) == 0, string(text), err
}

// Mark remembers that a check is due, or the damage that it has found.
func Mark(path, found string) error {
	if err := os.WriteFile(path+MarkEnd, []byte(found), 0o600); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// Unmark removes the mark.
func Unmark(path string) error { return filesys.Remove(path + MarkEnd) }

// Whole checks the whole database. It returns the first damage that it finds, or "".
func Whole(ctx context.Context, raw *sqlite.Conn) (found string, err error) {
	return ask(ctx, raw, "pragma quick_check(1)")
}

// Intact is Whole with a comparison of all indexes and their tables, which takes several times as
// long.
func Intact(ctx context.Context, raw *sqlite.Conn) (found string, err error) {
	return ask(ctx, raw, "pragma integrity_check(1)")
}

// Tables checks the tables of all instances in the file, one after the other. Each check is one
// transaction, which keeps the log from being reused, so it ends after limit without a finding.
func Tables(ctx context.Context, raw *sqlite.Conn, limit time.Duration) (found string, err error) {
	text, err := query(ctx, raw, "select json_group_array(name) from (select name from sqlite_schema where type = 'table' order by name)")
	var tables []string
	if err == nil {
		err = json.Unmarshal([]byte(text), &tables)
	}
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		if found, err = checkTable(ctx, raw, table, limit); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

func checkTable(ctx context.Context, raw *sqlite.Conn, table string, limit time.Duration) (found string, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err = ask(limited, raw, `pragma quick_check("`+strings.ReplaceAll(table, `"`, `""`)+`")`)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return "", nil
	}
	return found, err
}

// ask runs a check and returns its finding.
func ask(ctx context.Context, raw *sqlite.Conn, check string) (found string, err error) {
	found, err = query(ctx, raw, check)
	switch {
	case Is(err):
		return err.Error(), nil
	case found == "ok":
		return "", err
	}
	return found, err
}

// query returns the first column of the first row, as text. ctx interrupts the query.
func query(ctx context.Context, raw *sqlite.Conn, q string) (text string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	raw.SetInterrupt(ctx.Done())
	raw.SetBusyTimeout(patience)
	defer raw.SetInterrupt(nil)
	defer raw.SetBusyTimeout(0)
	st, err := raw.Prepare(q)
	if err == nil {
		defer st.Reset()
		_, err = st.Step()
	}
	if err != nil && ctx.Err() != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultInterrupt {
		return "", ctx.Err()
	}
	if err != nil {
		return "", err
	}
	return st.ColumnText(0), nil
}

// Is reports whether an error of SQLite says that the file or the disk is damaged.
func Is(err error) bool {
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultIOErr:
		return code != sqlite.ResultIOErrNoMem
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	}
	return false
}

// Error is the error of a file in which a check has found damage.
func Error(path, found string) error {
	return fmt.Errorf("sqlite: the check of %s has failed (%s). If it names a CHECK constraint, another program has written rows that break it: correct them with the sqlite3 shell. Otherwise the file is damaged. To restore it: stop every process that uses it, keep copies of %[1]s and %[1]s-wal, "+
		"put a backup in the place of %[1]s, remove %[1]s-wal and %[1]s-shm, and start again. Without a backup, "+
		"\"sqlite3 %[1]s .recover\" may save a part", path, found)
}
