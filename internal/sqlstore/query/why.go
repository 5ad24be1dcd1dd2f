package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/claim"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qFinalLook = `select queue, kind, state, reason from sj_final where id = $1`
	qAheadOf   = `select count(*) from (select 1 from sj_live where queue = $1 and kind = $2 and state = 3 and (r1, r2, id) < ($3, $4, $5) limit $6) a`
	qAheadIn   = `select count(*) from (select 1 from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $7
		and (r1, r2, id) < ($3, $4, $5) limit $6) a`
)

// Why explains what a job waits for; see sojourn.Store. It reads the same snapshot as a claim
// and asks the same gates.
func (s *Reader) Why(ctx context.Context, id sojourn.ID) (w sojourn.Why, err error) {
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		var l *jobrow.Row
		err := t.Read(qLook, func(r sqldb.Row) (err error) {
			l, err = t.Core.Decoder.Scan(r)
			return err
		}, int64(id))
		if err != nil {
			return err
		}
		if l == nil {
			w, err = whyFinal(t, id)
			return err
		}
		w = sojourn.Why{ID: l.ID, Kind: l.Kind, Queue: l.Queue, Group: l.Group, State: l.State, Resumed: l.Resumed}
		return whyJob(t, s.Gates, &w, l)
	})
	return w, err
}

func whyFinal(t *txn.Tx, id sojourn.ID) (w sojourn.Why, err error) {
	err = t.Read(qFinalLook, func(r sqldb.Row) error {
		w = sojourn.Why{ID: id, Queue: r.Text(0), Kind: r.Text(1), State: sojourn.State(r.Int(2)), Waits: "for nothing: it has ended"}
		if reason := r.Text(3); reason != "" {
			w.Waits += ", reason " + reason
		}
		return nil
	}, int64(id))
	if err == nil && w.ID == 0 {
		err = sojourn.NotFound("no job has the id %d", id)
	}
	return w, err
}

// whyJob fills in the reasons that follow from the state.
func whyJob(t *txn.Tx, g *gate.Gates, w *sojourn.Why, l *jobrow.Row) (err error) {
	switch l.State {
	case sojourn.Scheduled:
		w.Waits, w.Until = "for its time", jobrow.Time(l.RunAt)
		if l.Failures+l.Crashes > 0 {
			w.Waits = fmt.Sprintf("for its next attempt, after %d failures and %d lost leases", l.Failures, l.Crashes)
		}
	case sojourn.Running:
		w.Waits, w.Worker, w.Until = "for its worker, whose lease ends then unless it is extended", l.Worker, jobrow.Time(l.LeaseUntil)
	case sojourn.Awaiting:
		w.Waits = "for a response"
		w.Until = jobrow.Time(jobrow.Earliest(l.WaitEnd(), l.TimeoutAt, l.Deadline))
		w.Keys, err = lifecycle.KeysOf(t, l)
	case sojourn.Blocked:
		w.Waits = "for the jobs that it depends on"
	case sojourn.Errored:
		w.Until = jobrow.Time(l.DecideBy)
		err = whyGates(t, g, w, l, sojourn.PurposeDecide)
		if w.Claimable {
			w.Waits = "for a worker with its kind's retry policy; then its stored backoff decides"
		}
	case sojourn.Ready:
		purpose := sojourn.PurposeStart
		if l.Resumed {
			purpose = sojourn.PurposeResume
		}
		err = whyGates(t, g, w, l, purpose)
	}
	if err == nil {
		w.Unhandled, err = nobodyAsks(t, l.Queue, l.Kind)
	}
	return err
}

// whyGates asks the gates about a job that a claim might take.
func whyGates(t *txn.Tx, g *gate.Gates, w *sojourn.Why, l *jobrow.Row, purpose sojourn.Purpose) error {
	kinds, err := claim.ReadyKinds(t, l.Queue)
	if err != nil {
		return err
	}
	a, err := g.Explain(t, l.Queue, kinds)
	if err != nil {
		return err
	}
	defer a.End()
	e := gate.Candidate{Candidate: jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)}, Kind: l.Kind, Lane: l.Lane, Purpose: purpose}
	c := e.Asks()
	c.Windows = l.Policy.Windows
	w.Gates = a.Flow.Gates(c)
	if w.Ahead, err = ahead(t, a, kinds, &e); err != nil {
		return err
	}
	i := slices.IndexFunc(w.Gates, func(g sojourn.Gate) bool { return !g.Open })
	if i < 0 {
		return whyBehind(w, a, &e)
	}
	closed := w.Gates[i]
	w.Gate, w.Until, w.Waits = closed.Name, closed.Until, closed.Text
	return nil
}

// nobodyAsks reports whether no worker has claimed a kind in a queue within the last day.
func nobodyAsks(t *txn.Tx, queue, kind string) (bool, error) {
	nobody := true
	err := t.Read(qAskers, func(r sqldb.Row) error {
		var a txn.Subscription
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		nobody = nobody && !(slices.Contains(a.Queues, queue) && slices.Contains(a.Kinds, kind))
		return err
	}, t.Now-sojourn.WorkerLife.Microseconds())
	return nobody, err
}

// WhyQueue explains the jobs in front of a queue; see sojourn.Store.
func (s *Reader) WhyQueue(ctx context.Context, queue string) (w sojourn.QueueWhy, err error) {
	err = s.Core.View(ctx, func(t *txn.Tx) error {
		w = sojourn.QueueWhy{Queue: queue, Held: []sojourn.Gate{}}
		kinds, err := claim.ReadyKinds(t, queue)
		if err != nil {
			return err
		}
		a, err := s.Gates.Explain(t, queue, kinds)
		if err != nil {
			return err
		}
		defer a.End()
		if !a.Row.Found {
			return sojourn.NotFound("there is no queue %.64q", queue)
		}
		w.Trouble = a.Row.Flow.Trouble
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

var qLook = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id = $1`

// tally asks the gates about each job of front and counts by the first closed gate.
func tally(w *sojourn.QueueWhy, a *gate.Admission, front []gate.Candidate) {
	for i := range front {
		if a.Pass != nil && a.Pass.Stopped() && w.Asked > 0 {
			break
		}
		w.Asked++
		g := a.Flow.Ask(front[i].Asks())
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

// ahead counts the ready jobs before one in its line, up to MaxAhead.
func ahead(t *txn.Tx, a *gate.Admission, kinds []string, e *gate.Candidate) (n int64, err error) {
	for _, kind := range kinds {
		q, args := qAheadOf, []any{a.Queue, kind, e.R1, e.R2, e.ID, sojourn.MaxAhead}
		if rules.Grouped(a.Row.QueueSettings) && e.Lane >= jobrow.LaneCritical {
			q, args = qAheadIn, append(args, e.Lane)
		}
		more, err := t.ReadInt(q, args...)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return min(n, sojourn.MaxAhead), nil
}

// whyBehind reports whether a job that no gate holds back waits behind another of its group: order
// within a group is strict.
func whyBehind(w *sojourn.Why, a *gate.Admission, e *gate.Candidate) error {
	w.Claimable, w.Waits = true, "for its turn and a worker"
	first := a.Flow.HeadFirst() && e.ID == int64(a.Flow.State.Head) // it is asked about before all others, regardless of the order
	if first || !rules.Grouped(a.Row.QueueSettings) || e.Purpose != sojourn.PurposeStart || e.Lane < jobrow.LaneGroup {
		return nil
	}
	deep := 1
	if a.Pass != nil { // jobs that the throttler refuses do not block those behind them
		deep = sojourn.MaxAhead
	}
	before, err := a.Source.Next(e.Lane, jobrow.Candidate{}, deep)
	if err != nil {
		return err
	}
	gate.SortCandidates(before)
	for _, b := range before {
		if jobrow.Before(b.Candidate, e.Candidate) >= 0 {
			break
		}
		g := a.Flow.Ask(b.Asks())
		if g.Open {
			break
		}
		if g.Name != sojourn.GateThrottle {
			w.Claimable, w.Gate, w.Until = false, g.Name, g.Until
			w.Waits = fmt.Sprintf("behind job %d of its group: %s", b.ID, g.Text)
			break
		}
	}
	return nil
}
