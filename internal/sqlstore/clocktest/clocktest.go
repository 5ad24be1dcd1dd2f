// Package clocktest tests that several processes on one database keep their leases when the clock
// of the database is set. Time is driven: nothing sleeps. A process is a store handle with its own
// monotonic clock; all of them read one clock that the test sets.
package clocktest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	lease       = 30 * time.Second
	extendEvery = lease / 3
	sweepEvery  = 5 * time.Second
	tick        = time.Second
	// bound is the maximum wait of a job of a killed process beside its lease, in monotonic time:
	// one more lease after a step or an opening, a sweep, and the delay of its retry.
	bound = lease + sweepEvery + 2*tick
	kind  = "work"
)

// Process holds the clocks of a process.
type Process struct {
	Now     func() time.Time     // its wall clock
	Elapsed func() time.Duration // its monotonic clock
	Alone   bool                 // it does not shift leases: the control
}

// Database is the database that all processes use.
type Database struct {
	Open func(Process) driver.Store // opens it once more
	Set  func(time.Time)            // sets the clock of its server; nil where there is none
}

// world is a database with its processes.
type world struct {
	t      *testing.T
	db     Database
	rnd    *rand.Rand
	alone  bool
	epoch  time.Time
	true   time.Duration // real time that has passed
	offset time.Duration // of the clock that is set
	procs  []*process
	opened int
	killed map[sojourn.ID]time.Duration // jobs of killed processes → when

	lost, overlaps, late, reclaimed, steps int
}

type process struct {
	store           driver.Store
	name            string
	claims          int64
	held            map[sojourn.ID]sojourn.Lease
	began           map[sojourn.ID]time.Duration
	extended, swept time.Duration
	paused          time.Duration // it does nothing until then
}

func newWorld(t *testing.T, db Database, seed uint64, alone bool) *world {
	w := &world{t: t, db: db, rnd: rand.New(rand.NewPCG(seed, 1)), alone: alone, epoch: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		killed: map[sojourn.ID]time.Duration{}}
	w.set(0)
	return w
}

func (w *world) clock() time.Time { return w.epoch.Add(w.true + w.offset) }

// set sets the clock forward or back.
func (w *world) set(by time.Duration) {
	w.offset += by
	if by != 0 {
		w.steps++
	}
	w.show()
}

func (w *world) show() {
	if w.db.Set != nil {
		w.db.Set(w.clock())
	}
}

func (w *world) open() *process {
	w.opened++
	began := w.true - time.Duration(w.opened)*time.Hour // monotonic clocks of processes are independent
	s := w.db.Open(Process{Now: w.clock, Elapsed: func() time.Duration { return w.true - began }, Alone: w.alone})
	p := &process{store: s, name: fmt.Sprint("p", w.opened), held: map[sojourn.ID]sojourn.Lease{}, began: map[sojourn.ID]time.Duration{},
		extended: w.true, swept: w.true - sweepEvery}
	w.procs = append(w.procs, p)
	return p
}

// kill ends a process without a report to the store.
func (w *world) kill(p *process) {
	w.procs = slices.DeleteFunc(w.procs, func(o *process) bool { return o == p })
	for id := range p.held {
		w.killed[id] = w.true
	}
	if c, ok := p.store.(interface{ Close() error }); ok {
		c.Close() // releases connections; it writes nothing
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("after %v, the clock %v ahead: %v", w.true, w.offset, err)
	}
}

func (w *world) enqueue(n int, options ...sojourn.Option) (ids []sojourn.ID) {
	w.t.Helper()
	s := w.procs[0].store
	first, err := s.IDs(context.Background(), n)
	w.must(err)
	policy := sojourn.Policy{MaxCrashes: sojourn.Unlimited, Backoff: sojourn.Backoff{First: time.Second, Factor: 1, Limit: time.Second}}
	jobs := make([]sojourn.Job, n)
	for i := range jobs {
		jobs[i] = *sojourn.NewJob(kind, nil, append([]sojourn.Option{sojourn.WithPolicy(policy)}, options...)...)
		jobs[i].ID = first + sojourn.ID(i)
		ids = append(ids, jobs[i].ID)
	}
	_, err = s.Enqueue(context.Background(), jobs, false)
	w.must(err)
	return ids
}

// claim takes jobs until the process has n.
func (w *world) claim(p *process, n int) {
	w.t.Helper()
	if n -= len(p.held); n <= 0 {
		return
	}
	p.claims++
	jobs, err := p.store.Claim(context.Background(), driver.ClaimRequest{Worker: p.name + ".w", Number: p.claims, Queues: []string{"default"}, Kinds: []string{kind},
		Max: n, Capacity: int64(n), Lease: lease})
	w.must(err)
	for _, j := range jobs {
		for _, o := range w.procs {
			if _, held := o.held[j.Job.ID]; held {
				w.overlaps++
			}
		}
		if _, ok := w.killed[j.Job.ID]; ok {
			delete(w.killed, j.Job.ID)
			w.reclaimed++
		}
		p.held[j.Job.ID], p.began[j.Job.ID] = j.Lease, w.true
	}
}

// live runs the calls of a worker that are due: extend, sweep, finish, claim.
func (w *world) live(p *process, n int) {
	w.t.Helper()
	if w.true < p.paused {
		return
	}
	ctx := context.Background()
	if w.true-p.swept >= sweepEvery {
		p.swept = w.true
		_, err := p.store.Sweep(ctx, 100)
		w.must(err)
	}
	if w.true-p.extended >= extendEvery && len(p.held) > 0 {
		p.extended = w.true
		leases := slices.Collect(maps.Values(p.held))
		answers, err := p.store.Extend(ctx, leases)
		w.must(err)
		for i, e := range answers {
			if e.Err != nil {
				w.lost++
				delete(p.held, leases[i].ID)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.held)) {
		if w.true-p.began[id] < 40*time.Second {
			continue
		}
		f, err := p.store.Finish(ctx, []sojourn.Outcome{{Lease: p.held[id], Type: sojourn.OutcomeCompleted}})
		w.must(err)
		if f[0].Status != driver.FinishApplied {
			w.lost++
		}
		delete(p.held, id)
	}
	w.claim(p, n)
}

// run lets all processes live for a while, each with up to n jobs.
func (w *world) run(d time.Duration, n int) {
	w.t.Helper()
	for end := w.true + d; w.true < end; {
		w.true += tick
		w.show()
		for _, p := range w.procs {
			w.live(p, n)
		}
		w.claimable()
	}
}

// claimable counts the jobs of killed processes that cannot be claimed by the time when they must
// be. Other jobs may be claimed before them.
func (w *world) claimable() {
	w.t.Helper()
	for id, at := range w.killed {
		if w.true-at < lease+bound {
			continue
		}
		j, err := sojourn.NewClient(w.procs[0].store).Get(context.Background(), id)
		w.must(err)
		if j.State == sojourn.Running || j.State == sojourn.Scheduled && j.RunAt.After(w.clock()) {
			w.late++
			w.t.Logf("job %d of a process that was killed at %v is %v at %v", id, at, j.State, w.true)
		} else {
			w.reclaimed++
		}
		delete(w.killed, id)
	}
}

// judge counts jobs that were not claimed in time, and runs the doctor.
func (w *world) judge() {
	w.t.Helper()
	found, err := w.procs[0].store.(driver.Checker).Check(context.Background())
	w.must(err)
	if len(found) > 0 {
		w.t.Errorf("doctor: %v", found)
	}
	w.t.Logf("%v, %d steps, %d processes: %d leases of living workers lost, %d overlaps, %d jobs of killed processes claimable again, %d too late",
		w.true, w.steps, w.opened, w.lost, w.overlaps, w.reclaimed, w.late)
}

func (w *world) want() {
	w.t.Helper()
	w.judge()
	if w.lost+w.overlaps+w.late > 0 {
		w.t.Errorf("%d leases of living workers lost, %d overlaps, %d jobs too late; want none", w.lost, w.overlaps, w.late)
	}
}

// Run tests a database, which db creates for each test. seeds are the random schedules.
func Run(t *testing.T, seeds []uint64, db func(t *testing.T) Database) {
	for _, c := range []struct {
		name string
		run  func(w *world)
	}{
		{"forward and back", (*world).forwardAndBack},
		{"back, as a failover to a server that is behind", (*world).failover},
		{"a step while nobody looks", (*world).idle},
		{"all processes killed, then a step", (*world).killedBefore},
		{"run_at follows the clock", (*world).runAt},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, db(t), 1, false)
			c.run(w)
			w.want()
		})
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, db(t), seed, false)
			w.random(150)
			w.want()
			if w.reclaimed == 0 || w.steps == 0 {
				t.Errorf("the schedule shows nothing: %d steps, %d claimed again", w.steps, w.reclaimed)
			}
		})
	}
	t.Run("steps between transactions that run at the same time", func(t *testing.T) { concurrent(t, db(t)) })
	t.Run("control", func(t *testing.T) {
		w := newWorld(t, db(t), 1, true)
		w.forwardAndBack()
		w.judge()
		if w.lost == 0 || w.overlaps == 0 || w.late == 0 {
			t.Error("without the shared clock nothing is lost, so this test shows nothing")
		}
	})
}

// forwardAndBack: an hour forward, and back after a minute, while processes live, die and open.
func (w *world) forwardAndBack() {
	a, b := w.open(), w.open()
	w.enqueue(100)
	w.run(45*time.Second, 5)
	w.kill(b)
	w.set(time.Hour)
	c := w.open() // before any other process has seen the step
	w.show()
	for _, p := range []*process{c, a, c} {
		_, err := p.store.Sweep(context.Background(), 100)
		w.must(err)
	}
	w.run(20*time.Second, 5)
	w.open()
	w.run(40*time.Second, 5)
	w.kill(c)
	w.set(-time.Hour)
	d := w.open()
	_, err := d.store.Sweep(context.Background(), 100)
	w.must(err)
	w.run(20*time.Second, 5)
	w.open()
	w.run(80*time.Second, 5)
}

func (w *world) failover() {
	w.open()
	b := w.open()
	w.enqueue(60)
	w.run(45*time.Second, 5)
	w.kill(b)
	w.set(-time.Hour)
	w.open()
	w.run(90*time.Second, 5)
}

// idle: the clock is set forward and back, and forward again, while no process does anything.
func (w *world) idle() {
	a := w.open()
	w.enqueue(20)
	w.run(20*time.Second, 5)
	w.set(time.Hour)
	w.true += 2 * time.Second
	w.set(-2 * time.Hour)
	w.true += 2 * time.Second
	w.set(90 * time.Minute)
	b := w.open()
	w.run(90*time.Second, 5)
	for _, p := range w.procs { // finishes its jobs, and then is silent for hours
		w.claim(p, 0)
	}
	w.run(60*time.Second, 0)
	w.true += 3 * time.Hour
	w.set(time.Hour)
	w.enqueue(10)
	w.claim(a, 3)
	w.claim(b, 3)
	w.run(60*time.Second, 5)
}

func (w *world) killedBefore() {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 10 * time.Second, -10 * time.Second, -3 * time.Hour} {
		a := w.open()
		w.enqueue(20)
		w.run(25*time.Second, 4)
		w.kill(a)
		w.set(step)
		w.open()
		w.run(70*time.Second, 4)
		w.kill(w.procs[0])
	}
	w.open()
	w.run(70*time.Second, 4)
}

// runAt: a job that is due at a time of the clock starts then, also after steps.
func (w *world) runAt() {
	w.open()
	later := w.enqueue(1, sojourn.RunAt(w.clock().Add(30*time.Minute)))
	w.run(10*time.Second, 3)
	w.set(time.Hour)
	w.run(3*time.Second, 3)
	if _, started := w.procs[0].began[later[0]]; !started {
		w.t.Error("a job does not start when the clock was set beyond its time")
	}
	w.set(-time.Hour)
	later = w.enqueue(1, sojourn.RunAt(w.clock().Add(30*time.Second)))
	w.run(20*time.Second, 3)
	if _, started := w.procs[0].began[later[0]]; started {
		w.t.Error("a job starts early after the clock was set back")
	}
	w.run(15*time.Second, 3)
	if _, started := w.procs[0].began[later[0]]; !started {
		w.t.Error("a job starts late after the clock was set back")
	}
}

// random is a schedule of steps, openings, kills and pauses.
func (w *world) random(rounds int) {
	w.open()
	w.open()
	for range rounds {
		if w.rnd.IntN(3) == 0 {
			w.enqueue(1 + w.rnd.IntN(4))
		}
		switch n := w.rnd.IntN(40); {
		case n < 3:
			by := time.Duration(3+w.rnd.IntN(7200)) * time.Second
			if w.rnd.IntN(2) == 0 {
				by = -by
			}
			w.set(by)
		case n < 5 && len(w.procs) < 4:
			w.open()
		case n < 7 && len(w.procs) > 1:
			w.kill(w.procs[w.rnd.IntN(len(w.procs))])
		case n < 9: // shorter than the rest of a lease that was extended in time
			p := w.procs[w.rnd.IntN(len(w.procs))]
			if w.true >= p.paused {
				p.paused = w.true + time.Duration(1+w.rnd.IntN(15))*time.Second
			}
		}
		w.run(time.Duration(1+w.rnd.IntN(3))*tick, 4)
	}
	w.run(lease+bound, 6)
}

// concurrent: two processes store, claim, extend and finish jobs from several goroutines while the
// clock is set. Each step meets transactions that have read the clock before it.
func concurrent(t *testing.T, db Database) {
	var elapsed, offset atomic.Int64 // microseconds
	epoch := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	now := func() time.Time { return epoch.Add(time.Duration(elapsed.Load()+offset.Load()) * time.Microsecond) }
	show := func() {
		if db.Set != nil {
			db.Set(now())
		}
	}
	show()
	p := Process{Now: now, Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) * time.Microsecond }}
	stores := []driver.Store{db.Open(p), db.Open(p)}
	var stop atomic.Bool
	var lives atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, worker := stores[i%2], fmt.Sprint("w", i)
			for n := int64(1); !stop.Load(); n++ {
				if err := life(s, worker, n, &lives); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 12 {
		by := time.Hour.Microseconds()
		if i%2 == 1 {
			by = -by
		}
		offset.Add(by)
		show()
		for until := lives.Load() + 30; lives.Load() < until && !t.Failed(); {
			elapsed.Add((50 * time.Millisecond).Microseconds())
			show()
			time.Sleep(time.Millisecond) // lets the others run
		}
	}
	stop.Store(true)
	wg.Wait()
	if found, err := stores[0].(driver.Checker).Check(context.Background()); err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
}

// life stores a job, and claims one, extends its lease and finishes it.
func life(s driver.Store, worker string, n int64, lives *atomic.Int64) error {
	ctx := context.Background()
	id, err := s.IDs(ctx, 1)
	if err != nil {
		return err
	}
	j := sojourn.NewJob(kind, nil)
	j.ID = id
	// The clock may have been set beyond the validity of the id.
	if _, err := s.Enqueue(ctx, []sojourn.Job{*j}, false); err != nil && sojourn.ErrorCode(err) != sojourn.CodeIDExpired {
		return err
	}
	jobs, err := s.Claim(ctx, driver.ClaimRequest{Worker: worker, Number: n, Queues: []string{"default"}, Kinds: []string{kind}, Max: 1, Capacity: 1, Lease: time.Hour / 2})
	if err != nil || len(jobs) == 0 {
		return err
	}
	extended, err := s.Extend(ctx, []sojourn.Lease{jobs[0].Lease})
	if err != nil || extended[0].Err != nil {
		return fmt.Errorf("extend: %v %w", extended, err)
	}
	f, err := s.Finish(ctx, []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}})
	if err != nil || f[0].Status != driver.FinishApplied {
		return fmt.Errorf("finish: %v %w", f, err)
	}
	lives.Add(1)
	return nil
}
