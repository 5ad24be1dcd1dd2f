package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

func sqlStatements(text string) []string { return sqlstore.Statements(text) }

// spec:L8. Two stores of one process are two owners; each sees that the other lives.
func TestOwners(t *testing.T) {
	path := fileTest(t)
	a, b := openTest(t, path), openTest(t, path)
	p := child(t, path, "hold")
	c := p.read(t, "ready")
	for _, id := range []string{a.OwnerID(), b.OwnerID(), c} {
		if !validOwner(id) {
			t.Errorf("%q is no owner's id", id)
		}
	}
	if a.OwnerID() == b.OwnerID() {
		t.Error("two stores are one owner")
	}
	dead := func(want ...string) {
		t.Helper()
		got, err := a.Dead(t.Context())
		if err != nil || len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("dead: %q, want %q: %v", got, want, err)
		}
	}
	dead()
	for _, living := range []string{a.OwnerID(), b.OwnerID(), c} {
		if err := a.Forget(living); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(a.path + ownerMark + living); err != nil {
			t.Error("a living owner was forgotten:", err)
		}
	}
	p.kill()
	dead(c)
	dead(c) // looking changes nothing
	if err := errors.Join(a.Forget(c), b.Forget(c)); err != nil {
		t.Error("who comes second finds the work done:", err)
	}
	dead()
	own := b.path + ownerMark + b.OwnerID()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Close left its owner's file:", err)
	}
	dead()
	for _, bad := range []string{"", "../../etc/passwd", "ABCDEFGHIJKLMNOP", "abc"} {
		if err := a.Forget(bad); err == nil {
			t.Errorf("Forget(%q) was accepted", bad)
		}
	}
}

func TestOwnersInMemory(t *testing.T) {
	d := openTest(t, inMemory)
	dead, err := d.Dead(t.Context())
	if d.OwnerID() != "" || len(dead) != 0 || err != nil || d.Forget("x") != nil {
		t.Error(d.OwnerID(), dead, err)
	}
}

// An owner that somebody takes for dead while it is being made ends up with a file that stands.
func TestOwnerRace(t *testing.T) {
	database := fileTest(t)
	stop := make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			dead, _, err := lookAtOwners(database, "")
			if err != nil {
				t.Error(err)
				return
			}
			for _, id := range dead {
				if err := forgetOwner(database, id); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var all []*owner
	for range 300 {
		o, err := newOwner(database, 7)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
		if len(all) > 20 {
			if err := all[0].release(); err != nil {
				t.Error(err)
			}
			all = all[1:]
		}
	}
	close(stop)
	wg.Wait()
	dead, living, err := lookAtOwners(database, "")
	if err != nil || len(dead) != 0 || !slices.Equal(living, slices.Repeat([]int{7}, len(all))) {
		t.Error(len(dead), "dead,", living, "living of", len(all), err)
	}
	for _, o := range all {
		if err := o.release(); err != nil {
			t.Error(err)
		}
	}
}
