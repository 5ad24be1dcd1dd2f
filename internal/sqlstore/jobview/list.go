package jobview

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// List are jobs of a result for which further rows must be read.
type List struct {
	byID       map[sojourn.ID]*sojourn.Job
	data, hand sqldb.Ints
	failed     sqldb.Ints // jobs that are not final, and have failed before
	awaits     sqldb.Ints // jobs that wait and have attached responses
}

// Add adds a job; hasData and inHand say which further rows it has.
func (l *List) Add(j *sojourn.Job, hasData, inHand bool) {
	if hasData {
		l.note(&l.data, j)
	}
	if inHand {
		l.note(&l.hand, j)
	}
	if j.State.Live() && j.Failures+j.Crashes > 0 {
		l.note(&l.failed, j)
	}
}

// AddFull adds a job that is read with all its data.
func (l *List) AddFull(j *sojourn.Job, hasData, inHand bool) {
	l.Add(j, hasData, inHand)
	if j.Awaits != nil && j.Kept > 0 {
		l.note(&l.awaits, j)
	}
}

func (l *List) note(list *sqldb.Ints, j *sojourn.Job) {
	if l.byID == nil {
		l.byID = map[sojourn.ID]*sojourn.Job{}
	}
	l.byID[j.ID] = j
	*list = append(*list, int64(j.ID))
}

// Fill fills j from the row, as applications see it.
func Fill(l *jobrow.Row, j *sojourn.Job, s *txn.Core) {
	*j = sojourn.Job{ID: l.ID, Kind: l.Kind, Queue: l.Queue, Key: l.Key, Priority: l.Priority, Weight: l.Weight, RunAt: jobrow.Time(l.RunAt), Policy: l.Policy,
		State: l.State, Resumed: l.Resumed, Instance: s.Instance, Generation: l.Generation, Epoch: l.Epoch, Attempt: l.Attempt,
		Failures: l.Failures, Crashes: l.Crashes, Purpose: l.Purpose, Kept: l.Kept, UpdatedAt: jobrow.Time(l.UpdatedAt)}
	if l.State == sojourn.Running {
		j.Worker, j.StartedAt, j.LeaseUntil = l.Worker, jobrow.Time(l.BeganAt), jobrow.Time(l.LeaseUntil)
	}
	if l.WakeAt < jobrow.Never {
		j.WakeAt = jobrow.Time(l.WakeAt)
	}
	if l.State == sojourn.Awaiting || l.Purpose == sojourn.PurposePoll {
		j.Awaits = &sojourn.Awaits{Mode: l.Wait.Mode, Keys: slices.Clone(l.Wait.Keys), Until: jobrow.Time(l.WaitUntil), Beat: jobrow.Time(l.BeatUntil), Poll: jobrow.Time(l.PollAt), Polls: l.Wait.Polls}
		if len(l.Wait.Keys) == 0 && l.Key != "" {
			j.Awaits.Keys = []string{l.Key}
		}
	}
}

const qData = `select job, checkpoint, progress from sj_data where job in (ints($1))`

const qInHand = `select ` + txn.ResponseColumns + ` from sj_response where job in (ints($1)) and job > 0 and in_hand = 1 order by seq`

const qKeptKeys = `select job, key from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`

// Fill reads checkpoints, progress and the taken responses.
func (l *List) Fill(t *txn.Tx) error {
	if len(l.data) > 0 {
		err := t.Read(qData, func(r sqldb.Row) error {
			j := l.byID[sojourn.ID(r.Int(0))]
			j.Checkpoint, j.Progress = r.Bytes(1), r.Text(2)
			return nil
		}, l.data)
		if err != nil {
			return err
		}
	}
	if len(l.awaits) > 0 {
		err := t.Read(qKeptKeys, func(r sqldb.Row) error {
			a := l.byID[sojourn.ID(r.Int(0))].Awaits
			if key := r.Text(1); slices.Contains(a.Keys, key) && !slices.Contains(a.Answered, key) {
				a.Answered = append(a.Answered, key)
			}
			return nil
		}, l.awaits)
		if err != nil {
			return err
		}
	}
	if len(l.hand) == 0 {
		return nil
	}
	return t.Read(qInHand, func(r sqldb.Row) error {
		resp := txn.ScanResponse(r)
		j := l.byID[resp.Job]
		if j.Response == nil {
			j.Response = &resp
		}
		j.Responses = append(j.Responses, &resp)
		return nil
	}, l.hand)
}
