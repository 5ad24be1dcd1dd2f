package rules

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// broken names the law that a state breaks.
func (sc *worldScene) broken(w *world) string {
	sum, owners := int32(0), map[string]bool{}
	for j := range w.jobs {
		b := &w.jobs[j]
		if !b.there {
			continue
		}
		sum += b.row.Held
		if b.row.State.Live() {
			for _, k := range slices.Compact(slices.Sorted(slices.Values(append([]string{sc.keys[j]}, b.row.Wait.Keys...)))) {
				if owners[k] {
					return "two live jobs have one key"
				}
				owners[k] = true
			}
		}
		if b.row.State == sojourn.Failed && !b.started && b.row.Crashes > 0 && sc.budget[dies] == 0 && sc.budget[leases] == 0 {
			return "a job has failed, and no handler was ever started, and no worker has died"
		}
		for i := range sc.sent {
			switch {
			case b.at[i] == held && int(w.arrived[i]) != j+1 && w.arrived[i] != 4:
				return "a job has the answer to another one"
			case b.row.State == sojourn.Awaiting && w.inbox[i] == kept && len(b.row.Wait.Keys) == 0 && sc.sent[i].Key == sc.keys[j]:
				return "a job awaits while its answer lies in the inbox"
			}
		}
	}
	for i, n := range w.taken {
		if n > 1 {
			return fmt.Sprintf("response r%d was taken twice", i)
		}
	}
	if sum > sc.limit {
		return "more weight is in flight than the limit"
	}
	return ""
}

// worldKey is a state as the map of those seen has it.
type worldKey struct {
	jobs [worldJobs]struct {
		life                                     lifeKey
		there, started                           bool
		epoch, generation, lives, worker, endeds uint8
		ended                                    [8]sojourn.OutcomeType
	}
	inbox          [worldSent]place
	arrived, taken [worldSent]uint8
	hands          [worldWorkers]grip
	budget         [7]uint8
}

func (w *world) key() (k worldKey) {
	for j := range w.jobs {
		b := &w.jobs[j]
		k.jobs[j].life, k.jobs[j].there, k.jobs[j].started = keyOf(&b.life), b.there, b.started
		k.jobs[j].epoch, k.jobs[j].generation, k.jobs[j].lives, k.jobs[j].worker, k.jobs[j].ended = b.epoch, b.generation, b.lives, b.worker, b.ended
	}
	k.inbox, k.arrived, k.taken, k.hands, k.budget = w.inbox, w.arrived, w.taken, w.hands, w.budget
	return k
}

// walk visits every state, breadth first, at most max of them, and stops at the first breach.
func (sc *worldScene) walk(most int) (states int, found *breach) {
	all, from, by := []world{sc.start()}, []int32{-1}, []int16{-1}
	index := map[worldKey]int32{all[0].key(): 0}
	ms := sc.moves()
	way := func(k int32, last string) (names []string) {
		for ; from[k] >= 0; k = from[k] {
			names = append(names, ms[by[k]].name)
		}
		slices.Reverse(names)
		return append(names, last)
	}
	var good edges
	for k := int32(0); int(k) < len(all) && len(all) < most; k++ {
		for n := range ms {
			next := all[k]
			law, possible := ms[n].do(&next)
			if !possible {
				continue
			}
			if law == "" {
				law = sc.broken(&next)
			}
			if law != "" {
				return len(all), &breach{law, sc.name, way(k, ms[n].name)}
			}
			key := next.key()
			to, seen := index[key]
			if !seen {
				to = int32(len(all))
				index[key] = to
				next.jobs[0].last, next.jobs[1].last = nil, nil
				all, from, by = append(all, next), append(from, k), append(by, int16(n))
			}
			if ms[n].good {
				good.add(k, to)
			}
		}
	}
	if len(all) >= most {
		return len(all), nil
	}
	over := func(b *worldJob) bool { return !b.there || b.row.State.Final() }
	if k := good.stuck(len(all), func(k int) bool { return over(&all[k].jobs[0]) && over(&all[k].jobs[1]) }); k >= 0 {
		return len(all), &breach{"no way to the end of all jobs by claims, honest workers and the sweep", sc.name, way(k, "and nothing more")}
	}
	return len(all), nil
}
