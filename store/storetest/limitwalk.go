package storetest

import (
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var walkTrials = []trial{
	{"limit, whatever happens", "No step lifts the summed weight in flight above the limit, but for one job alone that is heavier: enqueues, claims, every outcome, answers early, " +
		"late and twice, cancels, lost leases, waits that end, and a limit that changes.", "spec:K1 spec:K2 spec:K4 inv:T1 inv:T2 inv:T4", limitWalk},
}

// limitWalker takes random steps in one queue.
type limitWalker struct {
	*scene
	limit, groupLimit int64
	jobs              int
	most              int64
	held              []driver.Claimed // with leases that may be lost by now
}

func limitWalk(s *scene) {
	w := &limitWalker{scene: s}
	w.relimit()
	before := w.inHand()
	for step := range 250 {
		name := w.step()
		after := w.inHand()
		what := "step " + strconv.Itoa(step) + " (" + name + ", seed " + strconv.FormatUint(s.seed, 10) + ")"
		w.kept(what+": the queue", w.limit, before[""], after[""])
		for group, load := range inOrder(after) {
			if group != "" {
				w.kept(what+": group "+group, w.groupLimit, before[group], load)
			}
		}
		same(s, what+": what the queue says is in flight", s.queue(line).InFlight, after[""].sum)
		before = after
		w.most = max(w.most, after[""].sum)
	}
	if w.most < 5 {
		s.Fatalf("at most %d in flight: the walk shows nothing (seed %d)", w.most, s.seed)
	}
}

// load is the weight and the number of jobs in flight, in the queue or a group.
type load struct{ sum, jobs int64 }

// kept checks a limit: a step may leave more in flight than it allows, but makes no more of it, and
// one job alone may be heavier.
func (w *limitWalker) kept(what string, limit int64, before, after load) {
	if limit > 0 && after.sum > limit && after.sum > before.sum && after.jobs > 1 {
		w.Fatalf("%s has %d in flight of %d, and had %d", what, after.sum, limit, before.sum)
	}
}

func (w *limitWalker) step() string {
	switch w.random(9) {
	case 0, 1:
		return w.add()
	case 2, 3:
		w.held = append(w.held, w.claimMany(upTo(1+w.random(4)), leased(time.Duration(1+w.random(60))*time.Second))...)
		return "claim"
	case 4, 5:
		return w.end()
	case 6:
		w.respond("k" + strconv.Itoa(w.random(w.jobs+1)))
		return "respond"
	case 7:
		w.advance(time.Duration(w.random(40)) * time.Second)
		w.sweep()
		return "sweep"
	}
	if w.random(2) == 0 {
		w.relimit()
		return "limit"
	}
	_, err := w.store.Edit(w.ctx, sojourn.Filter{Kind: charge, Key: "k" + strconv.Itoa(w.random(w.jobs+1)), Limit: 1}, sojourn.Edit{Action: sojourn.EditCancel})
	if code := sojourn.ErrorCode(err); err != nil && code != sojourn.CodeConflict && code != sojourn.CodeNotFound {
		w.must(err, "Edit")
	}
	return "cancel"
}

func (w *limitWalker) relimit() {
	w.limit, w.groupLimit = int64(w.random(10)), int64(w.random(6))
	w.setQueue(line, sojourn.QueueSettings{Limit: w.limit, GroupLimit: w.groupLimit})
}

func (w *limitWalker) add() string {
	w.jobs++
	j := w.job(sojourn.Weight(int32(w.random(5))), sojourn.Group("g"+strconv.Itoa(w.random(3))), sojourn.Key("k"+strconv.Itoa(w.jobs)), steady(time.Second))
	_, err := w.store.Enqueue(w.ctx, []sojourn.Job{j}, false)
	if sojourn.ErrorCode(err) != sojourn.CodeOversize {
		w.must(err, "Enqueue")
	}
	return "enqueue"
}

// end reports any outcome for any lease, which may be lost.
func (w *limitWalker) end() string {
	if len(w.held) == 0 {
		return "nothing"
	}
	i := w.random(len(w.held))
	c := w.held[i]
	w.held = append(w.held[:i:i], w.held[i+1:]...)
	o := []sojourn.Outcome{completed(c), failure(c), released(c), snooze(c, time.Second), await(c, time.Minute), await(c, 10*time.Second), abort(c)}[w.random(7)]
	_, err := w.store.Finish(w.ctx, []sojourn.Outcome{o})
	w.must(err, "Finish")
	return string(o.Type)
}

// inHand sums the weight that the jobs themselves hold, not the counters of the store: jobs that
// run, await, or are ready again with a response. The queue's sum has no name.
func (w *limitWalker) inHand() map[string]load {
	jobs, err := w.store.Find(w.ctx, sojourn.Filter{Queue: line, States: []sojourn.State{sojourn.Running, sojourn.Awaiting, sojourn.Ready}, Limit: sojourn.MaxFind})
	w.must(err, "Find")
	loads := map[string]load{}
	for _, j := range jobs {
		if j.Weight == 0 || j.State == sojourn.Ready && !j.Resumed {
			continue
		}
		for _, name := range []string{"", j.Group} {
			l := loads[name]
			loads[name] = load{l.sum + int64(j.Weight), l.jobs + 1}
		}
	}
	return loads
}
