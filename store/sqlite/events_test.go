package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSharedEvents: a follower misses no event of several stores on one file.
func TestSharedEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	var stores []driver.Store
	for range 3 {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { driver.Of(c).Close() })
		stores = append(stores, driver.Of(c))
	}
	storetest.SharedEvents(t, nil, stores...)
}

func TestNothingWithoutFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	side := openTest(t, path)
	storetest.NothingWithoutFollower(t, driver.Of(c), func() (n int64) {
		err := side.View(t.Context(), func(c sqldb.Conn) error {
			return c.Query("select count(*) from sj_event", func(r sqldb.Row) error { n = r.Int(0); return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}
