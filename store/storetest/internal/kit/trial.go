package kit

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Options are storetest.Options, which documents the fields.
type Options struct {
	Now      func() time.Time
	MaxBytes int
	InboxTTL time.Duration

	Throttlers map[string]throttle.Throttler
	Rules      func(text string) (throttle.Throttler, error)
}

// Opener makes a new, empty store, and fails t if it cannot.
type Opener func(t *testing.T, o Options) driver.Store

// Trial is one case.
type Trial struct {
	Name   string
	Law    string // the promise of a store, in one sentence
	Covers string // ids, separated by blanks
	Run    func(s *Scene)
}

// Play runs the case on a new store and audits the store afterwards.
func (c Trial) Play(t *testing.T, open Opener) {
	s := NewScene(t, open)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("law: %s\ncovers: %s\nseed: %d", c.Law, c.Covers, s.Seed)
		}
	})
	defer func() {
		if v := recover(); v != nil { // an answer that is too short must not end the other cases
			t.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	s.Open(Options{})
	c.Run(s)
	s.Audit()
}
