package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// carriedColumns are the columns of sj_job for the worker, without the args, which may follow them;
// scanCarried reads them all.
const ()

const ()

// Find lists jobs; see driver.Store.
func (s *reader) Find(ctx context.Context, f sojourn.Filter) ([]sojourn.Job, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	if len(f.IDs) == 0 {
		f.Wait = 0
	}
	looking := ctx
	if f.Wait > 0 {
		var cancel context.CancelFunc
		looking, cancel = context.WithTimeout(ctx, min(f.Wait, sojourn.MaxWait))
		defer cancel()
	}
	var found []sojourn.Job
	err := s.hub.block(ctx, &waiter{ids: f.IDs}, f.Wait, func() (bool, error) {
		err := s.core.view(looking, func(t *tx) (err error) {
			if found, err = t.find(f); err == nil && reportsFinal(f, found) {
				t.readDurably()
			}
			return err
		})
		if err != nil && ctx.Err() == nil && looking.Err() != nil {
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
func (t *tx) readDurably() {
	if d, ok := t.Conn.(sqldb.DurableReader); ok {
		d.ReadDurably()
	}
}

// narrow replaces the conditions of a filter that a query cannot express, Next and Key, by ids.
// rank is the order of the ids of Next.
func (t *tx) narrow(f sojourn.Filter) (_ sojourn.Filter, rank map[sojourn.ID]int, err error) {
	if f.Next {
		ids, err := t.next(f)
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
	err = t.query(qKey, func(r sqldb.Row) error {
		if holder := sojourn.ID(r.Int(0)); holder != 0 && (f.IDs == nil || slices.Contains(f.IDs, holder)) {
			held = append(held, holder)
		}
		return nil
	}, f.Kind, f.Key)
	f.IDs = held
	return f, rank, err
}

// count counts the jobs that a filter matches, on all pages.
func (t *tx) count(f sojourn.Filter) (n int, err error) {
	if f, _, err = t.narrow(f); err != nil || f.Empty() {
		return 0, err
	}
	add := func(r sqldb.Row) error { n += int(r.Int(0)); return nil }
	if states, ok := half(f.States, sojourn.State.Live); ok && f.Reason == "" {
		q := where{}
		q.common("l", f, states)
		if err := t.query(`select count(*) from sj_live l join sj_job j on j.id = l.id`+q.clause(), add, q.args...); err != nil {
			return 0, err
		}
	}
	if states, ok := half(f.States, sojourn.State.Final); ok {
		q := where{}
		q.common("f", f, states)
		if f.Reason != "" {
			q.add("f.reason = %s", f.Reason)
		}
		err = t.query(`select count(*) from sj_final f join sj_job j on j.id = f.id`+q.clause(), add, q.args...)
	}
	return n, err
}

// find reads the two halves, live and final, and merges them by id.
func (t *tx) find(f sojourn.Filter) ([]sojourn.Job, error) {
	f, rank, err := t.narrow(f)
	if err != nil || f.Empty() {
		return nil, err
	}
	var out []sojourn.Job
	hasData, inHand := map[sojourn.ID]bool{}, map[sojourn.ID]bool{}
	if states, ok := half(f.States, sojourn.State.Live); ok && f.Reason == "" {
		if err := t.findLive(f, states, func(j sojourn.Job, data, hand bool) {
			out, hasData[j.ID], inHand[j.ID] = append(out, j), data, hand
		}); err != nil {
			return nil, err
		}
	}
	if states, ok := half(f.States, sojourn.State.Final); ok {
		if err := t.findFinal(f, states, func(j sojourn.Job, data bool) { out, hasData[j.ID] = append(out, j), data }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b sojourn.Job) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Or(rank[a.ID]-rank[b.ID], cmp.Compare(a.ID, b.ID))
	})
	out = out[:min(len(out), f.Limit)]
	js := &jobs{}
	for i := range out {
		j := &out[i]
		if f.Full {
			js.addFull(j, hasData[j.ID], inHand[j.ID])
		} else {
			js.add(j, false, false)
		}
	}
	if err := t.lastErrors(js); err != nil {
		return nil, err
	}
	return out, t.fill(js)
}

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

func (t *tx) findLive(f sojourn.Filter, states sqldb.Ints, add func(j sojourn.Job, data, hand bool)) error {
	q := where{}
	q.common("l", f, states)
	args := ""
	if f.Full {
		args = ", j.args"
	}
	text := `select ` + liveColumns + `, ` + carriedColumns + args + ` from sj_live l join sj_job j on j.id = l.id` + q.text("l", f)
	return t.query(text, func(r sqldb.Row) error {
		l, err := t.s.decoder.scan(r)
		if err != nil {
			return err
		}
		var j sojourn.Job
		l.job(&j, t.s)
		if err := scanHead(r, liveColumnCount).give(&j); err != nil {
			return err
		}
		if f.Full {
			j.Args = r.Bytes(liveColumnCount + carriedCount)
		}
		add(j, l.hasData, l.InHand > 0)
		return nil
	}, q.args...)
}

const finalColumns = `f.id, f.queue, f.kind, f.key, f.state, f.priority, f.weight, f.run_at_us, f.generation, f.epoch, f.attempt, f.failures,
	f.crashes, f.has_data, f.finished_us, f.reason, f.result_type, f.error, j.policy`

const finalColumnCount = 19

func (t *tx) findFinal(f sojourn.Filter, states sqldb.Ints, add func(j sojourn.Job, data bool)) error {
	q := where{}
	q.common("f", f, states)
	if f.Reason != "" {
		q.add("f.reason = %s", f.Reason)
	}
	bytes := ""
	if f.Full {
		bytes = ", j.args, f.result"
	}
	text := `select ` + finalColumns + `, ` + carriedColumns + bytes + ` from sj_final f join sj_job j on j.id = f.id` + q.text("f", f)
	return t.query(text, func(r sqldb.Row) error {
		j := sojourn.Job{ID: sojourn.ID(r.Int(0)), Queue: r.Text(1), Kind: r.Text(2), Key: r.Text(3), State: sojourn.State(r.Int(4)),
			Priority: int32(r.Int(5)), Weight: int32(r.Int(6)), RunAt: at(r.Int(7)), Instance: t.s.instance, Generation: int32(r.Int(8)),
			Epoch: r.Int(9), Attempt: int32(r.Int(10)), Failures: int32(r.Int(11)), Crashes: int32(r.Int(12)),
			FinishedAt: at(r.Int(14)), UpdatedAt: at(r.Int(14)), Reason: r.Text(15), ResultType: r.Text(16), Error: string(r.Bytes(17))}
		var err error
		if j.Policy, err = t.s.decoder.policy(r.Text(18)); err != nil {
			return err
		}
		if err := scanHead(r, finalColumnCount).give(&j); err != nil {
			return err
		}
		if f.Full {
			j.Args, j.Result = r.Bytes(finalColumnCount+carriedCount), r.Bytes(finalColumnCount+carriedCount+1)
		}
		add(j, r.Int(13) != 0)
		return nil
	}, q.args...)
}

// common adds the conditions for both live and final jobs; a is the alias of the table.
func (w *where) common(a string, f sojourn.Filter, states sqldb.Ints) {
	if f.IDs != nil {
		ids := make(sqldb.Ints, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = int64(id)
		}
		w.add(a+".id in (ints(%s))", ids)
	}
	if len(states) > 0 {
		w.add(a+".state in (ints(%s))", states)
	}
	for _, c := range []struct{ cond, v string }{{a + ".kind = %s", f.Kind}, {a + ".queue = %s", f.Queue}, {"j.grp = %s", f.Group}} {
		if c.v != "" {
			w.add(c.cond, c.v)
		}
	}
	if f.Tag != "" && sojourn.ValidName("tag", f.Tag) != nil {
		w.add("1 = %s", 0) // no job has it
	} else if f.Tag != "" { // tags are stored as a JSON list of names, which have no character to escape but _
		w.add(`j.tags like %s escape '!'`, `%"`+strings.ReplaceAll(f.Tag, "_", "!_")+`"%`)
	}
	if us := micros(f.CreatedAfter); us != 0 {
		w.add("j.created_us > %s", us)
	}
	if us := micros(f.CreatedBefore); us != 0 {
		w.add("j.created_us < %s", us)
	}
	after, _ := strconv.ParseInt(f.After, 10, 64) // Validate has refused other cursors
	if after > 0 && f.Newest {
		w.add(a+".id < %s", after)
	} else if after > 0 {
		w.add(a+".id > %s", after)
	}
}

func (w *where) text(a string, f sojourn.Filter) string {
	order := " order by " + a + ".id"
	if f.Newest {
		order += " desc"
	}
	w.args = append(w.args, f.Limit)
	order += fmt.Sprintf(" limit $%d", len(w.args))
	return w.clause() + order
}
