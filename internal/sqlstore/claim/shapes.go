package claim

import (
	"reflect"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// shapeCache has the common columns of the jobs that claims have read from the front of queues.
// Safe for concurrent use.
type shapeCache struct {
	mu     sync.Mutex
	queues map[string]*jobShape // at most jobrow.MaxMapSize
}

// jobShape holds the common columns of the jobs in front of a queue without gates.
type jobShape struct {
	known     bool // the last jobs that were read had them in common
	weight    int32
	policies  []string // as they are stored, at most maxPolicies
	pause     int      // claims that read normally before one learns again
	nextPause int      // pause after the next mismatch
}

// maxPolicies bounds the number of policies of a bulk start. Mostly there are as many as kinds.
const maxPolicies = 8

// get returns the common columns of the jobs in front of a queue; no policies if they are unknown.
func (c *shapeCache) get(queue string) (weight int32, policies []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.queues[queue]
	if j == nil || !j.known {
		return 0, nil
	}
	return j.weight, slices.Clone(j.policies)
}

// learn caches the common columns of jobs that a claim has read from the front of a queue.
func (c *shapeCache) learn(queue string, rows map[sojourn.ID]*jobrow.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.queues[queue]
	if j == nil {
		if c.queues == nil || len(c.queues) >= jobrow.MaxMapSize {
			c.queues = map[string]*jobShape{}
		}
		j = &jobShape{nextPause: txn.MinBackoff}
		c.queues[queue] = j
	}
	switch {
	case j.known || len(rows) == 0:
	case j.pause > 0:
		j.pause--
	case !j.fits(rows):
		j.forget()
	default:
		j.known = true
	}
}

// hit records a bulk start that has succeeded: the next pause is shorter.
func (c *shapeCache) hit(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.queues[queue]; j != nil {
		j.nextPause = max(j.nextPause-1, txn.MinBackoff)
	}
}

// miss disables the bulk start of a queue for a while; later claims learn again.
func (c *shapeCache) miss(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.queues[queue]; j != nil {
		j.forget()
	}
}

// fits reports whether rows have weight and state in common, and stores their weight and policies.
func (j *jobShape) fits(rows map[sojourn.ID]*jobrow.Row) bool {
	first := true
	for _, l := range rows {
		if first {
			j.weight, first = l.Weight, false
		}
		if l.Weight != j.weight || !isPlain(l) {
			return false
		}
		if !slices.Contains(j.policies, l.PolicyJSON) {
			if len(j.policies) == maxPolicies {
				j.policies = nil
			}
			j.policies = append(j.policies, l.PolicyJSON)
		}
	}
	return true
}

// isPlain reports whether a row is unchanged since its job was stored or became ready, so that only
// its policy matters to the rules.
func isPlain(l *jobrow.Row) bool {
	blank := jobrow.Row{Queue: l.Queue, Kind: l.Kind, Key: l.Key, Group: l.Group, Priority: l.Priority, Generation: 1, RunAt: l.RunAt, UpdatedAt: l.UpdatedAt,
		PolicyJSON: l.PolicyJSON, R1: l.R1, R2: l.R2, WakeAt: jobrow.Never, BornAt: l.BornAt}
	blank.ID, blank.State, blank.Weight, blank.Policy = l.ID, sojourn.Ready, l.Weight, l.Policy
	return len(l.Policy.Windows) == 0 && l.BornAt > 0 && reflect.DeepEqual(blank, *l)
}

// forget begins a pause, and doubles the next one.
func (j *jobShape) forget() {
	j.known, j.pause, j.nextPause = false, j.nextPause, min(2*j.nextPause, txn.MaxBackoff)
}
