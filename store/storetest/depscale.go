package storetest

import (
	"os"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// ScaleDependencies measures what one member of a chain, of a job with many dependents, and of a
// job with many dependencies costs, at 100 members and at SOJOURN_DEPS of them, and fails if the
// large one costs more than 1.5 times as much a member. It is skipped without SOJOURN_DEPS.
func ScaleDependencies(t *testing.T, open func(t *testing.T) driver.Store) {
	if os.Getenv("SOJOURN_DEPS") == "" {
		t.Skip("SOJOURN_DEPS is not set: it takes minutes")
	}
	n := number(t, "SOJOURN_DEPS", 100_000)
	for _, c := range []struct {
		name string
		n    int
		run  func(d *dependents, n int)
	}{
		{"a chain", n / 10, (*dependents).chain},
		{"one job before all", n, (*dependents).fanOut},
		{"one job after all", n, (*dependents).fanIn},
	} {
		t.Run(c.name, func(t *testing.T) {
			cost := func(n, times int) time.Duration {
				d := &dependents{T: t, s: open(t)}
				defer d.s.Close()
				began := time.Now()
				for range times {
					c.run(d, n)
				}
				took := time.Since(began) / time.Duration(n*times)
				t.Logf("%d members: %v a member", n, took.Round(time.Microsecond))
				return took
			}
			small, large := cost(100, 20), cost(c.n, 1)
			if ratio := float64(large) / float64(small); ratio > 1.5 {
				t.Errorf("a member of %d costs %.2f times as much as one of 100, at most 1.5 is allowed", c.n, ratio)
			}
		})
	}
}

// dependents stores jobs that depend on each other, and works them off.
type dependents struct {
	*testing.T
	s      driver.Store
	claims int64
}

// enqueue stores jobs, of which depends makes each depend on others.
func (d *dependents) enqueue(n int, depends func(i int, first sojourn.ID) []sojourn.ID) (first sojourn.ID) {
	for from := 0; from < n; from += sojourn.MaxBatch {
		size := min(n-from, sojourn.MaxBatch)
		id, err := d.s.IDs(d.Context(), size)
		if err != nil {
			d.Fatal(err)
		}
		if from == 0 {
			first = id
		}
		jobs := make([]sojourn.Job, size)
		for i := range jobs {
			jobs[i] = *sojourn.NewJob("member", nil)
			if jobs[i].ID = id + sojourn.ID(i); depends != nil {
				jobs[i].Depends = []sojourn.Dependency{{Jobs: depends(from+i, jobs[i].ID)}}
			}
		}
		if _, err := d.s.Enqueue(d.Context(), jobs, false); err != nil {
			d.Fatal(err)
		}
	}
	return first
}

// work completes n jobs.
func (d *dependents) work(n int) {
	for n > 0 {
		d.claims++
		cs, err := d.s.Claim(d.Context(), driver.ClaimRequest{Worker: "w", Number: d.claims, Queues: []string{"default"}, Kinds: []string{"member"},
			Max: sojourn.MaxBatch, Capacity: 1 << 40, Lease: time.Minute, Wait: 10 * time.Second})
		if err != nil || len(cs) == 0 {
			d.Fatalf("%d jobs are left, and none is ready: %v", n, err)
		}
		outcomes := make([]sojourn.Outcome, len(cs))
		for i, c := range cs {
			outcomes[i] = sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted}
		}
		if _, err := d.s.Finish(d.Context(), outcomes); err != nil {
			d.Fatal(err)
		}
		n -= len(cs)
	}
}

// chain is n jobs, each after the one before it.
func (d *dependents) chain(n int) {
	last := d.enqueue(1, nil)
	d.enqueue(n-1, func(_ int, id sojourn.ID) []sojourn.ID {
		before := last
		last = id
		return []sojourn.ID{before}
	})
	d.work(n)
}

// fanOut is n jobs after one.
func (d *dependents) fanOut(n int) {
	one := d.enqueue(1, nil)
	d.enqueue(n, func(int, sojourn.ID) []sojourn.ID { return []sojourn.ID{one} })
	d.work(n + 1)
}

// fanIn is one job after n. A call adds at most MaxDepends dependencies.
func (d *dependents) fanIn(n int) {
	gate := d.enqueue(1, nil) // keeps the last one blocked until all are added
	var all []sojourn.ID
	for from := 0; from < n; from += sojourn.MaxDepends {
		size := min(n-from, sojourn.MaxDepends)
		first := d.enqueue(size, func(int, sojourn.ID) []sojourn.ID { return []sojourn.ID{gate} })
		for i := range sojourn.ID(size) {
			all = append(all, first+i)
		}
	}
	last := d.enqueue(1, func(int, sojourn.ID) []sojourn.ID { return []sojourn.ID{gate} })
	for len(all) > 0 {
		size := min(len(all), sojourn.MaxDepends)
		page := all[:size]
		all = all[size:]
		ed, err := d.s.Edit(d.Context(), sojourn.Filter{IDs: []sojourn.ID{last}}, sojourn.Edit{Action: sojourn.EditChange, By: "ops",
			DependOn: &[]sojourn.Dependency{{Jobs: page}}})
		if err != nil || ed.Items[0].Err != nil {
			d.Fatal(err, ed.Items)
		}
	}
	d.work(n + 2)
}
