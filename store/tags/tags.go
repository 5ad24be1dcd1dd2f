// Package tags lists the tags of jobs: how many jobs have each tag, and the jobs of a tag in the
// order in which they got it. Jobs with a tag and further conditions are found by
// sojourn.Filter.Tag, in the order of their ids.
package tags

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Query selects the tags that are counted.
type Query struct {
	Queue string // only jobs of this queue; "" = of all
	Kind  string // only jobs of this kind; "" = of all
	Min   int    // only tags that so many jobs have; 0 = 1
	Limit int    // 1 to sojourn.MaxFind; 0 = 100
}

// Validate checks the ranges.
func (q Query) Validate() error {
	if q.Min < 0 {
		return sojourn.Invalid("min", "%d is negative: it is the least number of jobs of a tag", q.Min)
	}
	return sojourn.ValidLimit(q.Limit)
}

// Count is how many jobs have a tag.
type Count struct {
	Tag  string `json:"tag"`
	Jobs int64  `json:"jobs"` // live and final
}

// JobsQuery selects a page of the jobs of a tag.
type JobsQuery struct {
	Tag    string // required
	After  string // Page.Next of the page before; "" = from the start
	Newest bool   // the latest tagging first
	Limit  int    // jobs of a page, 1 to sojourn.MaxFind; 0 = 100
}

// Validate checks the ranges and the cursor.
func (q JobsQuery) Validate() error {
	if err := sojourn.ValidName("tag", q.Tag); err != nil {
		return err
	}
	if _, _, err := q.From(); err != nil {
		return err
	}
	return sojourn.ValidLimit(q.Limit)
}

// From returns the last entry of the page before: its time in microseconds and its job. Both are 0
// for the first page.
func (q JobsQuery) From() (us int64, job sojourn.ID, err error) {
	if q.After == "" {
		return 0, 0, nil
	}
	at, id, _ := strings.Cut(q.After, "-")
	us, failed := strconv.ParseInt(at, 10, 64)
	n, failedToo := strconv.ParseInt(id, 10, 64)
	if failed != nil || failedToo != nil || us < 0 || n < 1 {
		return 0, 0, sojourn.Invalid("after", "%.64q is not a cursor: pass the Next of the page before", q.After)
	}
	return us, sojourn.ID(n), nil
}

// Entry is a job with a tag.
type Entry struct {
	Job   sojourn.ID `json:"job"`
	Queue string     `json:"queue"`
	Kind  string     `json:"kind"`
	At    time.Time  `json:"at"` // when the job got the tag, in microseconds
}

// Cursor is the place of the entry, for JobsQuery.After.
func (e Entry) Cursor() string { return fmt.Sprintf("%d-%d", e.At.UnixMicro(), e.Job) }

// Store is an optional ability of a sojourn.Store: it lists tags. Safe for concurrent use. On
// behalf of an access token it covers only jobs in queues and of kinds that the token may read.
type Store interface {
	// Tags returns tags with their counts: those of the most jobs first, then by name.
	Tags(ctx context.Context, q Query) ([]Count, error)
	// TaggedJobs returns a page of the jobs of a tag, in the order in which they got it. A page
	// with as many entries as the limit may have one after it.
	TaggedJobs(ctx context.Context, q JobsQuery) ([]Entry, error)
}

// Tags are the calls about tags of a client. Safe for concurrent use.
type Tags struct{ store Store }

// Of returns the calls about tags of a client. If its store cannot list tags, each call returns an
// error with CodeInvalid. The stores of this module can.
func Of(c *sojourn.Client) Tags { return Tags{StoreOf(c.Store())} }

// StoreOf is a store's ability to list tags. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if tags, ok := s.(Store); ok {
		return tags
	}
	return none{}
}

// Counts returns tags with the numbers of their jobs: those of the most jobs first, then by name.
// It reads an index entry for each tag of each job, so it takes about a second for some millions of
// them.
func (t Tags) Counts(ctx context.Context, q Query) ([]Count, error) { return t.store.Tags(ctx, q) }

// Jobs returns a page of the jobs of a tag, in the order in which they got it. Adding a tag that a
// job has already does not move it.
func (t Tags) Jobs(ctx context.Context, q JobsQuery) (page sojourn.Page[Entry], err error) {
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	if page.Items, err = t.store.TaggedJobs(ctx, q); err == nil && len(page.Items) == limit {
		page.Next = page.Items[limit-1].Cursor()
	}
	return page, err
}

// none is a store that cannot list tags.
type none struct{}

var errNone = sojourn.Invalid("store", "this store cannot list tags; use one of store/sqlite, store/postgres or httpapi")

func (none) Tags(context.Context, Query) ([]Count, error)           { return nil, errNone }
func (none) TaggedJobs(context.Context, JobsQuery) ([]Entry, error) { return nil, errNone }
