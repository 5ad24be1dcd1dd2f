package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// elsewhere begins a transaction of another client, which ends with the test.
func elsewhere(t *testing.T, address string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// TestGuessedPlaces: a job that is stored by cached settings while they change is ordered by the
// new ones: either its transaction sees the change, or the reindex that follows the change sees the
// job.
func TestGuessedPlaces(t *testing.T) {
	a, schema := openNamed(t)
	b := open(t, Schema(schema))
	t.Cleanup(func() { a.Close(); b.Close() })
	enqueue := func(options ...sojourn.Option) sojourn.ID {
		j := sojourn.NewJob("k", nil, options...)
		if _, err := a.Enqueue(t.Context(), j); err != nil {
			t.Error(err)
		}
		return j.ID
	}
	if err := b.Queues().Set(t.Context(), "default", sojourn.QueueSettings{Order: sojourn.OrderTime}); err != nil {
		t.Fatal(err)
	}
	enqueue(sojourn.Key("first"), sojourn.Priority(100))
	enqueue(sojourn.Key("second"), sojourn.Priority(100)) // now it uses the cache
	tx := elsewhere(t, testURL(t))
	// Not by EnqueueTx: the reindex waits for all transactions that have written sj_live.
	if _, err := tx.Exec(t.Context(), "insert into "+schema+".sj_key (kind, key, job, own, live, held_until_us) values ('k', 'held', 1, 1, 1, 1)"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var urgent sojourn.ID
	all.Go(func() { urgent = enqueue(sojourn.Key("held"), sojourn.Priority(1)) })
	until(t, "an enqueue that waits for the key", func() bool {
		var waiting int
		one(t, "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'", schema, &waiting)
		return waiting > 0
	})
	if err := b.Queues().Set(t.Context(), "default", sojourn.QueueSettings{Order: sojourn.OrderPriority}); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the reshaping", func() bool {
		var under int
		one(t, "select count(*) from "+schema+".sj_queue where reshape >= 0 and name = $1", "default", &under)
		return under == 0
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if first := claimOne(t, driver.Of(a)); first.Job.ID != urgent {
		t.Errorf("job %d comes before the most urgent one, %d", first.Job.ID, urgent)
	}
}

// TestOpenTransactionsHoldUpNobody: while an application's transaction that has stored a job stays
// open, the settings can be changed, jobs can be stored, and overdue jobs are swept. After its end
// its job is ordered by the new settings.
func TestOpenTransactionsHoldUpNobody(t *testing.T) {
	c, schema := openNamed(t)
	t.Cleanup(func() { c.Close() })
	set := func(order string) {
		if err := c.Queues().Set(t.Context(), "default", sojourn.QueueSettings{Order: order}); err != nil {
			t.Fatal(err)
		}
	}
	set(sojourn.OrderTime)
	tx := elsewhere(t, with(t, testURL(t), "search_path", schema))
	urgent := sojourn.NewJob("k", nil, sojourn.Priority(1))
	if _, err := EnqueueTx(t.Context(), c, tx, urgent); err != nil {
		t.Fatal(err)
	}
	set(sojourn.OrderPriority)
	for range 20 {
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Delay(time.Millisecond))); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the start of what is due", func() bool {
		if _, err := driver.Of(c).Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		queues, err := c.Store().Queues(t.Context())
		return err == nil && queues[0].Counts[sojourn.Ready] == 20
	})
	swept := make(chan error, 1)
	go func() { _, err := driver.Of(c).Sweep(t.Context(), 1); swept <- err }() // one piece: the waiting is none
	time.Sleep(300 * time.Millisecond)                                         // it waits for 2 s; if it has not looked yet it finds no writer, and the test proves less
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	var begun int
	if one(t, "select count(*) from "+schema+".sj_queue where reshape <> 0 and name = $1", "default", &begun); begun != 1 {
		t.Error("a sweep that has waited for the last of those who had written does not begin")
	}
	until(t, "the end of the reshaping", func() bool {
		if _, err := driver.Of(c).Sweep(t.Context(), 100); err != nil {
			t.Error(err)
		}
		var under int
		one(t, "select count(*) from "+schema+".sj_queue where reshape >= 0 and name = $1", "default", &under)
		return under == 0
	})
	if first := claimOne(t, driver.Of(c)); first.Job.ID != urgent.ID {
		t.Errorf("job %d comes before the most urgent one, %d", first.Job.ID, urgent.ID)
	}
}
