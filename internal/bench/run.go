package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Bench measures scenarios on our own store.
type Bench struct {
	Config
	// Open returns the store of one case, empty or reused, and a function that releases it.
	Open func(ctx context.Context) (c *sojourn.Client, done func() error, err error)
	// Elsewhere starts workers in other processes; nil leaves out the cases that need one.
	Elsewhere Elsewhere
	// Progress is called with each result at once.
	Progress func(Result)

	report Report
	cases  int
	began  time.Time
}

// Report holds the results of Run.
type Report struct {
	Store      string    `json:"store"`
	Version    string    `json:"version"` // of the database
	Durability string    `json:"durability"`
	Go         string    `json:"go"`
	Platform   string    `json:"platform"`
	CPUs       int       `json:"cpus"`
	At         time.Time `json:"at"`
	Results    []Result  `json:"results"`
}

// Run measures the scenarios with these names, or all, in the order of Scenarios. The error for a
// name that there is not has CodeInvalid.
func (b *Bench) Run(ctx context.Context, names []string) (Report, error) {
	chosen, err := choose(names)
	if err == nil {
		err = b.Validate()
	}
	if err != nil {
		return Report{}, err
	}
	b.began = time.Now()
	b.report = Report{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), At: b.began.UTC().Truncate(time.Second)}
	for _, s := range chosen {
		if err := s.Run(ctx, b); err != nil {
			return b.report, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return b.report, nil
}

func choose(names []string) ([]Scenario, error) {
	if len(names) == 0 {
		return Scenarios, nil
	}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	var chosen []Scenario
	var known []string
	for _, s := range Scenarios {
		known = append(known, s.Name)
		if wanted[s.Name] {
			chosen = append(chosen, s)
			delete(wanted, s.Name)
		}
	}
	for _, n := range names {
		if wanted[n] {
			return nil, sojourn.Invalid("scenario", "%.64q is none; use %s", n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func (b *Bench) load(producers, batch int) Load {
	return Load{Jobs: b.Jobs, WarmUp: b.Jobs / 10, Producers: producers, Batch: batch, Within: b.Within}
}

// measure runs one case on its own store and queue, and keeps its result. run may add to the
// result.
func (b *Bench) measure(ctx context.Context, r Result, run func(ctx context.Context, s *Sojourn, r *Result) (Measured, error)) error {
	r, err := b.once(ctx, r, run)
	if err == nil {
		b.keep(r)
	}
	return err
}

// once is measure, for those that look at several results before they keep one.
func (b *Bench) once(ctx context.Context, r Result, run func(ctx context.Context, s *Sojourn, r *Result) (Measured, error)) (Result, error) {
	s, done, err := b.open(ctx, &r)
	if err != nil {
		return r, err
	}
	m, err := run(ctx, s, &r)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		r.fill(ctx, s.Client, m)
	}
	return r, errors.Join(err, done())
}

// open opens a store with a new queue. Jobs that an earlier case or run left in this store are in
// other queues.
func (b *Bench) open(ctx context.Context, r *Result) (s *Sojourn, done func() error, err error) {
	c, done, err := b.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	b.report.Store, b.report.Version, b.report.Durability = status.Store, status.Version, status.Durability
	b.cases++
	r.before = status
	return &Sojourn{Client: c, Queue: fmt.Sprintf("bench-%d-%d", b.began.UnixMilli(), b.cases)}, done, nil
}

// keep adds a result to the report.
func (b *Bench) keep(r Result) {
	b.report.Results = append(b.report.Results, r)
	if b.Progress != nil {
		b.Progress(r)
	}
}
