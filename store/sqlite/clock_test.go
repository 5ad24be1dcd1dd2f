package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clocktest"
)

// TestWallClockIsSet: inv:K1, inv:K3. The wall clock of the machine goes forward and back while
// processes live, die and open: no lease of a living worker ends early, and the jobs of killed ones
// are claimed again in time.
func TestWallClockIsSet(t *testing.T) {
	clocktest.Run(t, []uint64{1, 2}, func(t *testing.T) clocktest.Database {
		o, err := newOptions([]Option{Relaxed()})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "jobs.db")
		return clocktest.Database{Open: func(p clocktest.Process) driver.Store {
			db, err := openDB(path, o)
			if err == nil {
				err = o.tend(db).Raise(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := sqlstore.New(context.Background(), db, sqlstore.Config{Prefix: defaultPrefix, Now: p.Now, Elapsed: p.Elapsed, LoneClock: p.Alone})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}}
	})
}
