package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestConformance runs the whole suite on PostgreSQL, the same cases as on SQLite. Each case has a
// schema of its own, without rows. A case alternates between this process, the server and fsync, so
// that one case at a time would leave a core idle.
func TestConformance(t *testing.T) {
	testURL(t)
	storetest.Parallel(t, conforming)
}

func conforming(t *testing.T, o storetest.Options) driver.Store {
	t.Helper()
	return openKept(t, append(wished(o), Schema(emptySchema(t)))...)
}

// wished are the store options that the suite requests.
func wished(o storetest.Options) []Option {
	options := []Option{Clock(o.Now), AutoMigrate()}
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
	return options
}

func open(t testing.TB, options ...Option) *sojourn.Client {
	t.Helper()
	c, err := Open(testURL(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInstances runs the suite of two instances in one schema.
func TestInstances(t *testing.T) {
	testURL(t)
	storetest.Instances(t, func(t *testing.T) func(t *testing.T, prefix string, o storetest.Options) driver.Store {
		schema := newSchema(t)
		return func(t *testing.T, prefix string, o storetest.Options) driver.Store {
			options := append(wished(o), Schema(schema))
			if prefix != "" {
				options = append(options, Prefix(prefix))
			}
			return driver.Of(open(t, options...))
		}
	})
}
