package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
)

func storeTest(t *testing.T, path string) *sojourn.Client {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func enqueueTest(t *testing.T, c *sojourn.Client, n int) (ids []sojourn.ID) {
	t.Helper()
	jobs := make([]*sojourn.Job, n)
	for i := range jobs {
		jobs[i] = sojourn.NewJob("mail", bytes.Repeat([]byte("1"), 2000))
	}
	if _, err := c.EnqueueAll(context.Background(), jobs...); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// doctorTest opens a store, which must be in order and hold the jobs.
func doctorTest(t *testing.T, path string, ids []sojourn.ID) {
	t.Helper()
	c := storeTest(t, path)
	defer c.Close()
	if found, err := c.Store().(driver.Checker).Check(context.Background()); err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
	for _, id := range ids {
		if _, err := c.Get(context.Background(), id); err != nil {
			t.Fatalf("job %d: %v", id, err)
		}
	}
}

func coded(t *testing.T, err error, code, about string) {
	t.Helper()
	if sojourn.ErrorCode(err) != code || !strings.Contains(err.Error(), about) {
		t.Errorf("%v; want %s about %q", err, code, about)
	}
}

// TestBackupUnderLoad: the backup contains all writes acknowledged before it began. After a restore
// no ids, idempotency keys or fences that were given out since the backup are given out again
// (spec:L8, inv:A1).
func TestBackupUnderLoad(t *testing.T) {
	path := fileTest(t)
	copied := path + ".backup"
	c := storeTest(t, path)
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex
	var acked []sojourn.ID
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if e, err := c.Enqueue(context.Background(), sojourn.NewJob("mail", []byte("{}"))); err == nil {
					mu.Lock()
					acked = append(acked, e.ID)
					mu.Unlock()
				}
			}
		})
	}
	before := enqueueTest(t, c, 300)
	mu.Lock()
	before = append(before, acked...)
	mu.Unlock()
	if done, err := Backup(context.Background(), path, copied); err != nil || done.Bytes == 0 {
		t.Fatal(done, err)
	}
	enqueueTest(t, c, 500)
	stop()
	group.Wait()
	claimed, err := driver.Of(c).Claim(context.Background(), driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"default"}, Kinds: []string{"mail"}, Max: 1, Capacity: 1})
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	last := slices.Max(append(acked, before...))
	oldKey := claimed[0].Job.IdempotencyKey()
	_, err = Restore(context.Background(), copied, path, true)
	coded(t, err, sojourn.CodeConflict, "stop their processes")
	c.Close()
	_, err = Restore(context.Background(), copied, path, false)
	coded(t, err, sojourn.CodeConflict, "--replace")
	_, err = Backup(context.Background(), path, copied)
	coded(t, err, sojourn.CodeConflict, "exists")
	r, err := Restore(context.Background(), copied, path, true)
	if err != nil || r.NextID <= last || r.Replaced == "" {
		t.Fatalf("%+v %v", r, err)
	}
	doctorTest(t, path, before)
	doctorTest(t, r.Replaced, append(before, acked...))
	c = storeTest(t, path)
	e, err := c.Enqueue(context.Background(), sojourn.NewJob("mail", nil))
	if err != nil || e.ID < r.NextID {
		t.Error(e, err)
	}
	again, err := driver.Of(c).Claim(context.Background(), driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"default"}, Kinds: []string{"mail"}, Max: 1, Capacity: 1})
	if err != nil || len(again) != 1 || again[0].Job.ID != claimed[0].Job.ID || again[0].Job.IdempotencyKey() != oldKey || again[0].Job.Fence() <= claimed[0].Job.Fence() {
		t.Errorf("the job that was claimed after the backup: %+v then, %+v now, %v", claimed, again, err)
	}
}

func TestBackupRefuses(t *testing.T) {
	ctx := context.Background()
	path := fileTest(t)
	_, err := Backup(ctx, path, path+".backup")
	if coded(t, err, sojourn.CodeUnavailable, "no store"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	c := storeTest(t, path)
	ids := enqueueTest(t, c, 200)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	backup := path + ".backup"
	if _, err := Backup(ctx, path, backup); err != nil {
		t.Fatal(err)
	}
	_, err = Restore(ctx, path, path, true)
	coded(t, err, sojourn.CodeInvalid, "backup itself")
	if err := os.WriteFile(path+".txt", []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, path+".txt", path+".new", false); err == nil {
		t.Error("restored a text")
	}
	bad := path + ".bad"
	whole, err := os.ReadFile(backup)
	if err == nil {
		err = errors.Join(os.WriteFile(bad, whole, 0o600), corrupt(bad))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, bad, path, true); err == nil {
		t.Error("restored a damaged backup")
	}
	doctorTest(t, path, ids)
	// Wrong in itself: doctor finds it, and nothing is replaced.
	d, err := openDB(backup, options{migrator: true})
	if err != nil {
		t.Fatal(err)
	}
	c1 := <-d.writer
	if err := run(c1.raw, "update sj_live set history = 7"); err != nil {
		t.Fatal(err)
	}
	d.writer <- c1
	d.Close()
	_, err = Restore(ctx, backup, path, true)
	coded(t, err, sojourn.CodeInvalid, "doctor")
	doctorTest(t, path, ids)
	if left, _ := filepath.Glob(path + "-*"); len(left) > 1 { // the file of the copy that failed
		t.Errorf("left behind: %v", left)
	}
}

// TestRowsThatBreakAConstraint: the check of a file says what to do about a row that another
// program wrote past the constraints.
func TestRowsThatBreakAConstraint(t *testing.T) {
	path := fileTest(t)
	c := storeTest(t, path)
	enqueueTest(t, c, 200)
	c.Close()
	d, err := openDB(path, options{})
	if err != nil {
		t.Fatal(err)
	}
	c1 := <-d.writer
	for _, q := range []string{"pragma ignore_check_constraints=1", "update sj_live set weight = -1 where id = 7", "pragma ignore_check_constraints=0"} {
		if err := run(c1.raw, q); err != nil {
			t.Fatal(err)
		}
	}
	for _, check := range []func() (string, error){
		func() (string, error) { return damage.Whole(t.Context(), c1.raw) },
		func() (string, error) { return damage.Tables(t.Context(), c1.raw, time.Hour) },
	} {
		if found, err := check(); err != nil || found != "CHECK constraint failed in sj_live" {
			t.Errorf("%q %v", found, err)
		}
	}
	d.writer <- c1
	d.Close()
	if _, err := Backup(t.Context(), path, path+".backup"); err != nil { // read-only connections check no constraints
		t.Error(err)
	}
}

// TestRestoreOverDamage: a store that cannot be read any more is moved away with its log.
func TestRestoreOverDamage(t *testing.T) {
	path := fileTest(t)
	c := storeTest(t, path)
	ids := enqueueTest(t, c, 200)
	if _, err := Backup(context.Background(), path, path+".backup"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := errors.Join(os.WriteFile(path, []byte(strings.Repeat("rubbish", 3000)), 0o600), os.WriteFile(path+"-wal", []byte("more of it"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(context.Background(), path+".backup", path, true)
	if err != nil || r.Replaced == "" {
		t.Fatal(r, err)
	}
	doctorTest(t, path, ids)
	if text, err := os.ReadFile(r.Replaced); err != nil || !strings.HasPrefix(string(text), "rubbish") {
		t.Error("the damaged file is not kept:", err)
	}
}

func TestCompact(t *testing.T) {
	path := fileTest(t)
	c := storeTest(t, path)
	ids := enqueueTest(t, c, 1000)
	for range 4 {
		enqueueTest(t, c, 1000)
	}
	rest := enqueueTest(t, c, 100)
	purge(t, path, ids[0], rest[0])
	r, err := Compact(context.Background(), path, false) // while the store is open
	if err != nil || r.After > r.Before/2 || r.Free > 1<<20 {
		t.Fatalf("%+v %v", r, err)
	}
	_, err = Compact(context.Background(), path, true)
	coded(t, err, sojourn.CodeConflict, "without --full")
	c.Close()
	doctorTest(t, path, rest)
	full, err := Compact(context.Background(), path, true)
	if err != nil || full.After > r.After {
		t.Errorf("%+v %v", full, err)
	}
	doctorTest(t, path, rest)
	t.Logf("%d bytes, compacted %d, written anew %d", r.Before, r.After, full.After)
}

// purge deletes rows as retention does, without its wait.
func purge(t *testing.T, path string, from, to sojourn.ID) {
	t.Helper()
	d, err := openDB(path, options{migrator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := <-d.writer
	defer func() { d.writer <- c }()
	for _, q := range []string{"delete from sj_live where id >= %d and id < %d", "delete from sj_job where id >= %d and id < %d", "delete from sj_history where job >= %d and job < %d",
		"update sj_count set ready = (select count(*) from sj_live l where l.queue = sj_count.queue and l.kind = sj_count.kind and l.state = 3 and %d < %d)"} {
		if err := c.patiently(context.Background(), func() error { return run(c.raw, fmt.Sprintf(q, from, to)) }); err != nil {
			t.Fatal(err)
		}
	}
}

// tendChild runs one of three commands and reports it: "backup TO", "restore FROM AT" killing
// itself before step AT, "compact FULL".
func tendChild(command []string, path string) error {
	ctx := context.Background()
	var err error
	switch command[0] {
	case "backup":
		_, err = Backup(ctx, path, command[1])
	case "compact":
		_, err = Compact(ctx, path, command[1] == "full")
	case "restore":
		var at int
		fmt.Sscan(command[2], &at)
		r := restoring{now: time.Now, replace: true, step: func() {
			if at--; at == 0 {
				self, _ := os.FindProcess(os.Getpid())
				self.Kill()
				select {}
			}
		}}
		_, err = r.run(ctx, command[1], path)
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// TestRestoreKilled kills a restore between all its steps. The store is the old one, the new one,
// or refuses to open; the second run completes.
func TestRestoreKilled(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		path := fileTest(t)
		c := storeTest(t, path)
		ids := enqueueTest(t, c, 50)
		if _, err := Backup(context.Background(), path, path+".backup"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		states := map[string]int{}
		for at := 1; ; at++ {
			c := storeTest(t, path)
			later := enqueueTest(t, c, 5)
			c.Close()
			if damaged {
				if err := errors.Join(os.WriteFile(path, []byte(strings.Repeat("rubbish", 3000)), 0o600), os.WriteFile(path+"-wal", []byte("more"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			p := child(t, path, fmt.Sprintf("restore %s %d", path+".backup", at))
			ended := p.lines.Scan() && p.lines.Text() == "done"
			p.Wait()
			if ended {
				break
			}
			states[afterKill(t, path, damaged, ids, later)]++
			if _, err := Restore(context.Background(), path+".backup", path, true); err != nil {
				t.Fatalf("second run after a kill before step %d: %v", at, err)
			}
			doctorTest(t, path, ids)
		}
		t.Logf("damaged %v: %v", damaged, states)
		if len(states) < 2 || !damaged && states["old"]*states["new"] == 0 || states["refused"] > 0 != damaged {
			t.Errorf("damaged %v: %v", damaged, states)
		}
		if left, _ := filepath.Glob(path + "-*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// afterKill describes the state of the store. It must not be empty, nor lack the jobs it had.
func afterKill(t *testing.T, path string, damaged bool, ids, later []sojourn.ID) string {
	t.Helper()
	c, err := Open(path)
	switch {
	case err != nil && strings.Contains(err.Error(), "repeat sojourn store restore"):
		return "refused"
	case err != nil && damaged:
		return "damaged"
	case err != nil:
		t.Fatal(err)
	}
	c.Close()
	doctorTest(t, path, ids)
	c = storeTest(t, path)
	defer c.Close()
	if _, err := c.Get(context.Background(), later[0]); err == nil {
		return "old"
	}
	return "new"
}

// TestBackupAndCompactKilled kills both at random moments, while the store is worked on: the backup
// is whole or not there, the store whole.
func TestBackupAndCompactKilled(t *testing.T) {
	path := fileTest(t)
	c := storeTest(t, path)
	var ids []sojourn.ID
	for range 6 {
		ids = append(ids, enqueueTest(t, c, 1000)...)
	}
	killed, whole := 0, 0
	for i := range 8 {
		to := fmt.Sprintf("%s.backup%d", path, i/2) // the second finds the leftovers of the first
		p := child(t, path, "backup "+to)
		timer := time.AfterFunc(time.Duration(20+rand.IntN(1500))*time.Millisecond, func() { p.Process.Kill() })
		p.lines.Scan()
		if p.Wait() != nil {
			killed++
		}
		timer.Stop()
		enqueueTest(t, c, 10)
		if _, err := os.Stat(to); err == nil {
			whole++
			if err := intact(context.Background(), to); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Backup(context.Background(), path, path+".last"); err != nil {
		t.Error(err)
	}
	purge(t, path, ids[100], ids[4000])
	for range 8 {
		p := child(t, path, "compact some")
		timer := time.AfterFunc(time.Duration(20+rand.IntN(300))*time.Millisecond, func() { p.Process.Kill() })
		p.lines.Scan()
		if p.Wait() != nil {
			killed++
		}
		timer.Stop()
	}
	c.Close()
	if err := intact(context.Background(), path); err != nil {
		t.Error(err)
	}
	doctorTest(t, path, ids[4000:])
	t.Logf("%d killed, %d looks at a backup that was whole", killed, whole)
}
