package worker

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// order returns the sequence in which to claim from the queues. Round robin and shares use one rule
// (stride scheduling, Waldspurger and Weihl, 1995): each job moves its queue back by 1/share, and
// the claim starts with the queue that is furthest ahead. A queue without jobs is moved along, so
// that it accumulates no claims. Used by one goroutine at a time.
//
// A pattern is a line like a name. The store replaces it by the queues that exist at the time of
// the claim, each of which has its share.
type order struct {
	lines    []line
	excluded []string
	entries  []string       // all of them
	patterns bool           // there are patterns among them
	share    map[string]int // nil: strictly in order
	random   *rand.Rand     // of Shuffled; nil: the order does not change
}

type line struct {
	queue  string
	stride float64
	at     float64
}

// newOrder makes the order of a worker's queues. seed is what Shuffled draws from.
func newOrder(o Options, seed string) *order {
	out := &order{entries: o.Queues, patterns: slices.ContainsFunc(o.Queues, driver.IsPattern)}
	if o.Order == Shuffled {
		out.random = rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed))))
	}
	if o.Shares != nil {
		out.share = maps.Clone(o.Shares)
	} else if o.Order == RoundRobin {
		out.share = map[string]int{}
	}
	for _, q := range o.Queues {
		if strings.HasPrefix(q, "!") {
			out.excluded = append(out.excluded, q)
			continue
		}
		if o.Shares == nil && o.Order == RoundRobin {
			out.share[q] = 1
		}
		out.lines = append(out.lines, line{queue: q, stride: 1 / float64(max(out.share[q], 1))})
	}
	return out
}

// next gives the queues for a claim of up to n jobs, and for more than one the shares by which the
// store spreads them.
func (o *order) next(n int) (queues []string, share map[string]int) {
	lines := slices.Clone(o.lines)
	if o.random != nil {
		o.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	} else {
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	}
	for _, l := range lines {
		queues = append(queues, l.queue)
	}
	if n > 1 {
		share = o.share
	}
	return append(queues, o.excluded...), share
}

// entry is the entry that selects a queue.
func (o *order) entry(queue string) string {
	if o.patterns {
		if i := driver.SelectsQueue(o.entries, queue); i >= 0 {
			return o.entries[i]
		}
	}
	return queue
}

// took says from which queues the jobs came.
func (o *order) took(queues []string) {
	if o.share == nil || len(queues) == 0 {
		return
	}
	gave := map[string]int{}
	for _, q := range queues {
		gave[o.entry(q)]++
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

// maxQueues bounds the entries of Options.Queues, as a server does.
const maxQueues = 256

func validQueues(queues []string) error {
	if len(queues) > maxQueues {
		return sojourn.Invalid("queues", "%d entries exceed the limit of %d; use patterns, or several workers", len(queues), maxQueues)
	}
	return driver.ValidQueues("queues", queues)
}

// SetQueues replaces Options.Queues of a worker, which may be running: the next claim uses them,
// and a claim that waits is sent again. Jobs that were taken go on. The Order stays. An *Error with
// CodeInvalid, and no change, if there are no queues, one is malformed, or the worker has Shares.
func (w *Worker) SetQueues(queues ...string) error {
	if len(queues) == 0 {
		return sojourn.Invalid("queues", "no queue is given; name at least one, or stop the worker")
	}
	if err := validQueues(queues); err != nil {
		return err
	}
	if w.o.Shares != nil {
		return sojourn.Invalid("queues", "the worker has shares, which name its queues; make another worker")
	}
	w.mu.Lock()
	w.replaced = slices.Clone(queues)
	r := w.running
	w.mu.Unlock()
	if r != nil {
		r.claims.renew()
	}
	return nil
}

// isReplaced reports whether SetQueues has given queues that no claim has used yet.
func (w *Worker) isReplaced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replaced != nil
}

// currentOrder is the order of the queues, after a change by SetQueues that of the new ones.
func (w *Worker) currentOrder() *order {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replaced != nil {
		o := w.o
		o.Queues = w.replaced
		w.replaced, w.order = nil, newOrder(o, w.id)
	}
	return w.order
}
