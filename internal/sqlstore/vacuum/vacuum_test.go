package vacuum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// slowVacuum takes as long as it is told, or until its context ends.
type slowVacuum struct {
	sqldb.DB
	takes time.Duration
	began int
	err   error
}

func (d *slowVacuum) Vacuum(ctx context.Context) error {
	d.began++
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		d.err = ctx.Err()
	}
	return d.err
}

func TestVacuumRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &slowVacuum{takes: time.Second}
		done := make(chan struct{})
		var c Trigger
		for range 5 * 60 { // a minute
			c.Note(db, done, vacuumRows/5)
			time.Sleep(200 * time.Millisecond)
		}
		if db.began != 3 { // after 0.8 s, and each 20 s
			t.Errorf("%d times a minute", db.began)
		}
		time.Sleep(time.Minute)
		db.takes = time.Hour
		c.Note(db, done, vacuumRows-1)
		synctest.Wait()
		if db.began != 4 { // dead rows of the meantime count
			t.Errorf("%d times in all", db.began)
		}
		close(done)
		synctest.Wait()
		if db.err != context.Canceled {
			t.Errorf("a vacuum of a store that closes: %v", db.err)
		}
	})
}
