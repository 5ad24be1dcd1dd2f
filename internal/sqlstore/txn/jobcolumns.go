package txn

import (
	"encoding/json"
	"fmt"

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

// ScanJobColumns reads JobColumnList, and the args after them.
func ScanJobColumns(r sqldb.Row, from int) *JobColumns {
	c := ScanJobHead(r, from)
	c.Args = r.Bytes(from + JobColumnCount)
	return c
}

// ScanHead reads JobColumnList.
func ScanJobHead(r sqldb.Row, from int) *JobColumns {
	return &JobColumns{Group: r.Text(from), ContentType: r.Text(from + 1), Tags: r.Text(from + 2), Meta: r.Text(from + 3),
		OrigRunAt: r.Int(from + 4), Created: r.Int(from + 5)}
}
