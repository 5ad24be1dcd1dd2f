package storetest

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/throttle"
)

// options are storetest.Options, which documents the fields.
type options struct {
	Now      func() time.Time
	MaxBytes int
	InboxTTL time.Duration

	Throttlers map[string]throttle.Throttler
	Rules      func(text string) (throttle.Throttler, error)
}

// opener makes a new, empty store, and fails t if it cannot.
type opener func(t *testing.T, o options) driver.Store

// trial is one case.
type trial struct {
	name   string
	law    string // the promise of a store, in one sentence
	covers string // ids, separated by blanks
	run    func(s *scene)
}

// play runs the case on a new store and audits the store afterwards.
func (c trial) play(t *testing.T, open opener) {
	s := newScene(t, open)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("law: %s\ncovers: %s\nseed: %d", c.law, c.covers, s.seed)
		}
	})
	defer func() {
		if v := recover(); v != nil { // an answer that is too short must not end the other cases
			t.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	s.open(options{})
	c.run(s)
	s.audit()
}
