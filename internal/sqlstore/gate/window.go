package gate

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// The windows of a job move its run_at: they are stored with it and never change by themselves. The
// windows of a queue are checked by each claim and move no job. So a change takes effect with the
// next transaction, and a queue with a million ready jobs closes and opens without a write.

// CheckWindows refuses a job whose windows, with those of its queue, are never open together.
// Finding out takes some 20 ms, so a transaction does it once for the same windows and day.
func CheckWindows(t *txn.Tx, j *sojourn.Job, queue sojourn.Windows) error {
	if len(j.Policy.Windows) == 0 {
		return nil
	}
	all := windowsOf(j.Policy, queue)
	if len(t.Loaded.ClosedWindows) == 0 {
		return checkOpening(t, j, all, "")
	}
	key, err := windowsKey(j, all)
	if err != nil {
		return err
	}
	if err, ok := t.Loaded.ClosedWindows[key]; ok {
		return err
	}
	return checkOpening(t, j, all, key)
}

// checkOpening searches for an opening, and caches a refusal. key is "" if it was not computed yet.
func checkOpening(t *txn.Tx, j *sojourn.Job, all []sojourn.Windows, key string) error {
	_, refused := rules.NextOpening(j.RunAt, all...)
	if refused == nil {
		return nil
	}
	if key == "" {
		var err error
		if key, err = windowsKey(j, all); err != nil {
			return err
		}
	}
	if t.Loaded.ClosedWindows == nil {
		t.Loaded.ClosedWindows = map[string]error{}
	}
	t.Loaded.ClosedWindows[key] = refused
	return refused
}

// windowsKey identifies the windows of a job and the day of its run_at.
func windowsKey(j *sojourn.Job, all []sojourn.Windows) (string, error) {
	text, err := jobrow.JSONText(all)
	return j.RunAt.UTC().Format(time.DateOnly) + text, err
}

// PutOff moves a job that a claim has found outside its windows to their next opening, and reports
// whether it did. No attempt is counted.
func PutOff(t *txn.Tx, l *jobrow.Row) (bool, error) {
	if len(l.Policy.Windows) == 0 || l.State != sojourn.Ready || l.Resumed {
		return false, nil
	}
	if lifecycle.Opening(t.Now, l.Policy) <= t.Now {
		return false, nil
	}
	tr, err := rules.Decide(l.Row, rules.Event{Type: rules.EventWindowClosed})
	if err == nil {
		_, err = lifecycle.Apply(t, l, tr, lifecycle.Change{})
	}
	return true, err
}

// WindowLeft is the time after which a step must stop because its windows close; 0 = no limit.
func WindowLeft(t *txn.Tx, l *jobrow.Row) (time.Duration, error) {
	if !l.Policy.Stops() || l.Purpose != sojourn.PurposeStart {
		return 0, nil
	}
	q, err := t.ReadQueue(l.Queue)
	if err != nil || len(l.Policy.Windows)+len(q.Windows) == 0 {
		return 0, err
	}
	const far = 35 * 24 * time.Hour // of windows that follow each other without a gap
	shuts, err := rules.NextClosing(jobrow.Time(t.Now), far, windowsOf(l.Policy, q.Windows)...)
	if err != nil || shuts.Sub(jobrow.Time(t.Now)) >= far {
		return 0, nil // an unreadable window starts nothing: the step began before it was
	}
	return max(shuts.Sub(jobrow.Time(t.Now)), 1), nil
}

// windowsOf combines the windows of a policy and a queue.
func windowsOf(p sojourn.Policy, queue sojourn.Windows) []sojourn.Windows {
	return append(p.Windows[:len(p.Windows):len(p.Windows)], queue)
}
