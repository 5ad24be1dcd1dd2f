package flow

import (
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var walkTrials = []kit.Trial{
	{Name: "limit, whatever happens", Law: "No step lifts the summed weight in flight above the limit, but for one job alone that is heavier: enqueues, claims, every outcome, answers early, " +
		"late and twice, cancels, lost leases, waits that end, and a limit that changes.", Covers: "spec:K1 spec:K2 spec:K4 inv:T1 inv:T2 inv:T4", Run: limitWalk},
}

// limitWalker takes random steps in one queue.
type limitWalker struct {
	*kit.Scene
	limit, groupLimit int64
	jobs              int
	most              int64
	held              []driver.Claimed // with leases that may be lost by now
}

func limitWalk(s *kit.Scene) {
	w := &limitWalker{Scene: s}
	w.relimit()
	before := w.taken()
	for step := range 250 {
		name := w.step()
		after := w.taken()
		what := "step " + strconv.Itoa(step) + " (" + name + ", seed " + strconv.FormatUint(s.Seed, 10) + ")"
		w.kept(what+": the queue", w.limit, before[""], after[""])
		for group, load := range kit.InOrder(after) {
			if group != "" {
				w.kept(what+": group "+group, w.groupLimit, before[group], load)
			}
		}
		kit.Same(s, what+": what the queue says is in flight", s.Queue(kit.Queue).InFlight, after[""].sum)
		before = after
		w.most = max(w.most, after[""].sum)
	}
	if w.most < 5 {
		s.Fatalf("at most %d in flight: the walk shows nothing (seed %d)", w.most, s.Seed)
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
	switch w.Random(9) {
	case 0, 1:
		return w.add()
	case 2, 3:
		w.held = append(w.held, w.ClaimMany(kit.UpTo(1+w.Random(4)), kit.Leased(time.Duration(1+w.Random(60))*time.Second))...)
		return "claim"
	case 4, 5:
		return w.end()
	case 6:
		w.Respond("k" + strconv.Itoa(w.Random(w.jobs+1)))
		return "respond"
	case 7:
		w.Advance(time.Duration(w.Random(40)) * time.Second)
		w.Sweep()
		return "sweep"
	}
	if w.Random(2) == 0 {
		w.relimit()
		return "limit"
	}
	_, err := w.Store.Edit(w.Ctx, sojourn.Filter{Kind: kit.Kind, Key: "k" + strconv.Itoa(w.Random(w.jobs+1)), Limit: 1}, sojourn.Edit{Action: sojourn.EditCancel})
	if code := sojourn.ErrorCode(err); err != nil && code != sojourn.CodeConflict && code != sojourn.CodeNotFound {
		w.Must(err, "Edit")
	}
	return "cancel"
}

func (w *limitWalker) relimit() {
	w.limit, w.groupLimit = int64(w.Random(10)), int64(w.Random(6))
	w.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: w.limit, GroupLimit: w.groupLimit})
}

func (w *limitWalker) add() string {
	w.jobs++
	j := w.Job(sojourn.Weight(int32(w.Random(5))), sojourn.Group("g"+strconv.Itoa(w.Random(3))), sojourn.Key("k"+strconv.Itoa(w.jobs)), kit.Steady(time.Second))
	_, err := w.Store.Enqueue(w.Ctx, []sojourn.Job{j}, false)
	if sojourn.ErrorCode(err) != sojourn.CodeOversize {
		w.Must(err, "Enqueue")
	}
	return "enqueue"
}

// end reports any outcome for any lease, which may be lost.
func (w *limitWalker) end() string {
	if len(w.held) == 0 {
		return "nothing"
	}
	i := w.Random(len(w.held))
	c := w.held[i]
	w.held = append(w.held[:i:i], w.held[i+1:]...)
	o := []sojourn.Outcome{kit.Completed(c), kit.Failure(c), kit.Released(c), kit.Snooze(c, time.Second), kit.Await(c, time.Minute), kit.Await(c, 10*time.Second), kit.Abort(c)}[w.Random(7)]
	_, err := w.Store.Finish(w.Ctx, []sojourn.Outcome{o})
	w.Must(err, "Finish")
	return string(o.Type)
}

// taken sums the weight that the jobs themselves hold, not the counters of the store: jobs that
// run, await, or are ready again with a response. The queue's sum has no name.
func (w *limitWalker) taken() map[string]load {
	jobs, err := w.Store.Find(w.Ctx, sojourn.Filter{Queue: kit.Queue, States: []sojourn.State{sojourn.Running, sojourn.Awaiting, sojourn.Ready}, Limit: sojourn.MaxFind})
	w.Must(err, "Find")
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
