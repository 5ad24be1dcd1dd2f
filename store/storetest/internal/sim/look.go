package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// look compares the jobs that the last call has touched.
func (r *run) look() {
	if len(r.m.touched) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(r.m.touched))
	f := sojourn.Filter{IDs: ids, Full: true, Limit: len(ids)}
	for _, id := range ids {
		if j := r.m.jobs[id]; j != nil {
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
			w := r.m.jobs[found[i].ID]
			same = same && w != nil && shown(&found[i]) == r.m.shows(w)
		}
		if tries++; err != nil || same || !r.m.edges.deep || tries > patience {
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
		want, got := r.m.jobs[id], stored[id]
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
		if g, w := shown(got), r.m.shows(want); g != w {
			r.fail("job %d is not as it must be\n%s", id, difference(g, w))
		}
	}
}

// difference names the fields that differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			out = append(out, "  is "+g[i]+", want "+w[i])
		}
	}
	return strings.Join(out, "\n")
}

const form = `state %s resumed %v waits for %d purpose %s worker %q
generation %d stage %d epoch %d attempt %d
failures %d crashes %d
kept %d in hand %v
awaits %s
kind %s queue %s key %q priority %d weight %d
args %q
checkpoint %q progress %q
result %q reason %q
run at %v
wakes at %v
updated at %v finished at %v`

// shown is a job as the store shows it.
func shown(j *sojourn.Job) string {
	var hand []string
	for _, m := range j.Responses {
		hand = append(hand, m.MessageID)
	}
	return fmt.Sprintf(form, j.State, j.Resumed, j.WaitsFor, j.Purpose, j.Worker, j.Generation, j.Stage, j.Epoch, j.Attempt, j.Failures, j.Crashes, j.Kept, hand,
		awaits(j.Waiting), j.Kind, j.Queue, j.Key, j.Priority, j.Weight, j.Args, j.Checkpoint, j.Progress, j.Result, j.Reason,
		micros(j.RunAt), micros(j.WakeAt), micros(j.UpdatedAt), micros(j.FinishedAt))
}

// shows is a job as the model has it.
func (m *model) shows(j *job) string {
	var hand []string
	for _, r := range m.inHand(j.ID) {
		hand = append(hand, r.r.MessageID)
	}
	worker, reason := "", j.reason
	if j.State == sojourn.Running {
		worker = j.worker
	}
	if j.State.Live() {
		reason = j.lastReason()
	}
	wake := j.wakeAt()
	if wake == math.MaxInt64 {
		wake = 0
	}
	return fmt.Sprintf(form, j.State, j.Resumed, j.WaitsFor, j.Purpose, worker, j.generation, j.Stage, j.epoch, j.Attempt, j.Failures, j.Crashes, j.Kept, hand,
		awaits(m.awaits(j)), j.kind, j.queue, j.key, j.priority, j.Weight, j.args, j.checkpoint, j.progress, j.result, reason, j.runAt, wake, j.updated, j.finished)
}

func awaits(a *sojourn.Waiting) string {
	if a == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of %q, answered %q, until %d, beat %d, poll %d after %d", a.Mode, a.Keys, a.Answered, micros(a.Until), micros(a.Beat), micros(a.Poll), a.Polls)
}

func (m *model) awaits(j *job) *sojourn.Waiting {
	if j.State != sojourn.Awaiting && j.Purpose != sojourn.PurposePoll {
		return nil
	}
	a := sojourn.Waiting{Mode: j.Wait.Mode, Keys: j.Wait.Keys, Polls: j.Wait.Polls}
	if len(a.Keys) == 0 && j.key != "" {
		a.Keys = []string{j.key}
	}
	for _, r := range m.kept(j.ID) {
		if slices.Contains(a.Keys, r.r.Key) && !slices.Contains(a.Answered, r.r.Key) {
			a.Answered = append(a.Answered, r.r.Key)
		}
	}
	for _, t := range []struct {
		us int64
		to *time.Time
	}{{j.waitUntil, &a.Until}, {j.beatUntil, &a.Beat}, {j.pollAt, &a.Poll}} {
		if t.us > 0 {
			*t.to = time.UnixMicro(t.us)
		}
	}
	return &a
}

// lastReason is the reason for the end of a live job's last attempt.
func (j *job) lastReason() string {
	if j.Failures+j.Crashes == 0 {
		return ""
	}
	for _, e := range slices.Backward(j.history) {
		if e.generation == j.generation && e.stage == j.Stage && e.reason != "" && slices.Contains([]string{"error", "await", "lost", "timed_out", "responded"}, e.outcome) {
			return e.reason
		}
	}
	return ""
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
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
	ids := slices.Collect(maps.Keys(r.m.jobs))
	for _, j := range found {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	r.compare(slices.Compact(ids), found)
	r.alone(found)
	r.queuesAre(found)
	r.inboxIs()
	for i, j := range r.m.ordered() {
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
	owners := map[name]sojourn.ID{}
	for _, j := range found {
		n := name{j.Kind, j.Key}
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
	want := r.m.responses(func(*message) bool { return true })
	slices.Reverse(want)
	if len(rs) != len(want) {
		r.fail("the inbox has %d responses, want %d", len(rs), len(want))
	}
	for i, w := range want {
		if g := rs[i]; g.Seq != w.seq || g.MessageID != w.r.MessageID || g.Progress != w.r.Progress || g.Outcome != w.outcome || g.Job != w.job ||
			g.Duplicates != w.duplicates || g.Replay != w.replay {
			r.fail("the inbox has response %d (%s) as %s of job %d, %d times more, replay %d, want %d (%s) as %s of job %d, %d times more, replay %d",
				g.Seq, g.MessageID, g.Outcome, g.Job, g.Duplicates, g.Replay, w.seq, w.r.MessageID, w.outcome, w.job, w.duplicates, w.replay)
		}
	}
}

func (r *run) historyIs(j *job) {
	got, err := r.store.History(r.ctx, j.ID, 0, sojourn.MaxFind)
	if err != nil {
		r.fail("History of %d: %v", j.ID, err)
	}
	if len(got) != len(j.history) {
		r.fail("job %d has %d entries of history, want %d", j.ID, len(got), len(j.history))
	}
	for i, e := range j.history {
		g := got[i]
		is := entry{g.Generation, g.Stage, g.Attempt, g.Epoch, g.Purpose, g.Worker, g.Outcome, g.State, g.Reason, "", micros(g.EndedAt)}
		e.text = ""
		if is != e || g.Seq != int32(i+1) {
			r.fail("history of job %d, entry %d is %+v, want %+v", j.ID, i+1, is, e)
		}
	}
}
