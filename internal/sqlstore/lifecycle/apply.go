package lifecycle

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checkpointsize"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/failure"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Change is the part of a transition that the rules do not decide: the data of an outcome, and who
// has caused it.
type Change struct {
	Result     []byte // of a job that ends
	ResultType string // its content type
	By         string // an operator, a token or a response, for the history; "" for the worker
	Queue      string // of the next stage; "" = the same
	Verdict    sojourn.Verdict
	Reported   bool   // by the worker that ran the step
	Detail     []byte // JSON about the error
}

// Apply writes a transition: the row (or, at the end of the job, its move to sj_final), the
// history, and the outcomes of responses. It returns the new row. The caller runs Match after it,
// and before that BeginWait if the job waits now.
func Apply(t *txn.Tx, was *jobrow.Row, tr rules.Transition, c Change) (*jobrow.Row, error) {
	l := *was
	l.Row = tr.To
	if c.Queue != "" {
		l.Queue = c.Queue
	}
	setTimes(t, was, &l, tr, c.Verdict)
	if c.Verdict.Checkpoint != nil {
		if err := SaveData(t, &l, c.Verdict.Checkpoint, nil); err != nil {
			return nil, err
		}
	}
	noteResponses(t, was, tr)
	measure(t, was, &l, tr, c)
	if tr.To.State.Final() {
		return &l, end(t, was, &l, tr, c)
	}
	if was.Dependents && l.Stage > was.Stage || was.WaitsFor > 0 && tr.Rule == "W11" {
		t.Events.Ended = append(t.Events.Ended, [2]*jobrow.Row{was, &l})
	}
	AddHistory(t, was, &l, tr, c)
	if err := t.Save(was, &l); err != nil || l.Queue == was.Queue {
		return &l, err
	}
	return &l, field.Moved(t, &l)
}

// noteResponses records a transition's changes to the job's taken and attached responses.
func noteResponses(t *txn.Tx, was *jobrow.Row, tr rules.Transition) {
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

// end adds the end of a job to the write set, which moves its row to sj_final. The last row of its
// history becomes part of that row (docs/internals/engine.md#row-width).
func end(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) error {
	state, epoch, err := t.Unsaved(was)
	if err != nil {
		return err
	}
	r := txn.EndedRow{State: state, Epoch: epoch, Writer: t.Cache.Writers[was.ID], Last: history(t, was, l, tr, c), Now: l,
		Result: c.Result, ResultType: c.ResultType, Awaited: was.Awaited}
	if keep := l.Policy.KeepKey; l.Key != "" && keep > 0 {
		r.Held = t.Now + keep.Microseconds()
	}
	t.AddWeight(was, l, 0)
	t.Counts.Moved(was, l, 0)
	t.Transitions.Moved(was, l, max(t.Now, was.UpdatedAt))
	t.Writes.Ended = append(t.Writes.Ended, r)
	t.Events.Final = append(t.Events.Final, l.ID)
	if was.Dependents || was.WaitsFor > 0 {
		t.Events.Ended = append(t.Events.Ended, [2]*jobrow.Row{was, l})
	}
	if l.Workflow != 0 {
		t.Events.Members = append(t.Events.Members, l)
	}
	return nil
}

// AddHistory adds the transition to the job's history, if it belongs there. Apply does so itself;
// AddHistory is for changes of a job that are no transition of the rules.
func AddHistory(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) {
	if r := history(t, was, l, tr, c); !r.None() {
		t.Writes.History = append(t.Writes.History, r)
	}
}

// history builds the row of an ended step, or of a change without a step, and counts it. For any
// other transition the row has only the time and the reason, and None is true. The row of (job,
// epoch) with the reported outcome also makes a repeated Finish harmless.
func history(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, c Change) txn.HistoryRow {
	ended := max(t.Now, was.UpdatedAt) // another transaction's clock was read in another order than the two were executed in
	reason, failed := sojourn.Cut(tr.Reason, sojourn.MaxReason), []byte(sojourn.Cut(tr.Error, sojourn.MaxError))
	group := failure.Note(t, was, l, tr)
	if tr.Outcome == "" {
		return txn.HistoryRow{Ints: [11]int64{8: ended, 10: group}, Texts: [4]string{2: reason}, Failed: failed}
	}
	l.History++
	if len(c.Detail) > 0 && (tr.Reason != "" || tr.Error != "") {
		errordetail.Add(t, l, c.Detail)
	}
	var epoch, began int64
	worker := ""
	if was.State == sojourn.Running {
		if l.HasData {
			checkpointsize.Note(t, l)
		}
		epoch, began, worker = was.Epoch, was.BeganAt, was.Worker
	}
	return txn.HistoryRow{
		Ints:   [11]int64{int64(l.ID), int64(l.History), int64(was.Generation), int64(was.Attempt), epoch, int64(was.Purpose), int64(l.State), began, ended, int64(was.Stage), group},
		Texts:  [4]string{worker, tr.Outcome, reason, c.By},
		Failed: failed,
	}
}

const (
	qSaveCheckpoint = `insert into sj_data (job, checkpoint, progress) values ($1, $2, '')
		on conflict (job) do update set checkpoint = excluded.checkpoint`
	qSaveProgress = `insert into sj_data (job, checkpoint, progress) values ($1, $2, $3)
		on conflict (job) do update set progress = excluded.progress`
)

// SaveData stores checkpoint and progress; nil leaves either as it is. It sets HasData on the row,
// and the caller saves that.
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
