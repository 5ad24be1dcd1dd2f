package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSharedStatistics: the statistics of several stores over one database are exact (spec:X7).
func TestSharedStatistics(t *testing.T) {
	schema := newSchema(t)
	var stores []driver.Store
	for range 3 {
		s := driver.Of(open(t, Schema(schema), AutoMigrate()))
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	storetest.SharedStatistics(t, stores...)
}
