package flow

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var flowLifeTrials = []kit.Trial{
	{Name: "limits under random lives", Law: "Whatever happens to jobs and settings, no start makes the weight in flight exceed the limit of its queue, group or share.",
		Covers: "inv:T1 inv:T2 inv:T4 spec:K2 spec:K4", Run: flowLives},
}

// flowLife is a queue with random jobs and random changes of its settings.
type flowLife struct {
	*kit.Scene
	settings sojourn.QueueSettings
	running  []driver.Claimed
	waiting  []string // keys of jobs that may await
	keys     int
	held     map[sojourn.ID]sojourn.Job // in flight, as the case knows
}

func flowLives(s *kit.Scene) {
	f := &flowLife{Scene: s, held: map[sojourn.ID]sojourn.Job{}}
	f.set()
	started := 0
	for range 250 {
		switch s.Random(10) {
		case 0, 1:
			f.put()
		case 2, 3, 4:
			started += f.take()
		case 5, 6:
			f.end()
		case 7:
			f.answer()
		case 8:
			s.Advance(time.Duration(s.Random(20)) * time.Second)
			s.Sweep()
			f.look()
		case 9:
			if s.Random(4) == 0 {
				f.set()
			}
		}
	}
	if started < 20 {
		s.Fatalf("only %d jobs have started: the case shows nothing", started)
	}
}

func (f *flowLife) set() {
	f.settings = sojourn.QueueSettings{Limit: int64(f.Random(12)), GroupLimit: int64(f.Random(6)), ReserveAfter: time.Minute}
	if f.settings.Limit > 0 && f.Random(3) == 0 {
		f.settings.Shares = map[string]float64{"a": .5, "b": .25}
		f.settings.Borrow = f.Random(2) == 0
	}
	if f.Random(4) == 0 {
		f.settings = sojourn.QueueSettings{Order: sojourn.OrderTime}
	}
	f.SetQueue(kit.Queue, f.settings)
}

func (f *flowLife) put() {
	for range 1 + f.Random(5) {
		f.keys++
		j := f.Job(sojourn.Weight(int32(f.Random(5))), sojourn.Group([]string{"", "a", "b", "c"}[f.Random(4)]), sojourn.Key(fmt.Sprint("k", f.keys)),
			sojourn.Priority(int32(f.Random(3))), kit.Steady(time.Duration(f.Random(10))*time.Second))
		es, err := f.Store.Enqueue(f.Ctx, []sojourn.Job{j}, true)
		f.Must(err, "Enqueue")
		if es[0].Err != nil {
			f.Refused(es[0].Err, sojourn.CodeOversize, "a job that fits")
		}
	}
}

// take claims, and holds each start against the settings.
func (f *flowLife) take() int {
	before := f.look()
	cs := f.ClaimMany(kit.UpTo(1+f.Random(5)), kit.Deciding)
	starts := 0
	for _, c := range cs {
		f.running = append(f.running, c)
		f.waiting = append(f.waiting, c.Job.Key)
		if c.Purpose == sojourn.PurposeStart && c.Job.Weight > 0 {
			starts++
		}
	}
	if starts == 0 {
		return len(cs)
	}
	after := f.look()
	used, group := map[string]int64{}, map[string]int64{}
	jobs := map[string]int{}
	for _, j := range f.held {
		used[""] += int64(j.Weight)
		group[j.Group] += int64(j.Weight)
		jobs[j.Group]++
	}
	if l := f.settings.Limit; l > 0 && after > l && before > 0 {
		f.Fatalf("%d in flight after a claim that began at %d, the limit is %d", after, before, l)
	}
	for _, c := range cs {
		g := c.Job.Group
		if l := f.settings.GroupLimit; c.Purpose == sojourn.PurposeStart && c.Job.Weight > 0 && l > 0 && g != "" && group[g] > l && jobs[g] > 1 {
			f.Fatalf("group %s has %d in flight of %d after job %d started", g, group[g], l, c.Job.ID)
		}
		if f.settings.Borrow || len(f.settings.Shares) == 0 || f.settings.Shares[g] == 0 || c.Purpose != sojourn.PurposeStart || c.Job.Weight == 0 {
			continue
		}
		if of := rules.ShareOf(f.settings, g); group[g] > of && jobs[g] > 1 {
			f.Fatalf("group %s has %d in flight of its share of %d after job %d started", g, group[g], of, c.Job.ID)
		}
	}
	return len(cs)
}

// look sums the weight in flight of the jobs, and wants the queue to report the same.
func (f *flowLife) look() (sum int64) {
	f.held = map[sojourn.ID]sojourn.Job{}
	jobs, err := f.Store.Find(f.Ctx, sojourn.Filter{Queue: kit.Queue, Limit: sojourn.MaxFind,
		States: []sojourn.State{sojourn.Running, sojourn.Awaiting, sojourn.Ready}})
	f.Must(err, "Find")
	for _, j := range jobs {
		if j.State == sojourn.Ready && !j.Resumed || j.Purpose == sojourn.PurposeDecide || j.Weight == 0 {
			continue
		}
		f.held[j.ID] = j
		sum += int64(j.Weight)
	}
	f.InFlight(sum, "the sum over the jobs")
	return sum
}

func (f *flowLife) end() {
	if len(f.running) == 0 {
		return
	}
	i := f.Random(len(f.running))
	c := f.running[i]
	f.running = append(f.running[:i], f.running[i+1:]...)
	switch f.Random(7) {
	case 0, 1:
		f.Report(kit.Completed(c))
	case 2:
		f.Report(kit.Failure(c))
	case 3:
		f.Report(kit.Snooze(c, time.Duration(f.Random(20))*time.Second))
	case 4:
		f.Report(kit.Released(c))
	case 5:
		f.Report(kit.Await(c, time.Duration(1+f.Random(60))*time.Second))
	case 6:
		_, err := f.Store.Edit(f.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditCancel})
		f.Must(err, "Edit")
	}
}

func (f *flowLife) answer() {
	if len(f.waiting) == 0 {
		return
	}
	f.Messages++
	_, err := f.Store.Respond(f.Ctx, []sojourn.Response{{Kind: kit.Kind, Key: f.waiting[f.Random(len(f.waiting))], MessageID: fmt.Sprint("flow", f.Messages)}})
	f.Must(err, "Respond")
}
