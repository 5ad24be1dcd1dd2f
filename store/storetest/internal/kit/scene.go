// Package kit is what the cases of the conformance suite share: the type of a case, and the scene,
// which calls a store in the roles of its users.
package kit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Values that most cases use.
const (
	Kind      = "charge_card" // a kind
	Queue     = "default"     // a queue
	LeaseTime = 30 * time.Second
	// Patience bounds every wait for something that must happen. It is real time and long, so that
	// a slow machine fails nothing.
	Patience = 20 * time.Second
	// Moment is the time in which something that must not happen could happen.
	Moment = 30 * time.Millisecond
)

// clock is driven by the case alone.
type clock struct {
	mu sync.Mutex // guards at: blocked calls read it from other goroutines
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Scene is what a case works with: a store and its clock, and calls in the roles of those who use a
// store. A call that fails ends the case.
type Scene struct {
	*environment
	asProducer
	asWorker
	asResponder
	asOperator

	Beside *Scene // another instance in the same database; see storetest.Instances
}

// environment is the store of a case, its clock, and the calls that read.
type environment struct {
	*testing.T
	Ctx    context.Context
	opener Opener
	Store  driver.Store
	Clock  *clock
	Seed   uint64
	dice   uint64 // state of random
	Closed bool   // the case has closed the store: nothing to audit

	IDs     []sojourn.ID // of a reserved block, not used yet
	idsGood time.Time    // the block has to be used before
}

// NewScene makes a scene without a store; see environment.Open.
func NewScene(t *testing.T, open Opener) *Scene {
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	t.Cleanup(cancel)
	e := &environment{T: t, Ctx: ctx, opener: open, Seed: 1, Clock: &clock{at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}}
	if v := os.Getenv("SOJOURN_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("SOJOURN_SEED: %v", err)
		}
		e.Seed = n
	}
	e.dice = e.Seed
	s := &Scene{}
	s.use(e)
	return s
}

// use puts the scene into an environment.
func (s *Scene) use(e *environment) {
	s.environment, s.asProducer.environment, s.asWorker.environment = e, e, e
	s.asResponder.environment, s.asOperator.environment = e, e
}

// Open opens a new store for the scene; a case that needs other options calls it first.
func (s *environment) Open(o Options) {
	s.Helper()
	if s.Store != nil {
		_ = s.Store.Close()
	}
	o.Now = s.Clock.now
	store := s.opener(s.T, o)
	s.Store, s.IDs = store, nil
	s.Cleanup(func() { _ = store.Close() })
}

// Now is the time of the clock.
func (s *environment) Now() time.Time { return s.Clock.now() }

// Advance moves the clock and lets blocked calls look again.
func (s *environment) Advance(d time.Duration) {
	s.Clock.move(d)
	if n, ok := s.Store.(interface{ Nudge() }); ok {
		n.Nudge()
	}
}

// Sweep handles everything that is overdue now and returns the counts.
func (s *environment) Sweep() driver.Swept {
	s.Helper()
	var sum driver.Swept
	for range 100 {
		w, err := s.Store.Sweep(s.Ctx, 1000)
		s.Must(err, "Sweep")
		if w.Total() == 0 {
			return sum
		}
		sum.Due += w.Due
		sum.Lost += w.Lost
		sum.TimedOut += w.TimedOut
		sum.Deadlines += w.Deadlines
		sum.Decided += w.Decided
		sum.Unmatched += w.Unmatched
		sum.Pruned += w.Pruned
		sum.Resumed += w.Resumed
		sum.Ticks += w.Ticks
	}
	s.Fatalf("100 sweeps at the same time and still something is overdue: %+v so far", sum)
	return sum
}

// Swept moves the clock, sweeps, and wants exactly this to be handled.
func (s *environment) Swept(after time.Duration, want driver.Swept) {
	s.Helper()
	s.Advance(after)
	if got := s.Sweep(); got != want {
		s.Fatalf("Sweep handled %+v, want %+v", got, want)
	}
}

// ID draws a fresh id.
func (s *environment) ID() sojourn.ID {
	s.Helper()
	if len(s.IDs) == 0 || !s.Now().Before(s.idsGood) {
		const block = 50
		first, err := s.Store.IDs(s.Ctx, block)
		s.Must(err, "IDs")
		s.IDs = s.IDs[:0]
		for i := range sojourn.ID(block) {
			s.IDs = append(s.IDs, first+i)
		}
		s.idsGood = s.Now().Add(sojourn.IDLife - time.Minute)
	}
	id := s.IDs[0]
	s.IDs = s.IDs[1:]
	return id
}

// Random is the next number of the seed's sequence, in [0, n) (splitmix64).
func (s *environment) Random(n int) int {
	s.dice += 0x9e3779b97f4a7c15
	x := s.dice
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// Must wants no error of the call that format and a name.
func (s *environment) Must(err error, format string, a ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", fmt.Sprintf(format, a...), err)
	}
}

// Refused wants err to be an *Error with the code.
func (s *environment) Refused(err error, code string, what string) *sojourn.Error {
	s.Helper()
	e, ok := errors.AsType[*sojourn.Error](err)
	if !ok || e.Code != code {
		s.Fatalf("%s: got the error %v, want one with code %s", what, err, code)
	}
	return e
}

// Is wants err to be a sentinel.
func (s *environment) Is(err, sentinel error, what string) {
	s.Helper()
	if !errors.Is(err, sentinel) {
		s.Fatalf("%s: got the error %v, want %v", what, err, sentinel)
	}
}

// At wants a time.
func (s *environment) At(what string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Fatalf("%s is %s, want %s (%v off)", what, got.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano), got.Sub(want))
	}
}

// Same wants two values to be equal.
func Same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// InOrder goes through a map in the order of its keys, so that a case is the same each time.
func InOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// SideBySide runs functions at the same time and waits for them all.
func SideBySide(fs ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, f := range fs {
		wg.Go(func() {
			<-start
			f()
		})
	}
	close(start)
	wg.Wait()
}
