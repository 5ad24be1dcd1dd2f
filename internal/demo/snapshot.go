package demo

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Snapshot is the demo at one moment, for a view.
type Snapshot struct {
	Path      string
	Page      string // URL of the web page; set by the caller of Run, empty if there is none
	Store     string
	Seed      uint64
	Up        time.Duration
	Draining  bool
	Trouble   string                  // why the store could not be asked; empty if it could
	Counts    map[sojourn.State]int64 // of the queues, by state
	Enqueued  int                     // acknowledged, as in Report
	Responses Responses
	Gateway   Gateway
	Partners  []PartnerReport
	EnqueueMS Percentiles
	WaitMS    Percentiles
	Events    []Event // the newest, oldest first

	EnqueueRate, FinishRate, AnswerRate float64 // a second, over the last 5 s
}

// redraw is the time between two snapshots.
const redraw = 500 * time.Millisecond

func (s *stage) snapshot(r *rates) Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	shot := Snapshot{Path: s.cfg.Path, Store: s.store, Seed: s.cfg.Seed, Up: time.Since(s.began), Draining: s.draining.Load(),
		Counts: map[sojourn.State]int64{}, Enqueued: s.ledger.enqueued(), Responses: s.ledger.responses(), Gateway: s.gateway.snapshot(), Partners: s.traded(),
		EnqueueMS: s.stats.enqueues.percentiles(), WaitMS: s.stats.waits.percentiles(), Events: s.stats.newest()}
	all, err := s.client.Store().Queues(ctx, queues()...)
	if err != nil {
		if !errors.Is(err, sojourn.ErrNotFound) { // else they are made with their first jobs
			shot.Trouble = err.Error()
		}
		return shot
	}
	for _, q := range all {
		for state, n := range q.Counts {
			shot.Counts[state] += n
		}
	}
	a := shot.Responses
	now := tally{shot.Up, float64(shot.Enqueued), float64(shot.final()), float64(a.Applied + a.Early + a.Duplicate + a.Late)}
	shot.EnqueueRate, shot.FinishRate, shot.AnswerRate = r.add(now)
	return shot
}

func (s Snapshot) final() int64 {
	return s.Counts[sojourn.Completed] + s.Counts[sojourn.Failed] + s.Counts[sojourn.Cancelled]
}

// tally holds the counters at one time.
type tally struct {
	at                          time.Duration
	enqueued, finished, answers float64
}

// rates holds the tallies of the last 5 s.
type rates struct{ tallies []tally }

const rateSpan = 5 * time.Second

// add appends a tally and returns the rates per second since the oldest tally in the span.
func (r *rates) add(t tally) (enqueued, finished, answers float64) {
	r.tallies = append(r.tallies, t)
	for len(r.tallies) > 2 && t.at-r.tallies[0].at > rateSpan {
		r.tallies = r.tallies[1:]
	}
	from := r.tallies[0]
	d := (t.at - from.at).Seconds()
	if d <= 0 {
		return 0, 0, 0
	}
	return (t.enqueued - from.enqueued) / d, (t.finished - from.finished) / d, (t.answers - from.answers) / d
}
