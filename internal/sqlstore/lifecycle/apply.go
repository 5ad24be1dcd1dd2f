package lifecycle

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Change holds the data of a transition that rules.Decide has not decided.
type Change struct {
	Result     []byte // of a completed job
	ResultType string
	By         string // who, for an operator's change
	Verdict    sojourn.Verdict
}

// Apply writes a transition: the row (or, at the end of the job, its move to sj_final), the
// history, and the outcomes of responses. It returns the new row. The caller runs match after it.
func Apply(t *txn.Tx, was *jobrow.Row, tr rules.Transition, c Change) (*jobrow.Row, error) {
	l := *was
	l.Row = tr.To
	clocks(t, was, &l, tr, c.Verdict)
	if c.Verdict.Checkpoint != nil {
		if err := SaveData(t, &l, c.Verdict.Checkpoint, nil); err != nil {
			return nil, err
		}
	}
	disposeResponses(t, was, tr)
	if tr.To.State.Final() {
		return &l, end(t, was, &l, tr, c)
	}
	AddHistory(t, was, &l, tr, c)
	return &l, t.Save(was, &l)
}

// clocks sets the times that a transition starts and ends, by the table of the four clocks in
// docs/concepts.md.
func clocks(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, v sojourn.Verdict) {
	switch tr.RunAt {
	case rules.RunAtNow:
		l.RunAt = t.Now
	case rules.RunAtDelay:
		l.RunAt = t.Now + tr.Delay.Microseconds()
		if !v.RunAt.IsZero() {
			l.RunAt = max(v.RunAt.UnixMicro(), t.Now)
		}
		l.RunAt = Opening(l.RunAt, l.Policy)
	case rules.RunAtOpening:
		l.RunAt = putOffUntil(t, was)
	}
	if v.Priority != nil {
		l.Priority = *v.Priority
	}
	if was.State == sojourn.Running {
		l.LeaseUntil, l.BeganAt = 0, 0
	}
	l.WaitUntil, l.BeatUntil, l.PollAt, l.DecideBy, l.ResumedAt = 0, 0, 0, 0, 0
	switch {
	case l.State == sojourn.Awaiting && was.State == sojourn.Awaiting, l.State == sojourn.Awaiting && was.Purpose == sojourn.PurposePoll:
		l.WaitUntil, l.BeatUntil = was.WaitUntil, was.BeatUntil
	case l.State == sojourn.Awaiting:
		l.WaitUntil, l.BeatUntil = TimeAfter(t, l.Wait.Within), TimeAfter(t, l.Wait.Beat)
	case l.State == sojourn.Errored:
		l.DecideBy = t.Now + l.Policy.DecideWithin.Microseconds()
	case l.State == sojourn.Ready && l.Resumed:
		l.ResumedAt = t.Now // the attempt's clock stands still until a worker takes it
		if was.ResumedAt > 0 {
			l.ResumedAt = was.ResumedAt
		}
	}
	if l.State == sojourn.Awaiting && l.Wait.Poll.First > 0 && !l.NoPoll {
		l.PollAt = t.Now + tr.Poll.Microseconds()
	}
	if !l.AttemptOpen {
		l.TimeoutAt = 0
	}
}

// TimeAfter is the time after d; 0 for none.
func TimeAfter(t *txn.Tx, d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return t.Now + d.Microseconds()
}

// AddHistory writes the row of the history, if the transition has one.
func AddHistory(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) {
	if r := history(t, was, l, tr, c); !r.None() {
		t.Writes.History = append(t.Writes.History, r)
	}
}

// history builds and counts the row of a step that ended, or of a change without a step; for any
// other transition it has only the time and the reason. The row of (job, epoch) with the reported
// outcome also makes a repeated Finish harmless.
func history(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) txn.HistoryRow {
	ended := max(t.Now, was.UpdatedAt) // another transaction's clock was read in another order than the two were executed in
	reason, failed := sojourn.Cut(tr.Reason, sojourn.MaxReason), []byte(sojourn.Cut(tr.Error, sojourn.MaxError))
	if tr.Outcome == "" {
		return txn.HistoryRow{Ints: [9]int64{8: ended}, Texts: [4]string{2: reason}, Failed: failed}
	}
	l.History++
	var epoch, began int64
	worker := ""
	if was.State == sojourn.Running {
		epoch, began, worker = was.Epoch, was.BeganAt, was.Worker
	}
	return txn.HistoryRow{
		Ints:   [9]int64{int64(l.ID), int64(l.History), int64(was.Generation), int64(was.Attempt), epoch, int64(was.Purpose), int64(l.State), began, ended},
		Texts:  [4]string{worker, tr.Outcome, reason, c.By},
		Failed: failed,
	}
}

// disposeResponses records a transition's changes to the job's taken and attached responses.
func disposeResponses(t *txn.Tx, was *jobrow.Row, tr rules.Transition) {
	note := func(i int) { t.Writes.Disposed[i] = append(t.Writes.Disposed[i], int64(was.ID)) }
	switch {
	case tr.HandLate:
		note(1)
	case was.InHand > 0 && tr.To.InHand == 0:
		note(0)
	}
	if tr.KeptLate {
		note(2)
	}
}

// end ends a job; flushEnded does the rest. The last row of its history goes into sj_final with
// it (docs/internals/engine.md#row-width).
func end(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) error {
	state, epoch, err := t.Unsaved(was)
	if err != nil {
		return err
	}
	r := txn.EndedRow{State: state, Epoch: epoch, Writer: t.Writers[was.ID], Last: history(t, was, l, tr, c), Now: l,
		Result: c.Result, ResultType: c.ResultType, Awaited: was.Awaited}
	if keep := l.Policy.KeepKey; l.Key != "" && keep > 0 {
		r.Held = t.Now + keep.Microseconds()
	}
	t.AddWeight(was, l, 0)
	t.Writes.Ended = append(t.Writes.Ended, r)
	t.Final = append(t.Final, l.ID)
	return nil
}

const (
	qSaveCheckpoint = `insert into sj_data (job, checkpoint, progress) values ($1, $2, '')
		on conflict (job) do update set checkpoint = excluded.checkpoint`
	qSaveProgress = `insert into sj_data (job, checkpoint, progress) values ($1, $2, $3)
		on conflict (job) do update set progress = excluded.progress`
)

// SaveData stores checkpoint and progress; nil leaves either as it is. The caller saves the row.
func SaveData(t *txn.Tx, l *jobrow.Row, checkpoint []byte, progress *string) error {
	l.HasData = true
	if checkpoint != nil {
		if _, err := t.Write(qSaveCheckpoint, int64(l.ID), checkpoint); err != nil {
			return err
		}
	}
	if progress == nil {
		return nil
	}
	_, err := t.Write(qSaveProgress, int64(l.ID), []byte{}, sojourn.Cut(*progress, sojourn.MaxProgress))
	return err
}

// TimeLeft is the time from now until us, more than 0 even if it has passed; 0 for a time that is
// not set.
func TimeLeft(t *txn.Tx, us int64) time.Duration {
	if us == 0 {
		return 0
	}
	return max(time.Duration(us-t.Now)*time.Microsecond, 1)
}

// Opening is us, or the first moment after it at which a job with this policy may start.
func Opening(us int64, p sojourn.Policy) int64 {
	if len(p.Windows) == 0 {
		return us
	}
	opens, err := rules.NextOpening(jobrow.Time(us), p.Windows...)
	if err != nil {
		return us + unreadable.Microseconds()
	}
	return max(opens.UnixMicro(), us)
}

// putOffUntil returns when a job that is put off may start.
func putOffUntil(t *txn.Tx, l *jobrow.Row) int64 {
	q, err := t.ReadQueue(l.Queue)
	if err != nil {
		return Opening(t.Now, l.Policy) // without the spread
	}
	until, err := rules.PutOff(l.ID, jobrow.Time(t.Now), l.Policy.Windows, q.Windows)
	if err != nil {
		return t.Now + unreadable.Microseconds()
	}
	return max(until.UnixMicro(), t.Now)
}

// unreadable is the delay before the next check of a job whose windows never open again (because of
// their exceptions, or a new release of the zone rules).
const unreadable = 24 * time.Hour
