package sqlstore

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// change holds the data of a transition that rules.Decide has not decided.
type change struct {
	result     []byte // of a completed job
	resultType string
	by         string // who, for an operator's change
	verdict    sojourn.Verdict
}

// apply writes a transition: the row (or, at the end of the job, its move to sj_final), the
// history, and the outcomes of responses. It returns the new row. The caller runs match after it.
func (t *tx) apply(was *live, tr rules.Transition, c change) (*live, error) {
	l := *was
	l.Row = tr.To
	t.clocks(was, &l, tr, c.verdict)
	if c.verdict.Checkpoint != nil {
		if err := t.saveData(&l, c.verdict.Checkpoint, nil); err != nil {
			return nil, err
		}
	}
	t.putDown(was, tr)
	if tr.To.State.Final() {
		return &l, t.finish(was, &l, tr, c)
	}
	t.addHistory(was, &l, tr, c)
	return &l, t.save(was, &l)
}

// clocks sets the times that a transition starts and ends, by the table of the four clocks in
// docs/concepts.md.
func (t *tx) clocks(was, l *live, tr rules.Transition, v sojourn.Verdict) {
	switch tr.RunAt {
	case rules.RunAtNow:
		l.runAt = t.now
	case rules.RunAtDelay:
		l.runAt = t.now + tr.Delay.Microseconds()
		if !v.RunAt.IsZero() {
			l.runAt = max(v.RunAt.UnixMicro(), t.now)
		}
		l.runAt = opening(l.runAt, l.Policy)
	case rules.RunAtOpening:
		l.runAt = t.putOffUntil(was)
	}
	if v.Priority != nil {
		l.priority = *v.Priority
	}
	if was.State == sojourn.Running {
		l.leaseUntil, l.began = 0, 0
	}
	l.waitUntil, l.beatUntil, l.pollAt, l.decideBy, l.rested = 0, 0, 0, 0, 0
	switch {
	case l.State == sojourn.Awaiting && was.State == sojourn.Awaiting, l.State == sojourn.Awaiting && was.Purpose == sojourn.PurposePoll:
		l.waitUntil, l.beatUntil = was.waitUntil, was.beatUntil
	case l.State == sojourn.Awaiting:
		l.waitUntil, l.beatUntil = t.inTime(l.Wait.Within), t.inTime(l.Wait.Beat)
	case l.State == sojourn.Errored:
		l.decideBy = t.now + l.Policy.DecideWithin.Microseconds()
	case l.State == sojourn.Ready && l.Resumed:
		l.rested = t.now // the attempt's clock stands still until a worker takes it
		if was.rested > 0 {
			l.rested = was.rested
		}
	}
	if l.State == sojourn.Awaiting && l.Wait.Poll.First > 0 && !l.NoPoll {
		l.pollAt = t.now + tr.Poll.Microseconds()
	}
	if !l.AttemptOpen {
		l.timeoutAt = 0
	}
}

// inTime is the time after d; 0 for none.
func (t *tx) inTime(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return t.now + d.Microseconds()
}

// addHistory writes the row of the history, if the transition has one.
func (t *tx) addHistory(was, l *live, tr rules.Transition, c change) {
	if r := t.history(was, l, tr, c); !r.none() {
		t.pending.history = append(t.pending.history, r)
	}
}

// history builds and counts the row of a step that ended, or of a change without a step; for any
// other transition it has only the time and the reason. The row of (job, epoch) with the reported
// outcome also makes a repeated Finish harmless.
func (t *tx) history(was, l *live, tr rules.Transition, c change) historyRow {
	ended := max(t.now, was.updated) // another transaction's clock was read in another order than the two were executed in
	reason, failed := sojourn.Cut(tr.Reason, sojourn.MaxReason), []byte(sojourn.Cut(tr.Error, sojourn.MaxError))
	if tr.Outcome == "" {
		return historyRow{ints: [9]int64{8: ended}, texts: [4]string{2: reason}, failed: failed}
	}
	l.history++
	var epoch, began int64
	worker := ""
	if was.State == sojourn.Running {
		epoch, began, worker = was.epoch, was.began, was.worker
	}
	return historyRow{
		ints:   [9]int64{int64(l.ID), int64(l.history), int64(was.generation), int64(was.Attempt), epoch, int64(was.Purpose), int64(l.State), began, ended},
		texts:  [4]string{worker, tr.Outcome, reason, c.by},
		failed: failed,
	}
}

const ()

const ()

// putDown records a transition's changes to the job's taken and attached responses.
func (t *tx) putDown(was *live, tr rules.Transition) {
	note := func(i int) { t.pending.hands[i] = append(t.pending.hands[i], int64(was.ID)) }
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

// finish ends a job; flushEnded does the rest. The last row of its history goes into sj_final with
// it (docs/internals/engine.md#row-width).
func (t *tx) finish(was, l *live, tr rules.Transition, c change) error {
	state, epoch, err := t.unsaved(was)
	if err != nil {
		return err
	}
	r := endedRow{state: state, epoch: epoch, writer: t.writers[was.ID], last: t.history(was, l, tr, c), now: l,
		result: c.result, resultType: c.resultType, awaited: was.awaited}
	if keep := l.Policy.KeepKey; l.key != "" && keep > 0 {
		r.held = t.now + keep.Microseconds()
	}
	t.land(was, l, 0)
	t.pending.ended = append(t.pending.ended, r)
	t.final = append(t.final, l.ID)
	return nil
}

const (
	qSaveCheckpoint = `insert into sj_data (job, checkpoint, progress) values ($1, $2, '')
		on conflict (job) do update set checkpoint = excluded.checkpoint`
	qSaveProgress = `insert into sj_data (job, checkpoint, progress) values ($1, $2, $3)
		on conflict (job) do update set progress = excluded.progress`
)

// saveData stores checkpoint and progress; nil leaves either as it is. The caller saves the row.
func (t *tx) saveData(l *live, checkpoint []byte, progress *string) error {
	l.hasData = true
	if checkpoint != nil {
		if _, err := t.exec(qSaveCheckpoint, int64(l.ID), checkpoint); err != nil {
			return err
		}
	}
	if progress == nil {
		return nil
	}
	_, err := t.exec(qSaveProgress, int64(l.ID), []byte{}, sojourn.Cut(*progress, sojourn.MaxProgress))
	return err
}

// left is the time from now until us, more than 0 even if it has passed; 0 for a time that is not
// set.
func (t *tx) left(us int64) time.Duration {
	if us == 0 {
		return 0
	}
	return max(time.Duration(us-t.now)*time.Microsecond, 1)
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

// unreadable is the delay before the next check of a job whose windows never open again (because of
// their exceptions, or a new release of the zone rules).
const unreadable = 24 * time.Hour
