package wire

import "github.com/sojourn-queue/sojourn/store/tags"

// TagsAnswer has the tags of the most jobs first.
type TagsAnswer struct {
	Tags []tags.Count `json:"tags"`
}

// TaggedJobsAnswer has a page of the jobs of a tag, in the order in which they got it.
type TaggedJobsAnswer struct {
	Jobs []tags.Entry `json:"jobs"`
	Next string       `json:"next,omitempty" doc:"the cursor of the next page; absent on the last one"`
}
