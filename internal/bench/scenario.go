package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Defaults of Config.
const (
	DefaultJobs    = 10_000           // of one measurement; a tenth as many before them warm up
	DefaultBatch   = 1000             // jobs of a call where many are enqueued at once
	DefaultBacklog = 10_000           // ready jobs before which claims are measured
	DefaultRuns    = 3                // of each case that has a ratio
	DefaultWithin  = 30 * time.Second // after which a measurement is cut
	// DefaultProducers are the numbers of goroutines that enqueue, as a flag has them.
	DefaultProducers = "1,8,64,512"
	// DefaultAwaiting are the numbers of jobs that await while some are answered, as a flag has
	// them.
	DefaultAwaiting = "100,10000"
)

// Limits of Config.
const (
	MaxJobs      = 10_000_000 // also of a backlog
	MaxProducers = 10_000
	MaxRuns      = 100
)

// Config sets the size of the measurements.
type Config struct {
	Jobs      int           // 1 to MaxJobs
	Producers []int         // each 1 to MaxProducers
	Batch     int           // 1 to sojourn.MaxBatch
	Backlogs  []int         // each 1 to MaxJobs
	Awaiting  []int         // each 1 to MaxJobs; none = not measured
	Runs      int           // 1 to MaxRuns; only cases with a ratio run more than once
	Within    time.Duration // above 0
}

// Validate checks the ranges. The error is an *sojourn.Error with CodeInvalid.
func (c Config) Validate() error {
	in := func(name string, n, limit int) error {
		if n < 1 || n > limit {
			return sojourn.Invalid(name, "%d is out of range: 1 to %d", n, limit)
		}
		return nil
	}
	checks := []error{in("jobs", c.Jobs, MaxJobs), in("batch", c.Batch, sojourn.MaxBatch), in("runs", c.Runs, MaxRuns)}
	for _, n := range c.Producers {
		checks = append(checks, in("producers", n, MaxProducers))
	}
	for _, n := range c.Backlogs {
		checks = append(checks, in("backlog", n, MaxJobs))
	}
	for _, n := range c.Awaiting {
		checks = append(checks, in("awaiting", n, MaxJobs))
	}
	if len(c.Producers) == 0 || len(c.Backlogs) == 0 || c.Within <= 0 {
		checks = append(checks, sojourn.Invalid("within", "name at least one number of producers and of a backlog, and a time above 0"))
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// Scenario is one thing that "sojourn bench" measures. A further one is a further entry of
// Scenarios: its Run calls Bench.measure for each of its cases.
type Scenario struct {
	Name  string
	Short string
	Run   func(ctx context.Context, b *Bench) error
}

// Scenarios are all of them, in the order in which they run.
var Scenarios = []Scenario{
	{"enqueue", "single enqueues, each durable, while nobody works", enqueues},
	{"bulk", "enqueues of many jobs a call", bulk},
	{"life", "whole lives: enqueue, claim, handler, finish; with package worker, and bare claims and finishes", lives},
	{"respond", "jobs that await an answer: enqueue, claim, await, respond, claim, finish; and answers to some of many", responds},
	{"answer", "whole lives without an answer, and with one that comes at once, promptly and later", answerLives},
	{"shape", "whole lives with a worker in another process, keys and large args, one producer, a backlog; and how fast an idle worker starts a job", shapes},
	{"claim", "the cost of a claim in front of a backlog", claims},
	{"flow", "what a limit, shares, a rule and a full group cost, beside the same without", flows},
}

// bulkMore is how many times Config.Jobs a bulk measurement enqueues: a call takes a hundred times
// as long, and some are needed for a quantile.
const bulkMore = 10

// usual is the number of producers where only one is measured.
const usual = 64

func enqueues(ctx context.Context, b *Bench) error {
	for _, n := range b.Producers {
		err := b.measure(ctx, Result{Scenario: "enqueue", Producers: n}, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
			return Enqueues(ctx, s, b.load(n, 1))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func bulk(ctx context.Context, b *Bench) error {
	for _, n := range b.Producers {
		if n > usual { // so many calls in the queue would hold a share of all jobs each
			continue
		}
		err := b.measure(ctx, Result{Scenario: "bulk", Producers: n, Batch: b.Batch}, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
			load := b.load(n, b.Batch)
			load.Jobs *= bulkMore
			return Enqueues(ctx, s, load)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func lives(ctx context.Context, b *Bench) error {
	for _, bare := range []bool{false, true} {
		for _, n := range b.Producers {
			err := b.measure(ctx, Result{Scenario: "life", Producers: n, Worker: workerName(bare)}, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
				s.Bare = bare
				return plainLife(ctx, s, b.load(n, 1), r)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func workerName(bare bool) string {
	if bare {
		return "bare"
	}
	return "worker"
}

// backlogBatches is how many claims of PerClaim jobs, and how many of one, are measured before a
// backlog.
const backlogBatches = 100

// fillLimit bounds the making of a backlog.
const fillLimit = 30 * time.Minute

func claims(ctx context.Context, b *Bench) error {
	for _, backlog := range b.Backlogs {
		for _, perClaim := range []int{1, PerClaim} {
			empty := Result{Scenario: "claim", Backlog: backlog, PerClaim: perClaim, Worker: workerName(true)}
			err := b.measure(ctx, empty, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
				fill := Load{Jobs: backlog, Producers: 1, Batch: sojourn.MaxBatch, Within: fillLimit}
				m, err := Enqueues(ctx, s, fill)
				if err == nil && m.Cut {
					err = fmt.Errorf("a backlog of %d jobs was not made within %v", backlog, fillLimit)
				}
				if err != nil {
					return m, err
				}
				r.settle(ctx, s.Client) // exclude the cost of the backlog from that of the claims
				return claimBefore(ctx, s, Load{Jobs: backlogBatches * perClaim, Within: b.Within}, backlog, perClaim)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// claimBefore measures claims alone. Between them the claimed jobs are finished, and as many
// enqueued, so that the backlog stays.
func claimBefore(ctx context.Context, s *Sojourn, load Load, next, perClaim int) (m Measured, err error) {
	store := driver.Of(s.Client)
	request := driver.ClaimRequest{Worker: "claims-of-" + s.queue(), Queues: []string{s.queue()}, Kinds: []string{Kind}, Max: perClaim, Capacity: int64(perClaim)}
	began := time.Now()
	for m.Jobs < load.Jobs {
		if m.Cut = time.Since(began) > load.Within; m.Cut {
			break
		}
		request.Number++
		called := time.Now()
		jobs, err := store.Claim(ctx, request)
		took := time.Since(called)
		if err != nil {
			return m, err
		}
		m.Ack.Add(took)
		m.Took += took
		m.Jobs += len(jobs)
		outcomes := make([]sojourn.Outcome, len(jobs))
		for i := range jobs {
			outcomes[i] = sojourn.Outcome{Lease: jobs[i].Lease, Type: sojourn.OutcomeCompleted}
		}
		if _, err := store.Finish(ctx, outcomes); err != nil {
			return m, err
		}
		if err := s.Enqueue(ctx, next, len(jobs)); err != nil {
			return m, err
		}
		next += len(jobs)
	}
	m.All = m.Jobs
	return m, nil
}
