package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// look compares the jobs that the last call has touched, and the workflows.
func (r *run) look() {
	lookAtJobs(r)
	wholes{r}.areAsTheyMustBe()
}

func lookAtJobs(r *run) {
	if len(r.m.Touched) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(r.m.Touched))
	f := sojourn.Filter{IDs: ids, Full: true, Limit: len(ids)}
	for _, id := range ids {
		if j := r.m.Jobs[id]; j != nil {
			f.States = append(f.States, j.State) // with states the store reads faster
		}
	}
	found, err := find(r, f)
	if err == nil && len(found) != len(f.States) { // read again for the error report
		f.States = nil
		found, err = r.store.Find(r.ctx, f)
	}
	if err != nil {
		r.fail("Find: %v", err)
	}
	r.compare(ids, found)
}

// find reads jobs. After a call that has ended jobs with dependents at several levels it waits
// until the store has decided all of them.
func find(r *run, f sojourn.Filter) (found []sojourn.Job, err error) {
	for tries := 0; ; time.Sleep(time.Millisecond) {
		found, err = r.store.Find(r.ctx, f)
		same := len(found) == len(f.States)
		for i := range found {
			w := r.m.Jobs[found[i].ID]
			same = same && w != nil && model.Shown(&found[i]) == r.m.Shows(w)
		}
		if tries++; err != nil || same || !r.m.Edges.Deep || tries > r.patience {
			return found, err
		}
	}
}

// compare wants exactly these jobs to be stored, as the model has them.
func (r *run) compare(ids []sojourn.ID, found []sojourn.Job) {
	stored := map[sojourn.ID]*sojourn.Job{}
	for i := range found {
		stored[found[i].ID] = &found[i]
	}
	for _, id := range ids {
		want, got := r.m.Jobs[id], stored[id]
		switch {
		case want == nil && got == nil:
			continue
		case want == nil:
			r.fail("job %d is stored, and should not be", id)
		case got == nil:
			r.fail("job %d is lost (inv:A1)", id)
		}
		if d := r.ledger.seen(got); d != "" {
			r.fail("%s", d)
		}
		if g, w := model.Shown(got), r.m.Shows(want); g != w {
			r.fail("job %d is not as it must be\n%s", id, model.Difference(g, w))
		}
	}
}

// audit compares everything that the store holds, and lets it check itself.
func (r *run) audit() {
	r.tick()
	var found []sojourn.Job
	for after := ""; ; {
		page, err := r.store.Find(r.ctx, sojourn.Filter{After: after, Limit: sojourn.MaxFind, Full: true})
		if err != nil {
			r.fail("Find: %v", err)
		}
		if found = append(found, page...); len(page) == 0 {
			break
		}
		after = page[len(page)-1].ID.String()
	}
	found = slices.DeleteFunc(found, func(j sojourn.Job) bool { return j.Queue == tickQueue || j.Queue == callbackQueue })
	scheduler{r}.ticksAre(false)
	ids := slices.Collect(maps.Keys(r.m.Jobs))
	for _, j := range found {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	r.compare(slices.Compact(ids), found)
	r.alone(found)
	r.queuesAre(found)
	r.inboxIs()
	wholes{r}.membersAre()
	for i, j := range r.m.Ordered() {
		if i%3 == r.n(3) || r.calm {
			r.historyIs(j)
			edgesAre(r, j)
		}
	}
	if c, ok := r.store.Store.(driver.Checker); ok {
		found, err := c.Check(r.ctx)
		if err != nil {
			r.fail("Check: %v", err)
		}
		found = slices.DeleteFunc(found, func(v driver.Violation) bool { return v.Check == "nothing-overdue" }) // the clock leaps, and sweeps are rare
		if len(found) > 0 {
			r.fail("the store's own checks found %v", found)
		}
	}
}

// alone looks for two live jobs with one key.
func (r *run) alone(found []sojourn.Job) {
	owners := map[model.Name]sojourn.ID{}
	for _, j := range found {
		n := model.Name{Kind: j.Kind, Key: j.Key}
		if !j.State.Live() || j.Key == "" {
			continue
		}
		if other := owners[n]; other != 0 {
			r.fail("jobs %d and %d are live with the key %q (inv:U1)", other, j.ID, j.Key)
		}
		owners[n] = j.ID
	}
}

// queuesAre compares the counts of the queues, and the weight in flight, with the jobs themselves.
func (r *run) queuesAre(found []sojourn.Job) {
	list, err := r.store.Queues(r.ctx)
	if err != nil {
		r.fail("Queues: %v", err)
	}
	counts, flight := map[string]map[sojourn.State]int64{}, map[string]int64{}
	for _, j := range found {
		if counts[j.Queue] == nil {
			counts[j.Queue] = map[sojourn.State]int64{}
		}
		counts[j.Queue][j.State]++
		if j.State == sojourn.Running && j.Purpose != sojourn.PurposeDecide || j.State == sojourn.Awaiting || j.Resumed {
			flight[j.Queue] += int64(j.Weight)
		}
	}
	for _, q := range list {
		if q.Name == tickQueue || q.Name == callbackQueue {
			continue
		}
		if !maps.Equal(q.Counts, counts[q.Name]) || q.InFlight != flight[q.Name] {
			r.fail("queue %s counts %v with %d in flight, its jobs are %v with %d (inv:T2)", q.Name, q.Counts, q.InFlight, counts[q.Name], flight[q.Name])
		}
		delete(counts, q.Name)
	}
	if len(counts) > 0 {
		r.fail("there are jobs in queues that are not listed: %v", counts)
	}
}

// inboxIs compares every response.
func (r *run) inboxIs() {
	rs, err := r.store.Inbox(r.ctx, sojourn.InboxFilter{Limit: sojourn.MaxFind})
	if err != nil {
		r.fail("Inbox: %v", err)
	}
	want := r.m.Inbox.Responses(func(*model.Message) bool { return true })
	slices.Reverse(want)
	if len(rs) != len(want) {
		r.fail("the inbox has %d responses, want %d", len(rs), len(want))
	}
	for i, w := range want {
		if g := rs[i]; g.Seq != w.Seq || g.MessageID != w.Response.MessageID || g.Progress != w.Response.Progress || g.Outcome != w.Outcome || g.Job != w.Job ||
			g.Duplicates != w.Duplicates || g.Replay != w.Replay {
			r.fail("the inbox has response %d (%s) as %s of job %d, %d times more, replay %d, want %d (%s) as %s of job %d, %d times more, replay %d",
				g.Seq, g.MessageID, g.Outcome, g.Job, g.Duplicates, g.Replay, w.Seq, w.Response.MessageID, w.Outcome, w.Job, w.Duplicates, w.Replay)
		}
	}
}

func (r *run) historyIs(j *model.Job) {
	got, err := r.store.History(r.ctx, j.ID, 0, sojourn.MaxFind)
	if err != nil {
		r.fail("History of %d: %v", j.ID, err)
	}
	if len(got) != len(j.History) {
		r.fail("job %d has %d entries of history, want %d", j.ID, len(got), len(j.History))
	}
	for i, e := range j.History {
		g := got[i]
		is := model.Entry{Generation: g.Generation, Stage: g.Stage, Attempt: g.Attempt, Epoch: g.Epoch, Purpose: g.Purpose, Worker: g.Worker,
			Outcome: g.Outcome, State: g.State, Reason: g.Reason, Ended: model.Micros(g.EndedAt)}
		e.Text = ""
		if is != e || g.Seq != int32(i+1) {
			r.fail("history of job %d, entry %d is %+v, want %+v", j.ID, i+1, is, e)
		}
	}
}
