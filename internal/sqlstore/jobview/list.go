package jobview

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qData     = `select job, checkpoint, progress from sj_data where job in (ints($1))`
	qInHand   = `select ` + txn.ResponseColumns + ` from sj_response where job in (ints($1)) and job > 0 and in_hand = 1 order by seq`
	qKeptKeys = `select job, key from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`
)

// List collects the jobs of a result for which further rows must be read, so that each table is
// read once for all of them. Add every job, then call LastErrors, or Fill, or both.
type List struct {
	byID       map[sojourn.ID]*sojourn.Job
	data, hand sqldb.Ints
	failed     sqldb.Ints                  // jobs that are not final, and have failed before
	awaits     sqldb.Ints                  // jobs that wait and have attached responses
	full       map[sojourn.ID]*sojourn.Job // jobs that may have the detail of an error
	seqs       map[sojourn.ID]int64        // of live ones: the entry of the history with their last error
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

// AddFull is Add for a job that is read with all its data: also with what its wait has got already.
func (l *List) AddFull(j *sojourn.Job, hasData, inHand bool) {
	l.Add(j, hasData, inHand)
	if j.Failures+j.Crashes > 0 || j.Reason != "" || j.Error != "" {
		if l.full == nil {
			l.full, l.seqs = map[sojourn.ID]*sojourn.Job{}, map[sojourn.ID]int64{}
		}
		l.full[j.ID] = j
	}
	if j.Waiting != nil && j.Kept > 0 {
		l.note(&l.awaits, j)
	}
}

// Fill reads checkpoints, progress, the taken responses, the keys that attached responses answer,
// and the details of errors. LastErrors comes before it.
func (l *List) Fill(t *txn.Tx) error {
	if len(l.full) > 0 {
		if err := errordetail.OfJobs(t, l.full, l.seqs); err != nil {
			return err
		}
	}
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
			a := l.byID[sojourn.ID(r.Int(0))].Waiting
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

func (l *List) note(list *sqldb.Ints, j *sojourn.Job) {
	if l.byID == nil {
		l.byID = map[sojourn.ID]*sojourn.Job{}
	}
	l.byID[j.ID] = j
	*list = append(*list, int64(j.ID))
}
