package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

func queuePath(name, part string) string { return "/v1/queues/" + url.PathEscape(name) + part }

// Queues lists queues with their counts.
func (s *Store) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	q := url.Values{"name": names}
	a, err := get[wire.QueuesAnswer](ctx, s, "/v1/queues?"+q.Encode())
	return a.Queues, err
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

// WhyQueue asks the gates about the jobs in front of a queue's lines.
func (s *Store) WhyQueue(ctx context.Context, queue string) (sojourn.QueueWhy, error) {
	return get[sojourn.QueueWhy](ctx, s, queuePath(queue, "/why"))
}
