package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

func queuePath(name, part string) string { return "/v1/queues/" + url.PathEscape(name) + part }

// Queues lists queues with their counts: those named, or page after page all of them.
func (s *Store) Queues(ctx context.Context, names ...string) (all []sojourn.QueueStatus, err error) {
	if len(names) > 0 {
		a, err := get[wire.QueuesAnswer](ctx, s, "/v1/queues?"+url.Values{"name": names}.Encode())
		return a.Queues, err
	}
	for f := (sojourn.QueueFilter{Limit: sojourn.MaxFind}); ; {
		p, err := s.ListQueues(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Queues...)
		if f.After = p.Next; f.After == "" {
			return all, nil
		}
	}
}

// ListQueues lists a page of queues with their counts.
func (s *Store) ListQueues(ctx context.Context, f sojourn.QueueFilter) (sojourn.QueuePage, error) {
	q := url.Values{}
	if f.After != "" {
		q.Set("after", f.After)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	a, err := get[wire.QueuesAnswer](ctx, s, "/v1/queues?"+q.Encode())
	return sojourn.QueuePage{Queues: a.Queues, Next: a.Next}, err
}

// SetQueue stores settings.
func (s *Store) SetQueue(ctx context.Context, name string, set sojourn.QueueSettings) error {
	if err := set.Validate(); err != nil {
		return err
	}
	return s.call(ctx, request{method: http.MethodPut, path: queuePath(name, ""), in: set, safety: safe})
}

// ForgetQueue removes an empty queue.
func (s *Store) ForgetQueue(ctx context.Context, name string) error {
	return s.call(ctx, request{method: http.MethodDelete, path: queuePath(name, ""), safety: unsafe})
}

// HoldQueue starts nothing of a queue for so long.
func (s *Store) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	return s.call(ctx, request{method: http.MethodPost, path: queuePath(queue, "/hold"), in: wire.HoldRequest{For: d, Reason: reason}, safety: safe})
}

// WhyQueue evaluates the gates for the first jobs of a queue.
func (s *Store) WhyQueue(ctx context.Context, queue string) (sojourn.QueueWhy, error) {
	return get[sojourn.QueueWhy](ctx, s, queuePath(queue, "/why"))
}
