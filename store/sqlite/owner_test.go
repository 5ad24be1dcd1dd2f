package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

func sqlStatements(text string) []string { return sqldb.Statements(text) }

// deadOwners lists the dead owners of a store.
func deadOwners(d *DB) (ids []string, err error) {
	err = d.EndDead(context.Background(), func(id string) (bool, error) { ids = append(ids, id); return false, nil })
	return ids, err
}

func forgetDead(d *DB) error {
	return d.EndDead(context.Background(), func(string) (bool, error) { return true, nil })
}

// spec:L8. Two stores of one process are two owners; each sees that the other lives.
func TestOwners(t *testing.T) {
	path := fileTest(t)
	a, b := openTest(t, path), openTest(t, path)
	p := child(t, path, "hold")
	c := p.read(t, "ready")
	for _, id := range []string{a.OwnerID(), b.OwnerID(), c} {
		if !owner.Valid(id) {
			t.Errorf("%q is no owner's id", id)
		}
	}
	if a.OwnerID() == b.OwnerID() {
		t.Error("two stores are one owner")
	}
	dead := func(want ...string) {
		t.Helper()
		got, err := deadOwners(a)
		if err != nil || len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("dead: %q, want %q: %v", got, want, err)
		}
	}
	dead()
	if err := forgetDead(a); err != nil {
		t.Error(err)
	}
	for _, living := range []string{a.OwnerID(), b.OwnerID(), c} {
		if _, err := os.Stat(a.path + owner.Mark + living); err != nil {
			t.Error("a living owner was forgotten:", err)
		}
	}
	p.kill()
	dead(c)
	dead(c) // looking changes nothing
	if err := a.EndDead(t.Context(), func(id string) (bool, error) {
		again, err := deadOwners(b)
		if !slices.Equal(again, []string{id}) || err != nil {
			t.Error("another store sees, while the death is acted on,", again, err)
		}
		if f, err := os.OpenFile(a.path+owner.Mark+id, os.O_RDWR, 0); err != nil {
			t.Error(err)
		} else if locked, err := filesys.Lock(f); locked || err != nil {
			t.Error("the dead owner could come back while its death is acted on:", err)
		}
		return true, forgetDead(b)
	}); err != nil {
		t.Error("of two that act on a death, the second one fails:", err)
	}
	dead()
	own := b.path + owner.Mark + b.OwnerID()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Close left its owner's file:", err)
	}
	dead()
	for _, bad := range []string{"", "ABCDEFGHIJKLMNOP", "abc", "abcdefghijklmnop.old"} { // files of others
		if err := os.WriteFile(a.path+owner.Mark+bad, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	dead()
	unborn := a.path + owner.Mark + "abcdefghijklmnop" + ".new"
	if err := os.WriteFile(unborn, nil, 0o600); err != nil {
		t.Error(err)
	}
	dead()
	if _, err := os.Stat(unborn); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was left of an owner that was never born stays:", err)
	}
}

func TestOwnersInMemory(t *testing.T) {
	d := openTest(t, inMemory)
	dead, err := deadOwners(d)
	if d.OwnerID() != "" || len(dead) != 0 || err != nil {
		t.Error(d.OwnerID(), dead, err)
	}
}

// TestRestartKeepsLeasesOfOthers: a process that stops and starts changes nothing about the leases
// that workers of another process hold (spec:L9).
func TestRestartKeepsLeasesOfOthers(t *testing.T) {
	path := fileTest(t)
	one, other := storeTest(t, path), storeTest(t, path)
	ids := enqueueTest(t, one, 2)
	claim := driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"default"}, Kinds: []string{"mail"}, Max: 1, Capacity: 100, Lease: time.Minute}
	jobs, err := driver.Of(one).Claim(t.Context(), claim)
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	before, err := one.Get(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	other = storeTest(t, path)
	if swept, err := driver.Of(other).Sweep(t.Context(), 100); err != nil || swept != (driver.Swept{}) {
		t.Errorf("the sweep of the new process: %+v, %v", swept, err)
	}
	after, err := other.Get(t.Context(), ids[0])
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("%+v, %v, before %+v", after, err, before)
	}
	done, err := driver.Of(one).Finish(t.Context(), []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}})
	if err != nil || done[0].Status != driver.FinishApplied {
		t.Errorf("the end of the step: %+v, %v", done, err)
	}
}

// TestColumnsAreNotNull: no column takes a null (spec:A17).
func TestColumnsAreNotNull(t *testing.T) {
	path := fileTest(t)
	storeTest(t, path).Close()
	d, err := openDB(path, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := <-d.writer
	defer func() { d.writer <- c }()
	nullable, err := ask(c.raw, `select coalesce(group_concat(m.name || '.' || p.name), '') from sqlite_schema m join pragma_table_info(m.name) p
		where m.type = 'table' and m.name like 'sj\_%' escape '\' and p."notnull" = 0`)
	if err != nil || nullable != "" {
		t.Errorf("columns that may be null: %s, %v", nullable, err)
	}
}
