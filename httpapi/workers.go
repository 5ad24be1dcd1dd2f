package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Workers lists workers; those that wait at the server are shown as waiting.
func (s *Store) Workers(ctx context.Context, f sojourn.WorkerFilter) ([]sojourn.WorkerStatus, error) {
	q := url.Values{"worker": f.Workers}
	if f.After != "" {
		q.Set("after", f.After)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	a, err := get[wire.WorkersAnswer](ctx, s, "/v1/workers?"+q.Encode())
	return a.Workers, err
}

// DrainWorker gives a worker no more jobs.
func (s *Store) DrainWorker(ctx context.Context, worker string) error {
	return s.call(ctx, request{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(worker) + "/drain", safety: safe})
}
