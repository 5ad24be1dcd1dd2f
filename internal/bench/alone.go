package bench

import (
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// The cases of responses alone: the same callers, one call each, without workers. The second is
// compared with the first.
const (
	enqueuesAlone = "enqueues alone"
	answersAlone  = "answers alone"
)

// alone measures the rates of enqueues and of responses, in turn, Runs times.
func alone(ctx context.Context, b *Bench) error {
	cases := []Result{{Queue: enqueuesAlone}, {Queue: answersAlone}}
	for i := range cases {
		cases[i].Scenario, cases[i].Producers = "respond", usual
	}
	return b.inTurn(ctx, cases, func(ctx context.Context, i int, s *Sojourn, r *Result) (Measured, error) {
		load := b.load(usual, 1)
		if i == 0 {
			return Enqueues(ctx, s, load)
		}
		if err := s.park(ctx, load.WarmUp+load.Jobs); err != nil {
			return Measured{}, err
		}
		r.settle(ctx, s.Client) // exclude the cost of the jobs from that of the responses
		return Enqueues(ctx, answers{s}, load)
	})
}

// park makes n jobs that await an answer, while no worker is there to take it.
func (s *Sojourn) park(ctx context.Context, n int) error {
	if err := s.enqueueKeyed(ctx, n, nil); err != nil {
		return err
	}
	store := driver.Of(s.Client)
	r := driver.ClaimRequest{Worker: "parks-" + s.queue(), Queues: []string{s.queue()}, Kinds: []string{Kind}, Max: sojourn.MaxBatch, Capacity: sojourn.MaxBatch}
	for parked := 0; parked < n; {
		r.Number++
		jobs, err := store.Claim(ctx, r)
		if err != nil {
			return err
		}
		outcomes := make([]sojourn.Outcome, len(jobs))
		for i := range jobs {
			outcomes[i] = sojourn.Outcome{Lease: jobs[i].Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: answerWithin}}
		}
		finished, err := store.Finish(ctx, outcomes)
		if err != nil {
			return err
		}
		for _, f := range finished {
			if f.State != sojourn.Awaiting {
				return fmt.Errorf("a job that was to await is %s: %w", f.State, f.Err)
			}
		}
		if parked += len(jobs); len(jobs) == 0 {
			return fmt.Errorf("%d of %d jobs were found to park", parked, n)
		}
	}
	return nil
}

// answers is a System whose Enqueue sends a response to an awaiting job.
type answers struct{ *Sojourn }

// Enqueue implements System.
func (a answers) Enqueue(ctx context.Context, first, n int) error {
	for number := first; number < first+n; number++ {
		got, err := a.Client.Respond(ctx, &sojourn.Response{Kind: Kind, Key: a.key(number), Body: Args(number)})
		if err != nil {
			return err
		}
		if got.Outcome != sojourn.Applied {
			return fmt.Errorf("an answer to a job that awaits was %s", got.Outcome)
		}
	}
	return nil
}

// key returns the key of the job with that number.
func (s *Sojourn) key(number int) string { return fmt.Sprintf("%s-%d", s.queue(), number) }

// enqueueKeyed enqueues n jobs with keys and passes their ids to stored.
func (s *Sojourn) enqueueKeyed(ctx context.Context, n int, stored func(id sojourn.ID, number int)) error {
	for first := 0; first < n; first += sojourn.MaxBatch {
		jobs := make([]*sojourn.Job, min(sojourn.MaxBatch, n-first))
		for i := range jobs {
			jobs[i] = s.job(first + i)
			jobs[i].Key = s.key(first + i)
		}
		done, err := s.Client.EnqueueAll(ctx, jobs...)
		if err != nil {
			return err
		}
		for i := range done {
			if stored != nil {
				stored(done[i].ID, first+i)
			}
		}
	}
	return nil
}
