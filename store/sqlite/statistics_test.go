package sqlite

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/statistics"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSharedStatistics: the statistics of several stores over one file are exact (spec:X7).
func TestSharedStatistics(t *testing.T) {
	path := fileTest(t)
	var stores []driver.Store
	for range 2 {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		stores = append(stores, driver.Of(c))
	}
	storetest.SharedStatistics(t, stores...)
}

// TestKeepStatistics: the option says how many days are kept, and is checked (spec:X11).
func TestKeepStatistics(t *testing.T) {
	for _, bad := range []Option{KeepStatistics(-1, 0), KeepStatistics(0, statistics.MaxDays+1)} {
		if err := Valid(bad); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Error(err)
		}
	}
	var day atomic.Int64 // since 1970
	day.Store(20_000)
	now := func() time.Time { return time.Unix(day.Load()*24*60*60, 0) }
	c, err := Open(":memory:", Clock(now), KeepStatistics(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("mail", nil)); err != nil {
		t.Fatal(err)
	}
	for passed, want := range []int64{1, 1, 0} {
		if _, err := driver.Of(c).Sweep(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		rows, err := statistics.Of(c).Rows(t.Context(), statistics.Query{Days: 9})
		if err != nil || rows[0].Enqueued != want {
			t.Errorf("after %d days %d enqueued, want %d: %v", passed, rows[0].Enqueued, want, err)
		}
		day.Add(1)
	}
}
