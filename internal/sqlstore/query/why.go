package query

import (
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
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qAheadOf = `select count(*) from (select 1 from sj_live where queue = $1 and kind = $2 and state = 3 and (r1, r2, id) < ($3, $4, $5) limit $6) a`
	qAheadIn = `select count(*) from (select 1 from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $7
		and (r1, r2, id) < ($3, $4, $5) limit $6) a`
)

var qWhyLive = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id = $1`

// Why explains what a job waits for; see sojourn.Store. It passes the job to the gates that a claim
// would pass it to.
func (s *Reader) Why(ctx context.Context, id sojourn.ID) (w sojourn.Why, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		var l *jobrow.Row
		err := t.Read(qWhyLive, func(r sqldb.Row) (err error) {
			l, err = t.Core.Caches.Decoder.Scan(r)
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
		return whyJob(t, s.gates, &w, l)
	})
	return w, err
}

// whyFinal answers for a job that has ended, or does not exist.
func whyFinal(t *txn.Tx, id sojourn.ID) (w sojourn.Why, err error) {
	err = t.Read(qWhyFinal, func(r sqldb.Row) error {
		w = sojourn.Why{ID: id, Queue: r.Text(0), Kind: r.Text(1), State: sojourn.State(r.Int(2)), Waits: "for nothing: it has ended"}
		if reason := r.Text(3); reason != "" {
			w.Waits += ", reason " + reason
		}
		if r.Int(4) > 0 {
			w.Waits += "; an archive has not exported it, so retention keeps it"
		}
		return nil
	}, int64(id), t.Now)
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
		w.Waits, err = whyBlocked(t, l)
		if l.AttemptOpen {
			w.Until = jobrow.Time(jobrow.Earliest(l.WaitUntil, l.TimeoutAt, l.Deadline))
		}
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
		w.Unhandled, err = noWorker(t, l.Queue, l.Kind)
	}
	return err
}

// qParentsOf reads the jobs that keep a job blocked, those first that have ended, with their names
// in its workflow.
const (
	qParentsOf = `select e.parent, e.on_failure, coalesce(l.state, f.state, 0), coalesce((select m.name from sj_member m where m.job = e.parent and m.workflow = $2), '')
		from sj_edge e left join sj_live l on l.id = e.parent left join sj_final f on f.id = e.parent where e.child = $1 and e.open = 1 order by 3 desc, 1 limit 5`
	qWorkflowName = `select name from sj_workflow where id = $1`
)

// whyBlocked names the first jobs that a blocked job waits for, and their workflow if they are
// members of the same one.
func whyBlocked(t *txn.Tx, l *jobrow.Row) (string, error) {
	var parents []string
	err := t.Read(qParentsOf, func(r sqldb.Row) error {
		state := sojourn.State(r.Int(2))
		text := state.String()
		if state.Final() {
			text = fmt.Sprintf("%s: redrive it, or remove the dependency", state)
		}
		if name := r.Text(3); name != "" {
			text = fmt.Sprintf("member %s (job %d, %s)", name, r.Int(0), text)
		} else {
			text = fmt.Sprintf("job %d (%s)", r.Int(0), text)
		}
		parents = append(parents, text)
		return nil
	}, int64(l.ID), l.Workflow)
	if more := int(l.WaitsFor) - len(parents); more > 0 {
		parents = append(parents, fmt.Sprintf("and %d more", more))
	}
	of := ""
	if err == nil && l.Workflow != 0 {
		err = t.Read(qWorkflowName, func(r sqldb.Row) error { of = "in workflow " + r.Text(0) + " "; return nil }, l.Workflow)
	}
	if l.AttemptOpen {
		return of + "for its children " + strings.Join(parents, ", "), err
	}
	return of + "for " + strings.Join(parents, ", "), err
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
	c := e.ForGates()
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
		if jobrow.CompareCandidates(b.Candidate, e.Candidate) >= 0 {
			break
		}
		g := a.Flow.Ask(b.ForGates())
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

// noWorker reports whether no worker has claimed a kind in a queue within the last day.
func noWorker(t *txn.Tx, queue, kind string) (bool, error) {
	life, err := storeconfig.WorkerLife(t)
	if err != nil {
		return false, err
	}
	none := true
	err = t.Read(qAskers, func(r sqldb.Row) error {
		var a presence.Subscription
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		none = none && !(slices.Contains(a.Queues, queue) && slices.Contains(a.Kinds, kind))
		return err
	}, t.Now-life.Microseconds())
	return none, err
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
