package worker

import (
	"cmp"
	"maps"
	"slices"
)

// order returns the sequence in which to claim from the queues. Round robin and shares use one rule
// (stride scheduling, Waldspurger and Weihl, 1995): each job moves its queue back by 1/share, and
// the claim starts with the queue that is furthest ahead. A queue without jobs is moved along, so
// that it accumulates no claims. Used by one goroutine at a time.
type order struct {
	lines []line
	share map[string]int // nil: strictly in order
}

type line struct {
	queue  string
	stride float64
	at     float64
}

func newOrder(o Options) *order {
	out := &order{}
	if o.Shares != nil {
		out.share = maps.Clone(o.Shares)
	} else if o.Order == RoundRobin {
		out.share = map[string]int{}
		for _, q := range o.Queues {
			out.share[q] = 1
		}
	}
	for _, q := range o.Queues {
		out.lines = append(out.lines, line{queue: q, stride: 1 / float64(max(out.share[q], 1))})
	}
	return out
}

// next gives the queues for a claim of up to n jobs, and for more than one the shares by which the
// store spreads them.
func (o *order) next(n int) (queues []string, share map[string]int) {
	lines := slices.Clone(o.lines)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		queues = append(queues, l.queue)
	}
	if n > 1 {
		share = o.share
	}
	return queues, share
}

// took says from which queues the jobs came.
func (o *order) took(queues []string) {
	if o.share == nil || len(queues) == 0 {
		return
	}
	gave := map[string]int{}
	for _, q := range queues {
		gave[q]++
	}
	front, lowest := 0.0, 0.0
	for _, l := range o.lines {
		if gave[l.queue] > 0 {
			front = max(front, l.at)
		}
	}
	for i := range o.lines {
		l := &o.lines[i]
		if gave[l.queue] == 0 {
			l.at = max(l.at, front) // asked before one that gave, it had nothing
		}
		l.at += float64(gave[l.queue]) * l.stride
		if i == 0 || l.at < lowest {
			lowest = l.at
		}
	}
	for i := range o.lines {
		o.lines[i].at -= lowest // only the distances count; small numbers stay exact
	}
}
