package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	// room is a limit that is never reached: the benchmark measures the cost of checking a limit,
	// not of waiting for one.
	room = 1_000_000
	// flowGroups is the number of groups. Each has a share, and its jobs come after the giant's.
	flowGroups = 1000
	// ofEach is the number of ready jobs of each of these groups while claims are measured.
	ofEach = 10
	// giantClaims is the number of claims measured with the giant, and again without, in each run.
	giantClaims = 300
	// giant is the group with the backlog. Its name sorts before the others, and round robin goes
	// by name.
	giant = "giant"
	// flowRule is evaluated for each job and reads the weight in flight.
	flowRule = `in_flight.weight() + weight <= 1000000`
)

// flowCases are the same queue with different gates. The others are compared with the first one.
var flowCases = []struct {
	name     string
	settings sojourn.QueueSettings
	groups   int
}{
	{"no gates", sojourn.QueueSettings{}, 0},
	{"a limit", sojourn.QueueSettings{Limit: room}, 0},
	{"groups with shares", sojourn.QueueSettings{Limit: room, Shares: evenShares()}, flowGroups},
	{"a rule", sojourn.QueueSettings{Throttle: flowRule}, 0},
}

func evenShares() map[string]float64 {
	shares := make(map[string]float64, flowGroups)
	for i := range flowGroups {
		shares[groupName(i)] = 1.0 / flowGroups
	}
	return shares
}

func groupName(i int) string { return fmt.Sprintf("group-%d", i) }

// flows measures the cost of gates: whole lives with and without them, and claims behind a group
// that is at its limit.
func flows(ctx context.Context, b *Bench) error {
	cases := make([]Result, len(flowCases))
	for i, c := range flowCases {
		cases[i] = Result{Scenario: "flow", Producers: usual, Worker: workerName(false), Queue: c.name}
	}
	err := b.inTurn(ctx, cases, func(ctx context.Context, i int, s *Sojourn, _ *Result) (Measured, error) {
		s.Groups = flowCases[i].groups
		if err := s.Client.Queues().Set(ctx, s.queue(), flowCases[i].settings); err != nil {
			return Measured{}, err
		}
		return Life(ctx, s, b.load(usual, 1))
	})
	if err != nil {
		return err
	}
	for _, backlog := range b.Backlogs {
		if err := giants(ctx, b, backlog); err != nil {
			return err
		}
	}
	return nil
}

// middle returns the run with the median rate. Its Ratio is the median of the ratios to the results
// of the same runs in beside.
func middle(of, beside []Result) Result {
	var ratios []float64
	for i := range of {
		if beside[i].PerSecond > 0 {
			ratios = append(ratios, of[i].PerSecond/beside[i].PerSecond)
		}
	}
	sorted := slices.SortedFunc(slices.Values(of), func(a, b Result) int { return int(a.PerSecond - b.PerSecond) })
	r := sorted[len(sorted)/2]
	r.Ratio, r.Runs = Median(ratios), len(of)
	return r
}

// giants measures claims of one job from many small groups, on two stores in turn. In the second a
// group with a large backlog stands before them, and is at its limit.
func giants(ctx context.Context, b *Bench, backlog int) (err error) {
	var systems [2]*Sojourn
	results := [2]Result{{Queue: "small groups"}, {Queue: "behind a full group"}}
	var found [2]Measured
	for i := range systems {
		s, done, err := b.open(ctx, &results[i])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		systems[i] = s
		r := &results[i]
		r.Scenario, r.Worker, r.Backlog, r.PerClaim = "flow", workerName(true), backlog, 1
		if err := fillGroups(ctx, s, i*backlog); err != nil {
			return err
		}
		r.settle(ctx, s.Client)
	}
	for range b.Runs {
		for i, s := range systems {
			m, err := claimOfGroups(ctx, s, Load{Jobs: giantClaims, WarmUp: giantClaims / 10, Within: b.Within}, found[i].All)
			if err != nil {
				return err
			}
			f := &found[i]
			f.Jobs, f.All, f.Took, f.Ack, f.Cut = f.Jobs+m.Jobs, f.All+m.All, f.Took+m.Took, Merge(f.Ack, m.Ack), f.Cut || m.Cut
		}
	}
	for i := range results {
		r := &results[i]
		r.fill(ctx, systems[i].Client, found[i])
		r.Runs, r.Ratio = b.Runs, r.AckP99MS/max(results[0].AckP99MS, 0.001)
		b.keep(*r)
	}
	return ctx.Err()
}

// fillGroups makes a queue whose groups may have one job in flight each, with small groups, and a
// group of so many jobs at its limit.
func fillGroups(ctx context.Context, s *Sojourn, backlog int) error {
	if err := s.Client.Queues().Set(ctx, s.queue(), sojourn.QueueSettings{GroupLimit: 1}); err != nil {
		return err
	}
	fill := func(jobs int) error {
		if jobs == 0 {
			return nil
		}
		m, err := Enqueues(ctx, s, Load{Jobs: jobs, Producers: 1, Batch: sojourn.MaxBatch, Within: fillLimit})
		if err == nil && m.Cut {
			err = fmt.Errorf("a backlog of %d jobs was not made within %v", jobs, fillLimit)
		}
		return err
	}
	s.Group = giant
	if err := fill(backlog); err != nil {
		return err
	}
	if backlog > 0 {
		r := driver.ClaimRequest{Worker: "bench-full", Queues: []string{s.queue()}, Kinds: []string{Kind}, Max: 1, Capacity: 1, Lease: time.Hour}
		if jobs, err := driver.Of(s.Client).Claim(ctx, r); err != nil || len(jobs) != 1 {
			return errors.Join(err, fmt.Errorf("%d jobs of the group with the backlog were claimed instead of 1", len(jobs)))
		}
	}
	s.Group, s.Groups = "", flowGroups
	return fill(flowGroups * ofEach)
}

// claimOfGroups measures claims of one job each. What is claimed is finished, and another job of
// its group takes its place.
func claimOfGroups(ctx context.Context, s *Sojourn, load Load, before int) (m Measured, err error) {
	store := driver.Of(s.Client)
	r := driver.ClaimRequest{Worker: "claims-of-" + s.queue(), Number: int64(before), Queues: []string{s.queue()}, Kinds: []string{Kind}, Max: 1, Capacity: 1}
	for began := time.Now(); m.Jobs < load.Jobs && !m.Cut; m.Cut = time.Since(began) > load.Within {
		r.Number++
		called := time.Now()
		jobs, err := store.Claim(ctx, r)
		took := time.Since(called)
		if err != nil {
			return m, err
		}
		if len(jobs) != 1 {
			return m, fmt.Errorf("a claim has found %d jobs instead of 1", len(jobs))
		}
		if m.All++; m.All > load.WarmUp {
			m.Jobs, m.Took = m.Jobs+1, m.Took+took
			m.Ack.Add(took)
		}
		if _, err := store.Finish(ctx, []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}}); err != nil {
			return m, err
		}
		next := s.job(0)
		next.Group = jobs[0].Job.Group
		if _, err := s.Client.Enqueue(ctx, next); err != nil {
			return m, err
		}
	}
	return m, nil
}
