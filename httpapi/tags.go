package httpapi

import (
	"context"
	"net/url"
	"strconv"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/tags"
)

var _ tags.Store = (*Store)(nil)

// Tags counts the jobs of tags.
func (s triageCalls) Tags(ctx context.Context, q tags.Query) ([]tags.Count, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	v := url.Values{}
	setTexts(v, map[string]string{"queue": q.Queue, "kind": q.Kind})
	setNumbers(v, map[string]int{"min": q.Min, "limit": q.Limit})
	a, err := get[wire.TagsAnswer](ctx, s.transport, "/v1/tags?"+v.Encode())
	return a.Tags, err
}

// TaggedJobs lists the jobs of a tag.
func (s triageCalls) TaggedJobs(ctx context.Context, q tags.JobsQuery) ([]tags.Entry, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	v := url.Values{}
	setTexts(v, map[string]string{"after": q.After})
	setNumbers(v, map[string]int{"limit": q.Limit})
	if q.Newest {
		v.Set("newest", "true")
	}
	a, err := get[wire.TaggedJobsAnswer](ctx, s.transport, "/v1/tags/"+url.PathEscape(q.Tag)+"?"+v.Encode())
	return a.Jobs, err
}

// setTexts sets the parameters that are not empty.
func setTexts(v url.Values, texts map[string]string) {
	for name, text := range texts {
		if text != "" {
			v.Set(name, text)
		}
	}
}

// setNumbers sets the parameters that are not 0.
func setNumbers(v url.Values, numbers map[string]int) {
	for name, n := range numbers {
		if n != 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
}
