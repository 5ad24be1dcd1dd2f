package lifecycle

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// MeasureStart adds the time for which a job could have started to the statistics: since its
// run_at, or since it came back to its old place at the time back; 0 = it did not. What resumes,
// polls or decides is no start.
func MeasureStart(t *txn.Tx, l *jobrow.Row, back int64) {
	if l.Purpose == sojourn.PurposeStart {
		t.Stats.Time(l.Queue, l.Kind, jobstat.Wait, l.BeganAt-max(l.RunAt, back))
	}
}

// measure adds a transition to the statistics. Its events belong to the queue that the job was in.
func measure(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) {
	if t.Stats.Off {
		return
	}
	queue, kind := was.Queue, was.Kind
	ended := max(t.Now, was.UpdatedAt) // as in the history
	if c.Reported && (was.Purpose == sojourn.PurposeStart || was.Purpose == sojourn.PurposeResume) {
		t.Stats.Time(queue, kind, jobstat.Run, ended-was.BeganAt)
	}
	waited := was.State == sojourn.Awaiting || was.State == sojourn.Running && was.Purpose == sojourn.PurposePoll
	if waited && l.Waits > was.Waits && was.WaitedAt > 0 { // a response or the answer of a poll has ended the wait
		t.Stats.Time(queue, kind, jobstat.Response, ended-was.WaitedAt)
	}
	failed := l.Failures > was.Failures || l.Crashes > was.Crashes
	if failed || l.State == sojourn.Failed {
		t.Stats.Failure(queue, kind, sojourn.Cut(tr.Reason, sojourn.MaxReason))
	}
	switch {
	case l.State == sojourn.Completed:
		t.Stats.Count(queue, kind, jobstat.Completed, 1)
	case l.State == sojourn.Failed:
		t.Stats.Count(queue, kind, jobstat.Failed, 1)
	case l.State == sojourn.Cancelled:
		t.Stats.Count(queue, kind, jobstat.Cancelled, 1)
	case failed:
		t.Stats.Count(queue, kind, jobstat.Retried, 1)
	}
	if (l.State == sojourn.Completed || l.State == sojourn.Failed) && was.BornAt > 0 {
		t.Stats.Time(queue, kind, jobstat.Total, ended-was.BornAt)
	}
}
