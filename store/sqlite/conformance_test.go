package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestConformanceFile runs the whole suite on database files, with the default durability.
func TestConformanceFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store {
		return conforming(t, filepath.Join(t.TempDir(), "jobs.db"), o)
	})
}

// TestConformanceMemory runs the whole suite in memory.
func TestConformanceMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store { return conforming(t, ":memory:", o) })
}

func conforming(t *testing.T, path string, o storetest.Options, more ...Option) driver.Store {
	t.Helper()
	options := []Option{Clock(o.Now)}
	for queue, throttler := range o.Throttlers {
		options = append(options, Throttle(queue, throttler))
	}
	if o.Rules != nil {
		options = append(options, Rules(o.Rules))
	}
	if o.MaxBytes > 0 {
		options = append(options, MaxBytes(o.MaxBytes))
	}
	if o.InboxTTL > 0 {
		options = append(options, InboxTTL(o.InboxTTL))
	}
	c, err := Open(path, append(options, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Of(c)
}

// TestInstances runs the suite of two instances in one file.
func TestInstances(t *testing.T) {
	storetest.Instances(t, func(t *testing.T) func(t *testing.T, prefix string, o storetest.Options) driver.Store {
		path := filepath.Join(t.TempDir(), "jobs.db")
		return func(t *testing.T, prefix string, o storetest.Options) driver.Store {
			return conforming(t, path, o, prefixed(prefix)...)
		}
	})
}

func prefixed(prefix string) []Option {
	if prefix == "" {
		return nil
	}
	return []Option{Prefix(prefix)}
}
