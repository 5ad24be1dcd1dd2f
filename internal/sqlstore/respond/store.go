package respond

import (
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// store stores one response and gives it to its job.
func (b *batch) store(in *sojourn.Response, to target) (sojourn.Responded, error) {
	if first := b.stored[to.as]; first != nil {
		b.Responses.CountDuplicate(first)
		if to.conflict {
			return sojourn.Responded{Outcome: sojourn.Conflicting, Job: first.Job, Seq: first.Seq}, nil
		}
		return sojourn.Responded{Outcome: sojourn.Duplicate, Job: first.Job, Seq: first.Seq}, nil
	}
	seq := b.numbers[0]
	b.numbers = b.numbers[1:]
	l := b.rows[to.id]
	outcome := outcomeFor(b.Tx, in, l, to)
	s := b.NewPendingResponse(in, seq, outcome, l, to.id)
	if to.token {
		s.Wait = int64(to.wait)
	}
	s.Message, s.Digest = to.as, to.digest
	b.stored[to.as] = s
	b.Responses.Add(s)
	switch {
	case l == nil:
		if outcome == txn.OutcomeEarly {
			b.NoteRecheck(in.Kind, in.Key)
		}
	case in.Progress && outcome == txn.OutcomeApplied:
		if err := b.storeProgress(l, string(in.Body)); err != nil {
			return sojourn.Responded{}, err
		}
	case outcome == txn.OutcomeEarly:
		if err := b.attach(l, s); err != nil {
			return sojourn.Responded{}, err
		}
	}
	return sojourn.Responded{Outcome: txn.OutcomeCodes[s.Outcome], Job: s.Job, Seq: seq}, nil
}

// outcomeFor returns the outcome of a response before it is matched. Progress is never attached: it
// would answer the next wait.
func outcomeFor(t *txn.Tx, r *sojourn.Response, l *jobrow.Row, to target) int64 {
	switch {
	case to.conflict:
		return txn.OutcomeConflict
	case r.Park:
		return txn.OutcomeParked
	case l == nil && to.id == 0 && r.Progress:
		return txn.OutcomeUnmatched
	case l == nil && to.id == 0:
		return txn.OutcomeEarly
	case l == nil:
		return txn.OutcomeLate // the job that had the key is final, or gone
	case to.until > 0 && t.Now >= to.until, to.token && (to.generation != l.Generation || to.attempt != l.Attempt || to.wait != l.Waits):
		return txn.OutcomeStale
	case r.Progress && l.AttemptOpen && (l.State == sojourn.Running || l.State == sojourn.Awaiting):
		return txn.OutcomeApplied
	case r.Progress:
		return txn.OutcomeLate // no wait of its sender is open
	}
	return txn.OutcomeEarly // attached to the job
}

// attach attaches a response to its job, and matches.
func (b *batch) attach(l *jobrow.Row, s *txn.PendingResponse) error {
	_, leased := b.Loaded.Leased[l.ID]
	now := *l
	now.Kept++
	attached := append(b.attached[l.ID], rules.KeptResponse{Seq: s.Seq, Key: s.In.Key, Failed: s.In.Failed, Reason: s.Reason, Error: s.ErrText,
		ByToken: s.Wait >= 0, Wait: int32(max(s.Wait, 0))})
	after, attached, err := lifecycle.MatchAttached(b.Tx, &now, attached)
	if err == nil && after == &now { // no wait has matched it
		err = b.Save(l, after)
	}
	if err != nil {
		return err
	}
	b.rows[l.ID], b.attached[l.ID] = after, attached
	if after.State.Final() {
		b.rows[l.ID], b.attached[l.ID] = nil, nil
	} else if leased { // the end of its step, which comes later in this transaction, reads it no more
		b.Loaded.Leased[l.ID] = after
	}
	return nil
}

// storeProgress stores a progress response, and restarts the beat of the wait if one runs.
func (b *batch) storeProgress(l *jobrow.Row, text string) error {
	now := *l
	if l.BeatUntil > 0 {
		now.BeatUntil = lifecycle.TimeAfter(b.Tx, l.Wait.Beat)
	}
	if text != "" {
		now.HasData = true
		b.progressOf[l.ID] = text
	}
	b.rows[l.ID] = &now
	return b.Save(l, &now)
}

const qSaveProgress = `insert into sj_data (job, checkpoint, progress) rows($1 bigint, $2 bytea, $3 text)
	on conflict (job) do update set progress = excluded.progress`

// addProgress adds the progress texts to the write set: of each job the newest.
func (b *batch) addProgress() {
	ids := slices.Sorted(maps.Keys(b.progressOf))
	jobs, nothing, texts := make(sqldb.Ints, len(ids)), make(sqldb.Blobs, len(ids)), make(sqldb.Texts, len(ids))
	for i, id := range ids {
		jobs[i], texts[i] = int64(id), sojourn.Cut(b.progressOf[id], sojourn.MaxProgress)
	}
	b.AddBulk(qSaveProgress, 0, "", jobs, nothing, texts)
}
