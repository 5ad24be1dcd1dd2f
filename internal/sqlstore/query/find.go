package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/claim"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/schedules"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Find lists jobs, and waits for one if the filter says so; see driver.Store.
func (s *Reader) Find(ctx context.Context, f sojourn.Filter) ([]sojourn.Job, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	if len(f.IDs) == 0 {
		f.Wait = 0
	}
	waiting := ctx
	if f.Wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, min(f.Wait, sojourn.MaxWait))
		defer cancel()
	}
	var found []sojourn.Job
	err := s.hub.Block(ctx, &wake.Waiter{IDs: f.IDs}, f.Wait, func() (bool, error) {
		err := s.core.View(waiting, func(t *txn.Tx) (err error) {
			if found, err = Find(t, f); err == nil && reportsFinal(f, found) {
				readDurably(t)
			}
			if err == nil && f.Next && len(found) < f.Limit {
				var ticks []sojourn.Job
				ticks, err = schedules.Peek(t, access.CallerOf(ctx), f.Queue, f.Kind, f.Limit-len(found))
				found = append(found, ticks...)
			}
			return err
		})
		if err != nil && ctx.Err() == nil && waiting.Err() != nil {
			found, err = nil, nil // the results are not durable yet: the wait is over without them
		}
		return len(found) > 0, err
	})
	return found, err
}

// reportsFinal reports whether callers may rely on the final state of a job that the filter names.
// Lists of other jobs may be ahead of durability.
func reportsFinal(f sojourn.Filter, found []sojourn.Job) bool {
	named := f.Key != "" || len(f.IDs) > 0
	return named && slices.ContainsFunc(found, func(j sojourn.Job) bool { return j.State.Final() })
}

// readDurably makes a View return only when all the data that it has read is durable.
func readDurably(t *txn.Tx) {
	if d, ok := t.Conn.(sqldb.DurableReader); ok {
		d.ReadDurably()
	}
}

// Find is Reader.Find within a transaction, without waiting. It reads the two halves, live and
// final, and merges them by id.
func Find(t *txn.Tx, f sojourn.Filter) ([]sojourn.Job, error) {
	f, rank, err := narrow(t, f)
	if err != nil || f.Empty() {
		return nil, err
	}
	var out []sojourn.Job
	hasData, inHand := map[sojourn.ID]bool{}, map[sojourn.ID]bool{}
	if err := eachPart(t, f, func(f sojourn.Filter) error {
		if states, ok := half(f.States, sojourn.State.Live); ok && !onlyFinal(f) {
			if err := findLive(t, f, states, func(j sojourn.Job, data, hand bool) {
				out, hasData[j.ID], inHand[j.ID] = append(out, j), data, hand
			}); err != nil {
				return err
			}
		}
		states, ok := half(f.States, sojourn.State.Final)
		if !ok {
			return nil
		}
		return findFinal(t, f, states, func(j sojourn.Job, data bool) { out, hasData[j.ID] = append(out, j), data })
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b sojourn.Job) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Or(rank[a.ID]-rank[b.ID], cmp.Compare(a.ID, b.ID))
	})
	out = out[:min(len(out), f.Limit)]
	js := &jobview.List{}
	for i := range out {
		j := &out[i]
		if f.Full {
			js.AddFull(j, hasData[j.ID], inHand[j.ID])
		} else {
			js.Add(j, false, false)
		}
	}
	if err := jobview.LastErrors(t, js); err != nil {
		return nil, err
	}
	if f.AwaitedBy > 0 {
		if err := nameChildren(t, f.AwaitedBy, out); err != nil {
			return nil, err
		}
	}
	return out, js.Fill(t)
}

// qNamesOf reads the names of children, the newest stage last.
const qNamesOf = `select child, name from sj_child where parent = $1 and child in (ints($2)) order by generation, stage, name desc`

// nameChildren sets the names of jobs as children of a parent.
func nameChildren(t *txn.Tx, parent sojourn.ID, jobs []sojourn.Job) error {
	ids := make(sqldb.Ints, len(jobs))
	names := map[sojourn.ID]string{}
	for i := range jobs {
		ids[i] = int64(jobs[i].ID)
	}
	if err := t.Read(qNamesOf, func(r sqldb.Row) error { names[sojourn.ID(r.Int(0))] = r.Text(1); return nil }, int64(parent), ids); err != nil {
		return err
	}
	for i := range jobs {
		jobs[i].Name = names[jobs[i].ID]
	}
	return nil
}

// Count counts the jobs that a filter matches, on all pages.
func Count(t *txn.Tx, f sojourn.Filter) (n int, err error) {
	if f, _, err = narrow(t, f); err != nil || f.Empty() {
		return 0, err
	}
	add := func(r sqldb.Row) error { n += int(r.Int(0)); return nil }
	err = eachPart(t, f, func(f sojourn.Filter) error {
		if states, ok := half(f.States, sojourn.State.Live); ok && !onlyFinal(f) {
			q := conditions{}
			q.addFilter("l", f, states)
			if err := t.Read("select count(*)"+from("l", f)+q.clause(), add, q.args...); err != nil {
				return err
			}
		}
		states, ok := half(f.States, sojourn.State.Final)
		if !ok {
			return nil
		}
		q := conditions{}
		q.addFilter("f", f, states)
		return t.Read("select count(*)"+from("f", f)+q.clause(), add, q.args...)
	})
	return n, err
}

// narrow replaces the conditions of a filter that a query cannot express, Next and Key, by ids.
// rank is the order of the ids of Next.
func narrow(t *txn.Tx, f sojourn.Filter) (_ sojourn.Filter, rank map[sojourn.ID]int, err error) {
	if f.Next {
		ids, err := claim.Front(t, f)
		if err != nil {
			return f, nil, err
		}
		rank = make(map[sojourn.ID]int, len(ids))
		f.IDs, f.States = append([]sojourn.ID{}, ids...), []sojourn.State{sojourn.Scheduled, sojourn.Ready, sojourn.Running}
		for i, id := range ids {
			rank[id] = i
		}
	}
	if f.Key == "" || f.Empty() {
		return f, rank, nil
	}
	held := []sojourn.ID{}
	text, args := lifecycle.QKey, []any{f.Kind, f.Key}
	if f.Kind == "" {
		text, args = qKeyOfAnyKind, []any{f.Key}
	}
	err = t.Read(text, func(r sqldb.Row) error {
		if holder := sojourn.ID(r.Int(0)); holder != 0 && (f.IDs == nil || slices.Contains(f.IDs, holder)) {
			held = append(held, holder)
		}
		return nil
	}, args...)
	f.IDs = held
	return f, rank, err
}

// qKeyOfAnyKind walks from kind to kind through the index of sj_key (a loose index scan), so that
// the table needs no second index.
const qKeyOfAnyKind = `with recursive a (kind) as (select min(kind) from sj_key
	union all select (select min(k.kind) from sj_key k where k.kind > a.kind) from a where a.kind is not null)
	select k.job from a join sj_key k on k.kind = a.kind and k.key = $1`

// half returns the wanted states that satisfy is; ok is false if states are wanted and none
// satisfies it.
func half(states []sojourn.State, is func(sojourn.State) bool) (sqldb.Ints, bool) {
	var some sqldb.Ints
	for _, s := range states {
		if is(s) {
			some = append(some, int64(s))
		}
	}
	return some, len(states) == 0 || len(some) > 0
}

// findLive passes on the live jobs of a filter, and whether they have a row in sj_data and taken
// responses.
func findLive(t *txn.Tx, f sojourn.Filter, states sqldb.Ints, add func(j sojourn.Job, data, hand bool)) error {
	q := conditions{}
	q.addFilter("l", f, states)
	args := ""
	if f.Full {
		args = ", j.args"
	}
	text := `select ` + jobrow.LiveColumns + `, ` + txn.JobColumnList + args + from("l", f) + q.page("l", f)
	return t.Read(text, func(r sqldb.Row) error {
		l, err := t.Core.Caches.Decoder.Scan(r)
		if err != nil {
			return err
		}
		var j sojourn.Job
		jobview.Fill(l, &j, t.Core)
		if err := txn.ScanJobHead(r, jobrow.LiveColumnCount).SetOn(&j); err != nil {
			return err
		}
		if f.Full {
			j.Args = r.Bytes(jobrow.LiveColumnCount + txn.JobColumnCount)
		}
		add(j, l.HasData, l.InHand > 0)
		return nil
	}, q.args...)
}

const (
	finalColumns = `f.id, f.queue, f.kind, f.key, f.state, f.priority, f.weight, f.run_at_us, f.generation, f.epoch, f.attempt, f.failures,
		f.crashes, f.has_data, f.finished_us, f.reason, f.result_type, f.error, j.policy, f.stage`
	finalColumnCount = 20
)

// findFinal passes on the final jobs of a filter, and whether they have a row in sj_data.
func findFinal(t *txn.Tx, f sojourn.Filter, states sqldb.Ints, add func(j sojourn.Job, data bool)) error {
	q := conditions{}
	q.addFilter("f", f, states)
	bytes := ""
	if f.Full {
		bytes = ", j.args, f.result"
	}
	text := `select ` + finalColumns + `, ` + txn.JobColumnList + bytes + from("f", f) + q.page("f", f)
	return t.Read(text, func(r sqldb.Row) error {
		j := sojourn.Job{ID: sojourn.ID(r.Int(0)), Queue: r.Text(1), Kind: r.Text(2), Key: r.Text(3), State: sojourn.State(r.Int(4)),
			Priority: int32(r.Int(5)), Weight: int32(r.Int(6)), RunAt: jobrow.Time(r.Int(7)), Instance: t.Core.Instance, Generation: int32(r.Int(8)),
			Epoch: r.Int(9), Attempt: int32(r.Int(10)), Failures: int32(r.Int(11)), Crashes: int32(r.Int(12)),
			FinishedAt: jobrow.Time(r.Int(14)), UpdatedAt: jobrow.Time(r.Int(14)), Reason: r.Text(15), ResultType: r.Text(16), Error: string(r.Bytes(17)), Stage: int32(r.Int(19))}
		var err error
		if j.Policy, err = t.Core.Caches.Decoder.Policy(r.Text(18)); err != nil {
			return err
		}
		if err := txn.ScanJobHead(r, finalColumnCount).SetOn(&j); err != nil {
			return err
		}
		if f.Full {
			j.Args, j.Result = r.Bytes(finalColumnCount+txn.JobColumnCount), r.Bytes(finalColumnCount+txn.JobColumnCount+1)
		}
		add(j, r.Int(13) != 0)
		return nil
	}, q.args...)
}
