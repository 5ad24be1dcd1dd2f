package sqlstore

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// carried holds the columns of sj_job for the worker, as they are stored.
type carried struct {
	group, contentType, tags, meta string
	origRunAt, created             int64
	args                           []byte // nil if they were not read
}

// give copies the columns into the job.
func (c *carried) give(j *sojourn.Job) error {
	j.Group, j.ContentType, j.Args = c.group, c.contentType, c.args
	j.OrigRunAt, j.CreatedAt = at(c.origRunAt), at(c.created)
	if c.tags != "" {
		if err := json.Unmarshal([]byte(c.tags), &j.Tags); err != nil {
			return fmt.Errorf("tags of job %d: %w", j.ID, err)
		}
	}
	if c.meta != "" {
		if err := json.Unmarshal([]byte(c.meta), &j.Meta); err != nil {
			return fmt.Errorf("meta of job %d: %w", j.ID, err)
		}
	}
	return nil
}

const carriedColumns = `j.grp, j.content_type, j.tags, j.meta, j.orig_run_at_us, j.created_us`

const carriedCount = 6

// jobs are jobs of a result for which further rows must be read.
type jobs struct {
	byID       map[sojourn.ID]*sojourn.Job
	data, hand sqldb.Ints
	failed     sqldb.Ints // jobs that are not final, and have failed before
	awaits     sqldb.Ints // jobs that wait and have attached responses
}

func (js *jobs) add(j *sojourn.Job, hasData, inHand bool) {
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

// addFull adds a job that is read with all its data.
func (js *jobs) addFull(j *sojourn.Job, hasData, inHand bool) {
	js.add(j, hasData, inHand)
	if j.Awaits != nil && j.Kept > 0 {
		js.note(&js.awaits, j)
	}
}

func (js *jobs) note(list *sqldb.Ints, j *sojourn.Job) {
	if js.byID == nil {
		js.byID = map[sojourn.ID]*sojourn.Job{}
	}
	js.byID[j.ID] = j
	*list = append(*list, int64(j.ID))
}

// job fills j from the row, as applications see it.
func (l *live) job(j *sojourn.Job, s *core) {
	*j = sojourn.Job{ID: l.ID, Kind: l.kind, Queue: l.queue, Key: l.key, Priority: l.priority, Weight: l.Weight, RunAt: at(l.runAt), Policy: l.Policy,
		State: l.State, Resumed: l.Resumed, Instance: s.instance, Generation: l.generation, Epoch: l.epoch, Attempt: l.Attempt,
		Failures: l.Failures, Crashes: l.Crashes, Purpose: l.Purpose, Kept: l.Kept, UpdatedAt: at(l.updated)}
	if l.State == sojourn.Running {
		j.Worker, j.StartedAt, j.LeaseUntil = l.worker, at(l.began), at(l.leaseUntil)
	}
	if l.wakeAt < never {
		j.WakeAt = at(l.wakeAt)
	}
	if l.State == sojourn.Awaiting || l.Purpose == sojourn.PurposePoll {
		j.Awaits = &sojourn.Awaits{Mode: l.Wait.Mode, Keys: slices.Clone(l.Wait.Keys), Until: at(l.waitUntil), Beat: at(l.beatUntil), Poll: at(l.pollAt), Polls: l.Wait.Polls}
		if len(l.Wait.Keys) == 0 && l.key != "" {
			j.Awaits.Keys = []string{l.key}
		}
	}
}

const qData = `select job, checkpoint, progress from sj_data where job in (ints($1))`

const qInHand = `select ` + responseColumns + ` from sj_response where job in (ints($1)) and job > 0 and in_hand = 1 order by seq`

const qKeptKeys = `select job, key from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`

// scanCarried reads carriedColumns, and the args after them.
func scanCarried(r sqldb.Row, from int) *carried {
	c := scanHead(r, from)
	c.args = r.Bytes(from + carriedCount)
	return c
}

// scanHead reads carriedColumns.
func scanHead(r sqldb.Row, from int) *carried {
	return &carried{group: r.Text(from), contentType: r.Text(from + 1), tags: r.Text(from + 2), meta: r.Text(from + 3),
		origRunAt: r.Int(from + 4), created: r.Int(from + 5)}
}

// fill reads checkpoints, progress and the taken responses.
func (t *tx) fill(js *jobs) error {
	if len(js.data) > 0 {
		err := t.query(qData, func(r sqldb.Row) error {
			j := js.byID[sojourn.ID(r.Int(0))]
			j.Checkpoint, j.Progress = r.Bytes(1), r.Text(2)
			return nil
		}, js.data)
		if err != nil {
			return err
		}
	}
	if len(js.awaits) > 0 {
		err := t.query(qKeptKeys, func(r sqldb.Row) error {
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
	return t.query(qInHand, func(r sqldb.Row) error {
		resp := scanResponse(r)
		j := js.byID[resp.Job]
		if j.Response == nil {
			j.Response = &resp
		}
		j.Responses = append(j.Responses, &resp)
		return nil
	}, js.hand)
}
