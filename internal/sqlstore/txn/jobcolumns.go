package txn

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// JobColumns has the columns of sj_job that only readers and workers need, as they are stored: tags
// and meta as JSON, times in microseconds.
type JobColumns struct {
	Group, ContentType, Tags, Meta, Origin string
	OrigRunAt, Created                     int64
	Args                                   []byte // nil if they were not read
}

// JobColumnList lists the columns in a statement, as columns of sj_job j.
const JobColumnList = `j.grp, j.content_type, j.tags, j.meta, j.orig_run_at_us, j.created_us, j.origin`

// JobColumnCount is the number of columns in JobColumnList.
const JobColumnCount = 7

// SetOn decodes the columns into fields of j.
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
	return jobrow.SetOrigin(j, c.Origin)
}

// ScanJobColumns reads JobColumnList from column from on, and the args after it.
func ScanJobColumns(r sqldb.Row, from int) *JobColumns {
	c := ScanJobHead(r, from)
	c.Args = r.Bytes(from + JobColumnCount)
	return c
}

// ScanJobHead reads JobColumnList from column from on, without args.
func ScanJobHead(r sqldb.Row, from int) *JobColumns {
	return &JobColumns{Group: r.Text(from), ContentType: r.Text(from + 1), Tags: r.Text(from + 2), Meta: r.Text(from + 3),
		OrigRunAt: r.Int(from + 4), Created: r.Int(from + 5), Origin: r.Text(from + 6)}
}
