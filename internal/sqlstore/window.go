package sqlstore

import (
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// The windows of a job move its run_at: they are stored with it and never change by themselves. The
// windows of a queue are checked by each claim and move no job. So a change takes effect with the
// next transaction, and a queue with a million ready jobs closes and opens without a write.

// unreadable is the delay before the next check of a job whose windows never open again (because of
// their exceptions, or a new release of the zone rules).
const unreadable = 24 * time.Hour

// windowsOf combines the windows of a policy and a queue.
func windowsOf(p sojourn.Policy, queue sojourn.Windows) []sojourn.Windows {
	return append(p.Windows[:len(p.Windows):len(p.Windows)], queue)
}

// opening is us, or the first moment after it at which a job with this policy may start.
func opening(us int64, p sojourn.Policy) int64 {
	if len(p.Windows) == 0 {
		return us
	}
	opens, err := rules.NextOpening(at(us), p.Windows...)
	if err != nil {
		return us + unreadable.Microseconds()
	}
	return max(opens.UnixMicro(), us)
}

// mayStart refuses a job that could never start. The check takes some 20 ms, so a batch of jobs
// runs it once for the same windows and day.
func (t *tx) mayStart(j *sojourn.Job, queue sojourn.Windows) error {
	if len(j.Policy.Windows) == 0 {
		return nil
	}
	all := windowsOf(j.Policy, queue)
	if len(t.never) == 0 {
		return t.neverOpen(j, all, "")
	}
	key, err := neverKey(j, all)
	if err != nil {
		return err
	}
	if err, ok := t.never[key]; ok {
		return err
	}
	return t.neverOpen(j, all, key)
}

func (t *tx) neverOpen(j *sojourn.Job, all []sojourn.Windows, key string) error {
	_, refused := rules.NextOpening(j.RunAt, all...)
	if refused == nil {
		return nil
	}
	if key == "" {
		var err error
		if key, err = neverKey(j, all); err != nil {
			return err
		}
	}
	if t.never == nil {
		t.never = map[string]error{}
	}
	t.never[key] = refused
	return refused
}

func neverKey(j *sojourn.Job, all []sojourn.Windows) (string, error) {
	text, err := jsonText(all)
	return j.RunAt.UTC().Format(time.DateOnly) + text, err
}

// putOff handles a job that a claim has found outside its windows. It moves to their next opening,
// and no attempt is counted.
func (t *tx) putOff(l *live) (bool, error) {
	if len(l.Policy.Windows) == 0 || l.State != sojourn.Ready || l.Resumed {
		return false, nil
	}
	if opening(t.now, l.Policy) <= t.now {
		return false, nil
	}
	tr, err := rules.Decide(l.Row, rules.Event{Type: rules.EventWindowClosed})
	if err == nil {
		_, err = t.apply(l, tr, change{})
	}
	return true, err
}

// putOffRounds bounds how often one transaction searches behind the jobs that it puts off for jobs
// whose windows are open.
const putOffRounds = 10

// putOffFront puts off the next jobs in line, besides those that the claim has picked: the jobs of
// a kind mostly have the same windows.
func (c *claims) putOffFront(r driver.ClaimRequest) error {
	r.Max, r.Capacity = max(r.Max, 100), math.MaxInt64
	picked, err := c.pick(r)
	if err != nil {
		return err
	}
	ids := make(sqldb.Ints, len(picked))
	for i, p := range picked {
		ids[i] = p.id
	}
	found, err := c.load(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if l := found[sojourn.ID(id)]; l != nil {
			if _, err := c.putOff(l); err != nil {
				return err
			}
		}
	}
	return c.settle(nil)
}

// putOffUntil returns when a job that is put off may start.
func (t *tx) putOffUntil(l *live) int64 {
	q, err := t.queueRow(l.queue)
	if err != nil {
		return opening(t.now, l.Policy) // without the spread
	}
	until, err := rules.PutOff(l.ID, at(t.now), l.Policy.Windows, q.Windows)
	if err != nil {
		return t.now + unreadable.Microseconds()
	}
	return max(until.UnixMicro(), t.now)
}

// windowLeft limits the duration of a step that stops with its windows; 0 = no limit.
func (t *tx) windowLeft(l *live) (time.Duration, error) {
	if !l.Policy.Stops() || l.Purpose != sojourn.PurposeStart {
		return 0, nil
	}
	q, err := t.queueRow(l.queue)
	if err != nil || len(l.Policy.Windows)+len(q.Windows) == 0 {
		return 0, err
	}
	const far = 35 * 24 * time.Hour // of windows that follow each other without a gap
	shuts, err := rules.NextClosing(at(t.now), far, windowsOf(l.Policy, q.Windows)...)
	if err != nil || shuts.Sub(at(t.now)) >= far {
		return 0, nil // an unreadable window starts nothing: the step began before it was
	}
	return max(shuts.Sub(at(t.now)), 1), nil
}
