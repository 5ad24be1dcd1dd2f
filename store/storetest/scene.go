package storetest

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
	charge = "charge_card" // a kind
	line   = "default"     // a queue
	lease  = 30 * time.Second
	// patience bounds every wait for something that must happen. It is real time and long, so that
	// a slow machine fails nothing.
	patience = 20 * time.Second
	// moment is the time in which something that must not happen could happen.
	moment = 30 * time.Millisecond
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

// scene is what a case works with: a store and its clock, and calls in the roles of those who use a
// store. A call that fails ends the case.
type scene struct {
	*environment
	asProducer
	asWorker
	asResponder
	asOperator

	beside *scene // another instance in the same database; see storetest.Instances
}

// environment is the store of a case, its clock, and the calls that read.
type environment struct {
	*testing.T
	ctx    context.Context
	opener opener
	store  driver.Store
	clock  *clock
	seed   uint64
	dice   uint64 // state of random
	closed bool   // the case has closed the store: nothing to audit

	ids     []sojourn.ID
	idsGood time.Time // the block has to be used before
}

// asProducer calls the store as those do who enqueue jobs.
type asProducer struct{ *environment }

// asWorker calls the store as a worker does.
type asWorker struct {
	*environment
	claims int64 // number of the last claim request
}

// asResponder calls the store as those do who answer jobs.
type asResponder struct {
	*environment
	messages int // number of the last message
}

// asOperator calls the store as operators do.
type asOperator struct{ *environment }

func newScene(t *testing.T, open opener) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	e := &environment{T: t, ctx: ctx, opener: open, seed: 1, clock: &clock{at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}}
	if v := os.Getenv("SOJOURN_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("SOJOURN_SEED: %v", err)
		}
		e.seed = n
	}
	e.dice = e.seed
	s := &scene{}
	s.use(e)
	return s
}

// use puts the scene into an environment.
func (s *scene) use(e *environment) {
	s.environment, s.asProducer.environment, s.asWorker.environment = e, e, e
	s.asResponder.environment, s.asOperator.environment = e, e
}

// open opens a new store for the scene; a case that needs other options calls it first.
func (s *environment) open(o options) {
	s.Helper()
	if s.store != nil {
		_ = s.store.Close()
	}
	o.Now = s.clock.now
	store := s.opener(s.T, o)
	s.store, s.ids = store, nil
	s.Cleanup(func() { _ = store.Close() })
}

// random is the next number of the seed's sequence, in [0, n) (splitmix64).
func (s *environment) random(n int) int {
	s.dice += 0x9e3779b97f4a7c15
	x := s.dice
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

func (s *environment) now() time.Time { return s.clock.now() }

// advance moves the clock and lets blocked calls look again.
func (s *environment) advance(d time.Duration) {
	s.clock.move(d)
	if n, ok := s.store.(interface{ Nudge() }); ok {
		n.Nudge()
	}
}

// sweep handles everything that is overdue now and returns the counts.
func (s *environment) sweep() driver.Swept {
	s.Helper()
	var sum driver.Swept
	for range 100 {
		w, err := s.store.Sweep(s.ctx, 1000)
		s.must(err, "Sweep")
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
	}
	s.Fatalf("100 sweeps at the same time and still something is overdue: %+v so far", sum)
	return sum
}

// swept moves the clock, sweeps, and wants exactly this to be handled.
func (s *environment) swept(after time.Duration, want driver.Swept) {
	s.Helper()
	s.advance(after)
	if got := s.sweep(); got != want {
		s.Fatalf("Sweep handled %+v, want %+v", got, want)
	}
}

func (s *environment) must(err error, format string, a ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", fmt.Sprintf(format, a...), err)
	}
}

// id draws a fresh id.
func (s *environment) id() sojourn.ID {
	s.Helper()
	if len(s.ids) == 0 || !s.now().Before(s.idsGood) {
		const block = 50
		first, err := s.store.IDs(s.ctx, block)
		s.must(err, "IDs")
		s.ids = s.ids[:0]
		for i := range sojourn.ID(block) {
			s.ids = append(s.ids, first+i)
		}
		s.idsGood = s.now().Add(sojourn.IDLife - time.Minute)
	}
	id := s.ids[0]
	s.ids = s.ids[1:]
	return id
}

// ofKind makes a job of another kind.
func ofKind(name string) sojourn.Option { return func(j *sojourn.Job) { j.Kind = name } }

// args sets the args of a job.
func args(b string) sojourn.Option { return func(j *sojourn.Job) { j.Args = []byte(b) } }

// steady retries after d each time, without any randomness.
func steady(d time.Duration) sojourn.Option {
	return sojourn.RetryBackoff(sojourn.Backoff{First: d, Factor: 1, Limit: d, Jitter: -1})
}

// policy sets fields of the policy.
func policy(p sojourn.Policy) sojourn.Option { return sojourn.WithPolicy(p) }

// typed sets the content type of the args.
func typed(contentType string) sojourn.Option {
	return func(j *sojourn.Job) { j.ContentType = contentType }
}

// job makes a job with a fresh id. Its content type is not JSON, so that args, result and
// checkpoint may be any text.
func (s *asProducer) job(options ...sojourn.Option) sojourn.Job {
	s.Helper()
	j := *sojourn.NewJob(charge, []byte(`{"order":42}`), append([]sojourn.Option{typed("text/plain")}, options...)...)
	j.ID = s.id()
	return j
}

// put enqueues one job and returns the answer.
func (s *asProducer) put(j sojourn.Job) sojourn.Enqueued {
	s.Helper()
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	s.must(err, "Enqueue")
	if len(es) != 1 {
		s.Fatalf("Enqueue of 1 job gave %d answers", len(es))
	}
	if es[0].Err != nil {
		s.Fatalf("Enqueue: without partial the answer has Err %v", es[0].Err)
	}
	return es[0]
}

// enqueue stores a new job.
func (s *asProducer) enqueue(options ...sojourn.Option) sojourn.ID {
	s.Helper()
	j := s.job(options...)
	if e := s.put(j); e.ID != j.ID || e.Duplicate || e.Replaced {
		s.Fatalf("Enqueue of a new job %d answered %+v", j.ID, e)
	}
	return j.ID
}

// enqueueMany stores n jobs in one call and returns their ids in order.
func (s *asProducer) enqueueMany(n int, options ...sojourn.Option) []sojourn.ID {
	s.Helper()
	jobs := make([]sojourn.Job, n)
	ids := make([]sojourn.ID, n)
	for i := range jobs {
		jobs[i] = s.job(options...)
		ids[i] = jobs[i].ID
	}
	_, err := s.store.Enqueue(s.ctx, jobs, false)
	s.must(err, "Enqueue of %d jobs", n)
	return ids
}

// refused wants err to be an *Error with the code.
func (s *environment) refused(err error, code string, what string) *sojourn.Error {
	s.Helper()
	e, ok := errors.AsType[*sojourn.Error](err)
	if !ok || e.Code != code {
		s.Fatalf("%s: got the error %v, want one with code %s", what, err, code)
	}
	return e
}

// is wants err to be a sentinel.
func (s *environment) is(err, sentinel error, what string) {
	s.Helper()
	if !errors.Is(err, sentinel) {
		s.Fatalf("%s: got the error %v, want %v", what, err, sentinel)
	}
}

// get reads a job, complete, and checks the invariants of every row.
func (s *environment) get(id sojourn.ID) sojourn.Job {
	s.Helper()
	jobs, err := s.store.Find(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	s.must(err, "Find %d", id)
	if len(jobs) != 1 {
		s.Fatalf("Find gave %d jobs with the id %d, want 1", len(jobs), id)
	}
	s.rowLaws(jobs[0])
	return jobs[0]
}

// gone wants no job to have the id.
func (s *environment) gone(id sojourn.ID) {
	s.Helper()
	jobs, err := s.store.Find(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}})
	s.must(err, "Find %d", id)
	if len(jobs) != 0 {
		s.Fatalf("job %d is still there, %s", id, jobs[0].State)
	}
}

// state wants a job to be in a state.
func (s *environment) state(id sojourn.ID, want sojourn.State) sojourn.Job {
	s.Helper()
	j := s.get(id)
	if j.State != want {
		s.Fatalf("job %d is %s (reason %q, error %q), want %s", id, j.State, j.Reason, j.Error, want)
	}
	return j
}

// counters wants attempt, failures and crashes.
func (s *environment) counters(id sojourn.ID, attempt, failures, crashes int32) {
	s.Helper()
	j := s.get(id)
	if j.Attempt != attempt || j.Failures != failures || j.Crashes != crashes {
		s.Fatalf("job %d has attempt %d, failures %d, crashes %d; want %d, %d, %d",
			id, j.Attempt, j.Failures, j.Crashes, attempt, failures, crashes)
	}
}

// same wants two values to be equal.
func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// at wants a time.
func (s *environment) at(what string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Fatalf("%s is %s, want %s (%v off)", what, got.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano), got.Sub(want))
	}
}

// inOrder goes through a map in the order of its keys, so that a case is the same each time.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
