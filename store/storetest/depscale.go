package storetest

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/workflow"
)

// ScaleDependencies measures what one member of a chain, of a job with many dependents, of a job
// with many dependencies, and of workflows costs, at 100 members and at SOJOURN_DEPS of them, and
// fails if the large one costs more than 1.5 times as much a member. Both have the same jobs in a
// call, so that large calls do not hide a growth. It is skipped without SOJOURN_DEPS.
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
		{"a workflow that is a chain", n / 10, (*dependents).workflowChain},
		{"a workflow with one member before all", n, (*dependents).workflowFan},
	} {
		t.Run(c.name, func(t *testing.T) {
			var small, large []float64 // in turn, so that other load on the machine meets both
			for range number(t, "SOJOURN_DEPS_RUNS", 3) {
				small = append(small, scaleCost(t, open, c.run, 100, max(c.n/500, 1)))
				large = append(large, scaleCost(t, open, c.run, c.n, 1))
			}
			slices.Sort(small)
			slices.Sort(large)
			ratio := large[len(large)/2] / small[len(small)/2]
			t.Logf("%d members: %.0f µs a member, at 100: %.0f µs; ratio %.2f", c.n, large[len(large)/2], small[len(small)/2], ratio)
			if ratio > 1.5 {
				t.Errorf("a member of %d costs %.2f times as much as one of 100, at most 1.5 is allowed", c.n, ratio)
			}
		})
	}
}

// scaleCost runs a shape on a new store some times, and returns the microseconds a member.
func scaleCost(t *testing.T, open func(t *testing.T) driver.Store, run func(d *dependents, n int), n, times int) float64 {
	t.Helper()
	d := &dependents{T: t, s: open(t)}
	defer d.s.Close()
	began := time.Now()
	for range times {
		run(d, n)
	}
	took := float64(time.Since(began).Microseconds()) / float64(n*times)
	t.Logf("%d members, %d times: %.0f µs a member", n, times, took)
	problems, err := d.s.(driver.Checker).Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("Check: %v %v", problems, err)
	}
	return took
}

// scaleCall is how many jobs a call enqueues, claims and finishes at most.
const scaleCall = 100

// dependents stores jobs that depend on each other, and works them off.
type dependents struct {
	*testing.T
	s         driver.Store
	claims    int64
	workflows int
}

// enqueue stores jobs, of which depends makes each depend on others.
func (d *dependents) enqueue(n int, depends func(i int, first sojourn.ID) []sojourn.ID) (first sojourn.ID) {
	for from := 0; from < n; from += scaleCall {
		size := min(n-from, scaleCall)
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
			Max: scaleCall, Capacity: 1 << 40, Lease: time.Minute, Wait: 10 * time.Second})
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

// workflow starts a workflow with n members, works it off with its callback, and wants it to be
// completed.
func (d *dependents) workflow(n int, after func(i int) int) {
	d.workflows++
	w := workflow.New(fmt.Sprint("w", d.workflows)).OnEnd(sojourn.NewJob("member", nil))
	for i := range n {
		m := workflow.Member{Name: fmt.Sprint(i), Job: sojourn.NewJob("member", nil)}
		if i > 0 {
			m.After = []string{fmt.Sprint(after(i))}
		}
		w.Members = append(w.Members, m)
	}
	calls := workflow.Of(sojourn.NewClient(d.s))
	w.Open = true
	members := w.Members
	w.Members = nil
	if _, err := calls.Start(d.Context(), w); err != nil {
		d.Fatal(err)
	}
	for part := range slices.Chunk(members, scaleCall) {
		if _, err := calls.Append(d.Context(), w.Name, part...); err != nil {
			d.Fatal(err)
		}
	}
	if _, err := calls.Close(d.Context(), w.Name); err != nil {
		d.Fatal(err)
	}
	d.work(n + 1) // with the callback
	s, err := calls.Wait(d.Context(), w.Name)
	if err != nil || s.State != workflow.Completed || s.EndJob == 0 {
		d.Fatal(s, err)
	}
}

// workflowChain is a workflow whose members run one after the other.
func (d *dependents) workflowChain(n int) { d.workflow(n, func(i int) int { return i - 1 }) }

// workflowFan is a workflow whose members run after the first.
func (d *dependents) workflowFan(n int) { d.workflow(n, func(int) int { return 0 }) }

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

// fanIn is one job after n.
func (d *dependents) fanIn(n int) {
	gate := d.enqueue(1, nil) // keeps the last one blocked until all are added
	var all []sojourn.ID
	for from := 0; from < n; from += scaleCall {
		size := min(n-from, scaleCall)
		first := d.enqueue(size, func(int, sojourn.ID) []sojourn.ID { return []sojourn.ID{gate} })
		for i := range sojourn.ID(size) {
			all = append(all, first+i)
		}
	}
	last := d.enqueue(1, func(int, sojourn.ID) []sojourn.ID { return []sojourn.ID{gate} })
	for len(all) > 0 {
		size := min(len(all), scaleCall)
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
