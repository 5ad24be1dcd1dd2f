package sqlite

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/waketest"
)

// TestOtherProcessWakes: what one store of a file commits wakes the calls that are blocked in
// another one, without a poll.
func TestOtherProcessWakes(t *testing.T) {
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Poll = time.Hour })()
	path := filepath.Join(t.TempDir(), "jobs.db")
	open := func() *sojourn.Client {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	a, b := open(), open()
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot watch files: the store polls")
	}
	waketest.Run(t, a, b)
}
