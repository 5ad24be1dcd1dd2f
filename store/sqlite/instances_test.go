package sqlite

import (
	"os"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// clientOf opens an instance whose DB the test can look into.
func clientOf(t *testing.T, path, prefix string) (*sojourn.Client, *DB) {
	t.Helper()
	o, err := newOptions([]Option{Prefix(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s, err := newStore(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return sojourn.NewClient(s), d
}

func TestPrefixes(t *testing.T) {
	for _, bad := range []string{"", "Mail_", "1_", "a-b", "a b", "a;", "sqlite_", "pg_", "ix_", strings.Repeat("x", 33)} {
		_, err := Open(inMemory, Prefix(bad))
		if coded(t, err, sojourn.CodeInvalid, "use a name such as"); Valid(Prefix(bad)) == nil {
			t.Errorf("%q is valid", bad)
		}
	}
	c, d := clientOf(t, fileTest(t), "mail_")
	status, err := c.Store().Status(t.Context())
	if want := d.path + ", tables mail_*"; err != nil || status.Location != want {
		t.Errorf("location %q, want %q: %v", status.Location, want, err)
	}
}

// TestOwnersOfInstances: spec:L8. The death of a process is acted on by the instance whose jobs it
// has run: the sweep of another one neither ends leases nor takes the owner's file away.
func TestOwnersOfInstances(t *testing.T) {
	path := fileTest(t)
	other, _ := clientOf(t, path, defaultPrefix)
	dying, db := clientOf(t, path, "mail_")
	survivor, _ := clientOf(t, path, "mail_")
	for _, c := range []*sojourn.Client{other, dying} {
		if _, err := c.EnqueueAll(t.Context(), batchOf(100)...); err != nil {
			t.Fatal(err)
		}
		if _, err := claimHundred(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.owner.Die(); err != nil {
		t.Fatal(err)
	}
	if swept, err := driver.Of(other).Sweep(t.Context(), 1000); err != nil || swept.Total() != 0 {
		t.Errorf("the sweep of another instance: %+v %v", swept, err)
	}
	if _, err := os.Stat(path + owner.Mark + db.OwnerID()); err != nil {
		t.Error("the owner is forgotten before its leases have ended:", err)
	}
	if swept, err := driver.Of(survivor).Sweep(t.Context(), 1000); err != nil || swept.Lost != 100 {
		t.Errorf("the sweep of the same instance: %+v %v", swept, err)
	}
	running, err := other.Store().Find(t.Context(), sojourn.Filter{States: []sojourn.State{sojourn.Running}, Limit: 1000})
	if err != nil || len(running) != 100 {
		t.Errorf("%d jobs of the other instance run, want 100: %v", len(running), err)
	}
}

// TestMigrateBesideInstance: a step that an open program could not work after is refused because of
// programs of the same instance only, and changes nothing of the other one.
func TestMigrateBesideInstance(t *testing.T) {
	path := fileTest(t)
	old, _ := clientOf(t, path, "sj_two_")
	m, err := migrations(path).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.Schema(t.Context())
	if err != nil || s.Found != 0 {
		t.Fatal(s, err)
	}
	for _, to := range []int{s.Newest, 0} {
		if _, err := m.Migrate(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Enqueue(t.Context(), sojourn.NewJob("mail", nil)); err != nil {
			t.Error(err)
		}
		if found, err := old.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
			t.Error(found, err)
		}
	}
}

// TestInstancesAreNoDrift: no instance is held against another one in the file, whichever prefix
// begins like the other, and neither are tables of the application.
func TestInstancesAreNoDrift(t *testing.T) {
	path := fileTest(t)
	prefixes := []string{"sj_", "sj_two_", "sj_t", "sj_l", "sj_key_", "sj_response_", "sj_landed_"}
	for _, prefix := range prefixes {
		_, d := clientOf(t, path, prefix)
		execute(t, d, "create table if not exists orders (id integer primary key)")
		d.Close()
	}
	for _, prefix := range prefixes {
		m, err := OpenMigrator(path, Prefix(prefix))
		if err != nil {
			t.Fatal(err)
		}
		if drift, err := m.Drift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("%s: %v %v", prefix, drift, err)
		}
		m.Close()
	}
	_, d := clientOf(t, path, "sj_two_")
	execute(t, d, "pragma writable_schema = 1")
	execute(t, d, "update sqlite_schema set sql = replace(sql, 'weight between 0 and 1000000', 'weight between 0 and 7') where name = 'sj_two_live'")
	execute(t, d, "create table sj_two_mine (id integer primary key)")
	d.Close()
	for _, prefix := range []string{"sj_two_", "sj_t", "sj_"} {
		m, err := OpenMigrator(path, Prefix(prefix))
		if err != nil {
			t.Fatal(err)
		}
		drift, err := m.Drift(t.Context())
		m.Close()
		text := strings.Join(drift, "\n")
		if err != nil || prefix != "sj_two_" && len(drift) > 0 || prefix == "sj_two_" && (len(drift) != 3 || !strings.Contains(text, "constraint sj_two_live.live_weight is") ||
			!strings.Contains(text, "table sj_two_mine is not from a migration")) {
			t.Errorf("%s: %q %v", prefix, drift, err)
		}
	}
}

// TestBackupOfInstances: a backup contains all instances of the file, and a restore gives each of
// them new ids.
func TestBackupOfInstances(t *testing.T) {
	path := fileTest(t)
	backup := path + ".backup"
	prefixes := []string{"sj_", "mail_"}
	last := map[string]sojourn.ID{}
	fill := func(n int) {
		for _, prefix := range prefixes {
			c, _ := clientOf(t, path, prefix)
			for range n {
				e, err := c.Enqueue(t.Context(), sojourn.NewJob("mail", nil))
				if err != nil {
					t.Fatal(err)
				}
				last[prefix] = e.ID
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			n += 2
		}
	}
	fill(3)
	if _, err := Backup(t.Context(), path, backup); err != nil {
		t.Fatal(err)
	}
	open, _ := clientOf(t, path, "mail_")
	_, err := Restore(t.Context(), backup, path, true)
	coded(t, err, sojourn.CodeConflict, "stop their processes")
	_, err = Compact(t.Context(), path, true)
	coded(t, err, sojourn.CodeConflict, "stop their processes")
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	fill(5)
	r, err := Restore(t.Context(), backup, path, true)
	if err != nil || r.Replaced == "" {
		t.Fatal(r, err)
	}
	if _, err := Compact(t.Context(), path, true); err != nil {
		t.Error(err)
	}
	for i, prefix := range prefixes {
		c, _ := clientOf(t, path, prefix)
		jobs, err := c.Store().Find(t.Context(), sojourn.Filter{Limit: 100})
		if err != nil || len(jobs) != 3+2*i {
			t.Errorf("%s: %d jobs after the restore: %v", prefix, len(jobs), err)
		}
		e, err := c.Enqueue(t.Context(), sojourn.NewJob("mail", nil))
		if err != nil || e.ID < idsSkipped || e.ID <= last[prefix] {
			t.Errorf("%s: the first new id is %d, the last one before was %d: %v", prefix, e.ID, last[prefix], err)
		}
		if found, err := c.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
			t.Error(prefix, found, err)
		}
	}
}

// idsSkipped are the ids that a restore leaves out at least.
const idsSkipped = 10_000_000
