package worker

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Defaults of Options.
const (
	DefaultConcurrency = 10
	DefaultGrace       = 30 * time.Second
	DefaultSweepEvery  = 5 * time.Second
	DefaultReserve     = 5 * time.Second
)

// Options of a Worker. The zero value has good defaults.
type Options struct {
	// Concurrency is the summed weight of the jobs whose handlers run at the same time: 1 to
	// 1,000,000, default 10. A job of weight 0 uses none of it, but is only taken while there is
	// capacity for other jobs; a worker has at most 1,000 taken jobs more than Concurrency. A job
	// heavier than Concurrency runs alone: it is taken when nothing else runs.
	Concurrency int
	// MinConcurrency makes the worker claim jobs in fewer, larger batches: it claims only while
	// less than this weight runs, and then up to Concurrency. 0 means Concurrency: it claims
	// whenever capacity is free.
	MinConcurrency int
	// ReserveAfter is how long a ready job may be passed over because it weighs more than the free
	// capacity. After it the worker takes no other jobs until this one fits, or until nothing runs
	// if it is heavier than Concurrency. Default 5 s, -1 for never.
	ReserveAfter time.Duration
	// Queues are the queues to take jobs from, each once: names, patterns in which * stands for any
	// text ("payments-*"), and exclusions ("!payments-test"), which win. The queues of a pattern
	// take turns, in a random order; one that is made later is taken up within a second. A queue
	// that several entries select counts for its name, else for the longest pattern. Up to 256
	// entries. If more than 256 queues match, a claim looks into those with ready jobs first.
	// Default: those of Shares, else those of the kinds that it handles (Kind.Queue), which then
	// take turns as with RoundRobin. [Worker.SetQueues] changes them.
	Queues []string
	// Order says which of Queues comes first. Default: InOrder.
	Order Order
	// Shares are the proportions in which the queues get claims while all have jobs, 1 to 1,000 for
	// each of Queues, a pattern included: each queue that it selects has this share. They replace
	// Order.
	Shares map[string]int
	// Lease is how long a dead worker keeps its jobs: 1 s to 1 h, default 30 s. A live worker
	// extends its leases every third of it.
	Lease time.Duration
	// Grace is how long handlers may go on when Run's context has ended: default 30 s, -1 for not
	// at all.
	Grace time.Duration
	// SweepEvery is the interval at which the worker sweeps the whole store for overdue items:
	// default 5 s, at least 100 ms, -1 for never. Each worker shortens it by up to a fifth as
	// jitter.
	SweepEvery time.Duration
	// Name is a label, shown in logs and in the list of workers. Default: host-pid.
	Name string
	// Logger gets the errors between worker and store, and each failed attempt once: as a warning,
	// or as an error if the handler panicked or the job has failed. Default: slog.Default().
	Logger *slog.Logger
	// Observer gets the events of the worker. Default: none.
	Observer Observer
	// RespondURL is the public URL of the receiver of responses (source/webhook), such as
	// https://shop.example/sojourn; Job.RespondURL builds on it. Default: none.
	RespondURL string
	// Middleware wraps all handlers, the first one outermost.
	Middleware []Middleware
}

// Order is the order in which a worker claims from its queues.
type Order uint8

// The orders of queues.
const (
	InOrder    Order = iota // a queue gets a turn only while those before it have nothing ready; a pattern has the place in which it is listed
	RoundRobin              // the queues that have something take turns, job by job
	Shuffled                // each claim looks into the queues in a new random order
)

func (o Options) withDefaults() (Options, error) {
	err := o.validate()
	o.Queues = slices.Clone(o.Queues)
	if len(o.Queues) == 0 {
		o.Queues = slices.Sorted(maps.Keys(o.Shares))
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.MinConcurrency == 0 {
		o.MinConcurrency = o.Concurrency
	}
	if o.Lease == 0 {
		o.Lease = sojourn.DefaultLease
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = DefaultSweepEvery
	}
	if o.ReserveAfter == 0 {
		o.ReserveAfter = DefaultReserve
	}
	if o.Name == "" {
		host, _ := os.Hostname() // without one the label is less telling, no more
		o.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	o.RespondURL = strings.TrimRight(o.RespondURL, "/")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, err
}

func (o Options) validate() error {
	if o.Concurrency < 0 || o.Concurrency > sojourn.MaxWeight {
		return sojourn.Invalid("concurrency", "%d is out of range: 1 to %d, or 0 for %d", o.Concurrency, sojourn.MaxWeight, DefaultConcurrency)
	}
	limit := o.Concurrency
	if limit == 0 {
		limit = DefaultConcurrency
	}
	if o.MinConcurrency < 0 || o.MinConcurrency > limit {
		return sojourn.Invalid("min_concurrency", "%d is out of range: 1 to the concurrency, %d, or 0 for the same", o.MinConcurrency, limit)
	}
	if o.Lease != 0 && (o.Lease < time.Second || o.Lease > time.Hour) {
		return sojourn.Invalid("lease", "%v is out of range: 1s to 1h, or 0 for %v", o.Lease, sojourn.DefaultLease)
	}
	if o.Grace < -1 || o.Grace > sojourn.MaxHorizon {
		return sojourn.Invalid("grace", "%v is out of range: up to 10 years, -1 for none, or 0 for %v", o.Grace, DefaultGrace)
	}
	if o.SweepEvery != -1 && o.SweepEvery != 0 && (o.SweepEvery < 100*time.Millisecond || o.SweepEvery > sojourn.MaxHorizon) {
		return sojourn.Invalid("sweep_every", "%v is out of range: at least 100ms, -1 for never, or 0 for %v", o.SweepEvery, DefaultSweepEvery)
	}
	if o.ReserveAfter < -1 || o.ReserveAfter > sojourn.MaxHorizon {
		return sojourn.Invalid("reserve_after", "%v is out of range: up to 10 years, -1 for never, or 0 for %v", o.ReserveAfter, DefaultReserve)
	}
	if i := slices.IndexFunc(o.Middleware, func(m Middleware) bool { return m == nil }); i >= 0 {
		return sojourn.Invalid("middleware", "number %d is nil", i)
	}
	if _, rest, _ := strings.Cut(o.RespondURL, "://"); o.RespondURL != "" && (rest == "" || strings.ContainsAny(o.RespondURL, "?# \t\n") ||
		!strings.HasPrefix(o.RespondURL, "https://") && !strings.HasPrefix(o.RespondURL, "http://")) {
		return sojourn.Invalid("respond_url", "%.64q is not the URL of a receiver, such as https://shop.example/sojourn", o.RespondURL)
	}
	return o.validateQueues()
}

func (o Options) validateQueues() error {
	if err := validQueues(o.Queues); err != nil {
		return err
	}
	if o.Order > Shuffled {
		return sojourn.Invalid("order", "%d is not an order: use InOrder, RoundRobin or Shuffled", o.Order)
	}
	if o.Shares == nil {
		return nil
	}
	if o.Order != InOrder {
		return sojourn.Invalid("shares", "replace the order; set either shares or order")
	}
	queues := o.Queues
	if len(queues) == 0 {
		queues = slices.Collect(maps.Keys(o.Shares))
	}
	if err := driver.ValidQueues("shares", slices.Collect(maps.Keys(o.Shares))); err != nil {
		return err
	}
	for q, n := range o.Shares {
		if !slices.Contains(queues, q) {
			return sojourn.Invalid("shares", "%.64q is not among the queues", q)
		}
		if n < 1 || n > sojourn.MaxBatch {
			return sojourn.Invalid("shares", "%d of %q is out of range: 1 to %d", n, q, sojourn.MaxBatch)
		}
	}
	for _, q := range queues {
		if o.Shares[q] == 0 && !strings.HasPrefix(q, "!") {
			return sojourn.Invalid("shares", "%q has no share, so it would never be claimed from; give it a share", q)
		}
	}
	return nil
}
