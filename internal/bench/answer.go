package bench

import (
	"context"
	"time"
)

// timing says when the answer to a job comes.
type timing int

const (
	atOnce   timing = iota // the handler has sent its request; the wait may not be stored yet
	promptly               // as soon as the wait is stored
	later                  // laterBy after the wait was stored
)

// laterBy is long against the time of a transaction, so that the answer meets a job at rest.
const laterBy = 200 * time.Millisecond

// answerCases are whole lives without an answer, and with one. The others are compared with the
// first one.
var answerCases = []string{"no answer", "answer at once", "answer promptly", "answer later"}

// answerLives measures whole lives of jobs that await an answer, by the time at which it comes.
func answerLives(ctx context.Context, b *Bench) error {
	cases := make([]Result, len(answerCases))
	for i, name := range answerCases {
		cases[i] = Result{Scenario: "answer", Producers: usual, Worker: workerName(false), Queue: name}
	}
	return b.inTurn(ctx, cases, func(ctx context.Context, i int, s *Sojourn, r *Result) (Measured, error) {
		load := b.load(usual, 1)
		if i == 0 {
			return plainLife(ctx, s, load, r)
		}
		return answeredLife(ctx, s, load, timing(i-1), r)
	})
}

// plainLife is Life with the time from an enqueue to the start of its handler.
func plainLife(ctx context.Context, s *Sojourn, load Load, r *Result) (Measured, error) {
	w := newWatch(load.WarmUp, load.Jobs)
	s.Start = w.stop
	m, err := Life(ctx, watched{s, w}, load)
	r.starts(w.sample())
	return m, err
}

// inTurn measures cases Runs times, each time beginning with another one. It keeps the median of
// each, with its ratio to the first case in the same runs.
func (b *Bench) inTurn(ctx context.Context, cases []Result, run func(ctx context.Context, i int, s *Sojourn, r *Result) (Measured, error)) error {
	all := make([][]Result, len(cases))
	for n := range b.Runs {
		for i := range cases {
			i = (i + n) % len(cases)
			r, err := b.once(ctx, cases[i], func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) { return run(ctx, i, s, r) })
			if err != nil {
				return err
			}
			all[i] = append(all[i], r)
		}
	}
	for _, results := range all {
		b.keep(middle(results, all[0]))
	}
	return nil
}
