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

	IDs     []sojourn.ID
	idsGood time.Time // the block has to be used before
}

// asProducer calls the store as those do who enqueue jobs.
type asProducer struct{ *environment }

// asWorker calls the store as a worker does.
type asWorker struct {
	*environment
	Claims int64 // number of the last claim request
}

// asResponder calls the store as those do who answer jobs.
type asResponder struct {
	*environment
	Messages int // number of the last message
}

// asOperator calls the store as operators do.
type asOperator struct{ *environment }

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

// Random is the next number of the seed's sequence, in [0, n) (splitmix64).
func (s *environment) Random(n int) int {
	s.dice += 0x9e3779b97f4a7c15
	x := s.dice
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

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

func (s *environment) Must(err error, format string, a ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", fmt.Sprintf(format, a...), err)
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

// OfKind makes a job of another kind.
func OfKind(name string) sojourn.Option { return func(j *sojourn.Job) { j.Kind = name } }

// Args sets the args of a job.
func Args(b string) sojourn.Option { return func(j *sojourn.Job) { j.Args = []byte(b) } }

// Steady retries after d each time, without any randomness.
func Steady(d time.Duration) sojourn.Option {
	return sojourn.RetryBackoff(sojourn.Backoff{First: d, Factor: 1, Limit: d, Jitter: -1})
}

// Policy sets fields of the policy.
func Policy(p sojourn.Policy) sojourn.Option { return sojourn.WithPolicy(p) }

// Typed sets the content type of the args.
func Typed(contentType string) sojourn.Option {
	return func(j *sojourn.Job) { j.ContentType = contentType }
}

// Job makes a job with a fresh id. Its content type is not JSON, so that args, result and
// checkpoint may be any text.
func (s *asProducer) Job(options ...sojourn.Option) sojourn.Job {
	s.Helper()
	j := *sojourn.NewJob(Kind, []byte(`{"order":42}`), append([]sojourn.Option{Typed("text/plain")}, options...)...)
	j.ID = s.ID()
	return j
}

// Put enqueues one job and returns the answer.
func (s *asProducer) Put(j sojourn.Job) sojourn.Enqueued {
	s.Helper()
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Must(err, "Enqueue")
	if len(es) != 1 {
		s.Fatalf("Enqueue of 1 job gave %d answers", len(es))
	}
	if es[0].Err != nil {
		s.Fatalf("Enqueue: without partial the answer has Err %v", es[0].Err)
	}
	return es[0]
}

// Enqueue stores a new job.
func (s *asProducer) Enqueue(options ...sojourn.Option) sojourn.ID {
	s.Helper()
	j := s.Job(options...)
	if e := s.Put(j); e.ID != j.ID || e.Duplicate || e.Replaced {
		s.Fatalf("Enqueue of a new job %d answered %+v", j.ID, e)
	}
	return j.ID
}

// EnqueueMany stores n jobs in one call and returns their ids in order.
func (s *asProducer) EnqueueMany(n int, options ...sojourn.Option) []sojourn.ID {
	s.Helper()
	jobs := make([]sojourn.Job, n)
	ids := make([]sojourn.ID, n)
	for i := range jobs {
		jobs[i] = s.Job(options...)
		ids[i] = jobs[i].ID
	}
	_, err := s.Store.Enqueue(s.Ctx, jobs, false)
	s.Must(err, "Enqueue of %d jobs", n)
	return ids
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

// Get reads a job, complete, and checks the invariants of every row.
func (s *environment) Get(id sojourn.ID) sojourn.Job {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	s.Must(err, "Find %d", id)
	if len(jobs) != 1 {
		s.Fatalf("Find gave %d jobs with the id %d, want 1", len(jobs), id)
	}
	s.rowLaws(jobs[0])
	return jobs[0]
}

// Gone wants no job to have the id.
func (s *environment) Gone(id sojourn.ID) {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}})
	s.Must(err, "Find %d", id)
	if len(jobs) != 0 {
		s.Fatalf("job %d is still there, %s", id, jobs[0].State)
	}
}

// State wants a job to be in a state.
func (s *environment) State(id sojourn.ID, want sojourn.State) sojourn.Job {
	s.Helper()
	j := s.Get(id)
	if j.State != want {
		s.Fatalf("job %d is %s (reason %q, error %q), want %s", id, j.State, j.Reason, j.Error, want)
	}
	return j
}

// Counters wants attempt, failures and crashes.
func (s *environment) Counters(id sojourn.ID, attempt, failures, crashes int32) {
	s.Helper()
	j := s.Get(id)
	if j.Attempt != attempt || j.Failures != failures || j.Crashes != crashes {
		s.Fatalf("job %d has attempt %d, failures %d, crashes %d; want %d, %d, %d",
			id, j.Attempt, j.Failures, j.Crashes, attempt, failures, crashes)
	}
}

// Same wants two values to be equal.
func Same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// At wants a time.
func (s *environment) At(what string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Fatalf("%s is %s, want %s (%v off)", what, got.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano), got.Sub(want))
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
