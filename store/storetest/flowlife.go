package storetest

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

var flowLifeTrials = []trial{
	{"limits under random lives", "Whatever happens to jobs and settings, no start makes the weight in flight exceed the limit of its queue, group or share.",
		"inv:T1 inv:T2 inv:T4 spec:K2 spec:K4", flowLives},
}

// flowLife is a queue with random jobs and random changes of its settings.
type flowLife struct {
	*scene
	settings sojourn.QueueSettings
	running  []driver.Claimed
	waiting  []string // keys of jobs that may await
	keys     int
	held     map[sojourn.ID]sojourn.Job // in flight, as the case knows
}

func flowLives(s *scene) {
	f := &flowLife{scene: s, held: map[sojourn.ID]sojourn.Job{}}
	f.set()
	started := 0
	for range 250 {
		switch s.random(10) {
		case 0, 1:
			f.put()
		case 2, 3, 4:
			started += f.take()
		case 5, 6:
			f.end()
		case 7:
			f.answer()
		case 8:
			s.advance(time.Duration(s.random(20)) * time.Second)
			s.sweep()
			f.look()
		case 9:
			if s.random(4) == 0 {
				f.set()
			}
		}
	}
	if started < 20 {
		s.Fatalf("only %d jobs have started: the case shows nothing", started)
	}
}

func (f *flowLife) set() {
	f.settings = sojourn.QueueSettings{Limit: int64(f.random(12)), GroupLimit: int64(f.random(6)), ReserveAfter: time.Minute}
	if f.settings.Limit > 0 && f.random(3) == 0 {
		f.settings.Shares = map[string]float64{"a": .5, "b": .25}
		f.settings.Borrow = f.random(2) == 0
	}
	if f.random(4) == 0 {
		f.settings = sojourn.QueueSettings{Order: sojourn.OrderTime}
	}
	f.setQueue(line, f.settings)
}

func (f *flowLife) put() {
	for range 1 + f.random(5) {
		f.keys++
		j := f.job(sojourn.Weight(int32(f.random(5))), sojourn.Group([]string{"", "a", "b", "c"}[f.random(4)]), sojourn.Key(fmt.Sprint("k", f.keys)),
			sojourn.Priority(int32(f.random(3))), steady(time.Duration(f.random(10))*time.Second))
		es, err := f.store.Enqueue(f.ctx, []sojourn.Job{j}, true)
		f.must(err, "Enqueue")
		if es[0].Err != nil {
			f.refused(es[0].Err, sojourn.CodeOversize, "a job that fits")
		}
	}
}

// take claims, and holds each start against the settings.
func (f *flowLife) take() int {
	before := f.look()
	cs := f.claimMany(upTo(1+f.random(5)), deciding)
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
	jobs, err := f.store.Find(f.ctx, sojourn.Filter{Queue: line, Limit: sojourn.MaxFind,
		States: []sojourn.State{sojourn.Running, sojourn.Awaiting, sojourn.Ready}})
	f.must(err, "Find")
	for _, j := range jobs {
		if j.State == sojourn.Ready && !j.Resumed || j.Purpose == sojourn.PurposeDecide || j.Weight == 0 {
			continue
		}
		f.held[j.ID] = j
		sum += int64(j.Weight)
	}
	f.inFlight(sum, "the sum over the jobs")
	return sum
}

func (f *flowLife) end() {
	if len(f.running) == 0 {
		return
	}
	i := f.random(len(f.running))
	c := f.running[i]
	f.running = append(f.running[:i], f.running[i+1:]...)
	switch f.random(7) {
	case 0, 1:
		f.report(completed(c))
	case 2:
		f.report(failure(c))
	case 3:
		f.report(snooze(c, time.Duration(f.random(20))*time.Second))
	case 4:
		f.report(released(c))
	case 5:
		f.report(await(c, time.Duration(1+f.random(60))*time.Second))
	case 6:
		_, err := f.store.Edit(f.ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditCancel})
		f.must(err, "Edit")
	}
}

func (f *flowLife) answer() {
	if len(f.waiting) == 0 {
		return
	}
	f.messages++
	_, err := f.store.Respond(f.ctx, []sojourn.Response{{Kind: charge, Key: f.waiting[f.random(len(f.waiting))], MessageID: fmt.Sprint("flow", f.messages)}})
	f.must(err, "Respond")
}
