package postgres

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/archive"
)

var billing = archive.Definition{Name: "billing", To: "table:"}

// TestArchiveWaitsForDeletes: an archive is made only when transactions that delete jobs and may
// not know it have ended.
func TestArchiveWaitsForDeletes(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	t.Cleanup(func() { driver.Of(c).Close() })
	conn, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "delete from "+schema+".sj_final where id = 0"); err != nil {
		t.Fatal(err)
	}
	archives := archive.Of(c)
	if _, err := archives.Add(t.Context(), billing); sojourn.ErrorCode(err) != sojourn.CodeUnavailable {
		t.Fatalf("an archive is made while a transaction that deletes jobs is open: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := archives.Add(t.Context(), billing); err != nil {
		t.Fatal(err)
	}
}

// TestArchiveBesideRetention: no job that is there when an archive was made is deleted before it
// was exported, also while two stores delete jobs.
func TestArchiveBesideRetention(t *testing.T) {
	schema := newSchema(t)
	var ahead atomic.Int64
	clock := Clock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	var stores []*sojourn.Client
	for range 3 {
		c := open(t, Schema(schema), AutoMigrate(), clock)
		t.Cleanup(func() { driver.Of(c).Close() })
		stores = append(stores, c)
	}
	jobs := make([]*sojourn.Job, 600)
	ids := make([]sojourn.ID, len(jobs))
	for i := range jobs {
		jobs[i] = sojourn.NewJob("mail", nil)
	}
	done, err := stores[0].EnqueueAll(t.Context(), jobs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range done {
		ids[i] = e.ID
	}
	if _, err := stores[0].Store().Edit(t.Context(), sojourn.Filter{IDs: ids}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(sojourn.DefaultRetentionAge + time.Hour))
	var pruned atomic.Int64
	var group sync.WaitGroup
	sweep := func(c *sojourn.Client) {
		for {
			swept, err := driver.Of(c).Sweep(t.Context(), 20)
			if err != nil {
				t.Error(err)
			}
			if pruned.Add(int64(swept.Pruned)); err != nil || swept.Pruned == 0 {
				return
			}
		}
	}
	for _, c := range stores[1:] {
		group.Go(func() { sweep(c) })
	}
	for pruned.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := archive.Of(stores[0]).Add(t.Context(), billing); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		found, err := stores[0].Store().Find(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	there := count()
	group.Wait()
	sweep(stores[0])
	if left := count(); left != there {
		t.Errorf("%d jobs were there when the archive was made, %d are left", there, left)
	}
	t.Logf("%d jobs were deleted before the archive was made, %d are held", len(ids)-there, there)
}
