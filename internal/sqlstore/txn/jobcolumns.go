package txn

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// JobColumns holds the columns of sj_job for the worker, as they are stored.
type JobColumns struct {
	Group, ContentType, Tags, Meta string
	OrigRunAt, Created             int64
	Args                           []byte // nil if they were not read
}

// SetOn copies the columns into the job.
func (c *JobColumns) SetOn(j *sojourn.Job) error {
	j.Group, j.ContentType, j.Args = c.Group, c.ContentType, c.Args
	j.OrigRunAt, j.CreatedAt = jobrow.Time(c.OrigRunAt), jobrow.Time(c.Created)
	if c.Tags != "" {
		if err := json.Unmarshal([]byte(c.Tags), &j.Tags); err != nil {
			return fmt.Errorf("tags of job %d: %w", j.ID, err)
		}
	}
	if c.Meta != "" {
		if err := json.Unmarshal([]byte(c.Meta), &j.Meta); err != nil {
			return fmt.Errorf("meta of job %d: %w", j.ID, err)
		}
	}
	return nil
}

const JobColumnList = `j.grp, j.content_type, j.tags, j.meta, j.orig_run_at_us, j.created_us`

const JobColumnCount = 6

// JobList are jobs of a result for which further rows must be read.
type JobList struct {
	byID       map[sojourn.ID]*sojourn.Job
	data, hand sqldb.Ints
	failed     sqldb.Ints // jobs that are not final, and have failed before
	awaits     sqldb.Ints // jobs that wait and have attached responses
}

func (js *JobList) Add(j *sojourn.Job, hasData, inHand bool) {
	if hasData {
		js.note(&js.data, j)
	}
	if inHand {
		js.note(&js.hand, j)
	}
	if j.State.Live() && j.Failures+j.Crashes > 0 {
		js.note(&js.failed, j)
	}
}

// AddFull adds a job that is read with all its data.
func (js *JobList) AddFull(j *sojourn.Job, hasData, inHand bool) {
	js.Add(j, hasData, inHand)
	if j.Awaits != nil && j.Kept > 0 {
		js.note(&js.awaits, j)
	}
}

func (js *JobList) note(list *sqldb.Ints, j *sojourn.Job) {
	if js.byID == nil {
		js.byID = map[sojourn.ID]*sojourn.Job{}
	}
	js.byID[j.ID] = j
	*list = append(*list, int64(j.ID))
}

// FillJob fills j from the row, as applications see it.
func FillJob(l *jobrow.Row, j *sojourn.Job, s *Core) {
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

const qInHand = `select ` + ResponseColumns + ` from sj_response where job in (ints($1)) and job > 0 and in_hand = 1 order by seq`

const qKeptKeys = `select job, key from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`

// ScanJobColumns reads JobColumnList, and the args after them.
func ScanJobColumns(r sqldb.Row, from int) *JobColumns {
	c := ScanHead(r, from)
	c.Args = r.Bytes(from + JobColumnCount)
	return c
}

// ScanHead reads JobColumnList.
func ScanHead(r sqldb.Row, from int) *JobColumns {
	return &JobColumns{Group: r.Text(from), ContentType: r.Text(from + 1), Tags: r.Text(from + 2), Meta: r.Text(from + 3),
		OrigRunAt: r.Int(from + 4), Created: r.Int(from + 5)}
}

// FillJobs reads checkpoints, progress and the taken responses.
func (t *Tx) FillJobs(js *JobList) error {
	if len(js.data) > 0 {
		err := t.Read(qData, func(r sqldb.Row) error {
			j := js.byID[sojourn.ID(r.Int(0))]
			j.Checkpoint, j.Progress = r.Bytes(1), r.Text(2)
			return nil
		}, js.data)
		if err != nil {
			return err
		}
	}
	if len(js.awaits) > 0 {
		err := t.Read(qKeptKeys, func(r sqldb.Row) error {
			a := js.byID[sojourn.ID(r.Int(0))].Awaits
			if key := r.Text(1); slices.Contains(a.Keys, key) && !slices.Contains(a.Answered, key) {
				a.Answered = append(a.Answered, key)
			}
			return nil
		}, js.awaits)
		if err != nil {
			return err
		}
	}
	if len(js.hand) == 0 {
		return nil
	}
	return t.Read(qInHand, func(r sqldb.Row) error {
		resp := ScanResponse(r)
		j := js.byID[resp.Job]
		if j.Response == nil {
			j.Response = &resp
		}
		j.Responses = append(j.Responses, &resp)
		return nil
	}, js.hand)
}
