package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
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
func (s *reader) Why(ctx context.Context, id sojourn.ID) (w sojourn.Why, err error) {
	err = s.core.view(ctx, func(t *tx) error {
		var l *live
		err := t.query(qLook, func(r sqldb.Row) (err error) {
			l, err = t.s.decoder.scan(r)
			return err
		}, int64(id))
		if err != nil {
			return err
		}
		if l == nil {
			w, err = t.whyFinal(id)
			return err
		}
		w = sojourn.Why{ID: l.ID, Kind: l.kind, Queue: l.queue, Group: l.group, State: l.State, Resumed: l.Resumed}
		return t.why(s.gates, &w, l)
	})
	return w, err
}

func (t *tx) whyFinal(id sojourn.ID) (w sojourn.Why, err error) {
	err = t.query(qFinalLook, func(r sqldb.Row) error {
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

// why fills in the reasons that follow from the state.
func (t *tx) why(g *gates, w *sojourn.Why, l *live) (err error) {
	switch l.State {
	case sojourn.Scheduled:
		w.Waits, w.Until = "for its time", at(l.runAt)
		if l.Failures+l.Crashes > 0 {
			w.Waits = fmt.Sprintf("for its next attempt, after %d failures and %d lost leases", l.Failures, l.Crashes)
		}
	case sojourn.Running:
		w.Waits, w.Worker, w.Until = "for its worker, whose lease ends then unless it is extended", l.worker, at(l.leaseUntil)
	case sojourn.Awaiting:
		w.Waits = "for a response"
		w.Until = at(earliest(l.waitEnd(), l.timeoutAt, l.deadline))
		w.Keys, err = t.keysOf(l)
	case sojourn.Blocked:
		w.Waits = "for the jobs that it depends on"
	case sojourn.Errored:
		w.Until = at(l.decideBy)
		err = t.whyGates(g, w, l, sojourn.PurposeDecide)
		if w.Claimable {
			w.Waits = "for a worker with its kind's retry policy; then its stored backoff decides"
		}
	case sojourn.Ready:
		purpose := sojourn.PurposeStart
		if l.Resumed {
			purpose = sojourn.PurposeResume
		}
		err = t.whyGates(g, w, l, purpose)
	}
	if err == nil {
		w.Unhandled, err = t.nobodyAsks(l.queue, l.kind)
	}
	return err
}

// whyGates asks the gates about a job that a claim might take.
func (t *tx) whyGates(g *gates, w *sojourn.Why, l *live, purpose sojourn.Purpose) error {
	kinds, err := t.readyKinds(l.queue)
	if err != nil {
		return err
	}
	a, err := g.explain(t, l.queue, kinds)
	if err != nil {
		return err
	}
	defer a.end()
	e := gateCandidate{candidate{int64(l.ID), l.r1, l.r2, int64(l.Weight)}, l.kind, l.lane, purpose}
	c := e.asks()
	c.Windows = l.Policy.Windows
	w.Gates = a.flow.Gates(c)
	if w.Ahead, err = t.ahead(a, kinds, &e); err != nil {
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
func (t *tx) nobodyAsks(queue, kind string) (bool, error) {
	nobody := true
	err := t.query(qAskers, func(r sqldb.Row) error {
		var a asks
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		nobody = nobody && !(slices.Contains(a.Queues, queue) && slices.Contains(a.Kinds, kind))
		return err
	}, t.now-sojourn.WorkerLife.Microseconds())
	return nobody, err
}

// WhyQueue explains the jobs in front of a queue; see sojourn.Store.
func (s *reader) WhyQueue(ctx context.Context, queue string) (w sojourn.QueueWhy, err error) {
	err = s.core.view(ctx, func(t *tx) error {
		w = sojourn.QueueWhy{Queue: queue, Held: []sojourn.HeldBy{}}
		kinds, err := t.readyKinds(queue)
		if err != nil {
			return err
		}
		a, err := s.gates.explain(t, queue, kinds)
		if err != nil {
			return err
		}
		defer a.end()
		if !a.row.found {
			return sojourn.NotFound("there is no queue %.64q", queue)
		}
		w.Pace, w.Trouble = sojourn.Pace(a.row.flow.Pace), a.row.flow.Trouble
		front, err := a.source.Front(sojourn.MaxAhead)
		if err != nil {
			return err
		}
		sortCandidates(front)
		front = front[:min(len(front), sojourn.MaxAhead)]
		if a.pass != nil {
			if err := a.describe(front); err != nil {
				return err
			}
		}
		tally(&w, a, front)
		return nil
	})
	return w, err
}

var qLook = `select ` + liveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id = $1`

// tally asks the gates about each job of front and counts by the first closed gate.
func tally(w *sojourn.QueueWhy, a *admission, front []gateCandidate) {
	for i := range front {
		if a.pass != nil && a.pass.stopped() && w.Asked > 0 {
			break
		}
		w.Asked++
		g := a.flow.Ask(front[i].asks())
		if g.Open {
			w.Open++
			continue
		}
		k := slices.IndexFunc(w.Held, func(h sojourn.HeldBy) bool { return h.Gate.Name == g.Name })
		if k < 0 {
			k = len(w.Held)
			w.Held = append(w.Held, sojourn.HeldBy{Gate: g, ID: sojourn.ID(front[i].id)})
		}
		w.Held[k].Jobs++
	}
	slices.SortStableFunc(w.Held, func(a, b sojourn.HeldBy) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), strings.Compare(a.Gate.Name, b.Gate.Name))
	})
}

// ahead counts the ready jobs before one in its line, up to MaxAhead.
func (t *tx) ahead(a *admission, kinds []string, e *gateCandidate) (n int64, err error) {
	for _, kind := range kinds {
		q, args := qAheadOf, []any{a.queue, kind, e.r1, e.r2, e.id, sojourn.MaxAhead}
		if rules.Grouped(a.row.QueueSettings) && e.lane >= laneCritical {
			q, args = qAheadIn, append(args, e.lane)
		}
		more, err := t.num(q, args...)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return min(n, sojourn.MaxAhead), nil
}

// whyBehind reports whether a job that no gate holds back waits behind another of its group: order
// within a group is strict.
func whyBehind(w *sojourn.Why, a *admission, e *gateCandidate) error {
	w.Claimable, w.Waits = true, "for its turn and a worker"
	first := a.flow.HeadFirst() && e.id == int64(a.flow.State.Head) // it is asked about before all others, regardless of the order
	if first || !rules.Grouped(a.row.QueueSettings) || e.purpose != sojourn.PurposeStart || e.lane < laneGroup {
		return nil
	}
	deep := 1
	if a.pass != nil { // jobs that the throttler refuses do not block those behind them
		deep = sojourn.MaxAhead
	}
	before, err := a.source.Next(e.lane, candidate{}, deep)
	if err != nil {
		return err
	}
	sortCandidates(before)
	for _, b := range before {
		if less(b.candidate, e.candidate) >= 0 {
			break
		}
		g := a.flow.Ask(b.asks())
		if g.Open {
			break
		}
		if g.Name != sojourn.GateThrottle {
			w.Claimable, w.Gate, w.Until = false, g.Name, g.Until
			w.Waits = fmt.Sprintf("behind job %d of its group: %s", b.id, g.Text)
			break
		}
	}
	return nil
}
