// Package tags serves lists of tags. The store checks the grants: a token sees the jobs of queues
// and kinds that it may read.
package tags

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/tags"
)

// CountIn is the request of Count.
type CountIn struct {
	Queue string `query:"queue"`
	Kind  string `query:"kind"`
	Min   int    `query:"min" doc:"only tags that so many jobs have; default 1"`
	Limit int    `query:"limit" doc:"1 to 1000; default 100"`
}

// Count counts the jobs of tags.
func Count(ctx context.Context, s sojourn.Store, in *CountIn) (wire.TagsAnswer, error) {
	found, err := tags.StoreOf(s).Tags(ctx, tags.Query{Queue: in.Queue, Kind: in.Kind, Min: in.Min, Limit: in.Limit})
	return wire.TagsAnswer{Tags: append([]tags.Count{}, found...)}, err
}

// JobsIn is the request of Jobs.
type JobsIn struct {
	Tag    string `path:"tag"`
	After  string `query:"after" doc:"next of the page before"`
	Newest bool   `query:"newest" doc:"the latest tagging first"`
	Limit  int    `query:"limit" doc:"1 to 1000; default 100"`
}

// Jobs lists a page of the jobs of a tag.
func Jobs(ctx context.Context, s sojourn.Store, in *JobsIn) (wire.TaggedJobsAnswer, error) {
	page, err := tags.Of(sojourn.NewClient(s)).Jobs(ctx, tags.JobsQuery{Tag: in.Tag, After: in.After, Newest: in.Newest, Limit: in.Limit})
	return wire.TaggedJobsAnswer{Jobs: append([]tags.Entry{}, page.Items...), Next: page.Next}, err
}
