package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/claim"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// WhyQueue explains the jobs in front of a queue; see sojourn.Store.
func (s *Reader) WhyQueue(ctx context.Context, queue string) (w sojourn.QueueWhy, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		w = sojourn.QueueWhy{Queue: queue, Held: []sojourn.Gate{}}
		kinds, err := claim.ReadyKinds(t, queue)
		if err != nil {
			return err
		}
		a, err := s.gates.Explain(t, queue, kinds)
		if err != nil {
			return err
		}
		defer a.End()
		if !a.Row.Found {
			return sojourn.NotFound("there is no queue %.64q", queue)
		}
		trouble := a.Row.Flow.Trouble
		w.ThrottleErrors, w.ThrottleError, w.ThrottleErrorAt = trouble.Count, trouble.Text, trouble.At
		front, err := a.Source.Front(sojourn.MaxAhead)
		if err != nil {
			return err
		}
		gate.SortCandidates(front)
		front = front[:min(len(front), sojourn.MaxAhead)]
		if a.Pass != nil {
			if err := a.Describe(front); err != nil {
				return err
			}
		}
		tally(&w, a, front)
		return nil
	})
	return w, err
}

// tally asks the gates about each job of front and counts by the first closed gate.
func tally(w *sojourn.QueueWhy, a *gate.Admission, front []gate.Candidate) {
	for i := range front {
		if a.Pass != nil && a.Pass.Stopped() && w.Asked > 0 {
			break
		}
		w.Asked++
		g := a.Flow.Ask(front[i].ForGates())
		if g.Open {
			w.Open++
			continue
		}
		k := slices.IndexFunc(w.Held, func(h sojourn.Gate) bool { return h.Name == g.Name })
		if k < 0 {
			k = len(w.Held)
			g.First = sojourn.ID(front[i].ID)
			w.Held = append(w.Held, g)
		}
		w.Held[k].Jobs++
	}
	slices.SortStableFunc(w.Held, func(a, b sojourn.Gate) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), strings.Compare(a.Name, b.Name))
	})
}
