package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/layers"
)

func queuePath(name, part string) string { return "/v1/queues/" + url.PathEscape(name) + part }

// queueCalls are the calls about queues.
type queueCalls struct{ *transport }

// Queues lists queues with their counts: those named, or page after page all of them.
func (s *queueCalls) Queues(ctx context.Context, names ...string) (all []sojourn.QueueStatus, err error) {
	if len(names) > 0 {
		a, err := get[wire.QueuesAnswer](ctx, s.transport, "/v1/queues?"+url.Values{"name": names}.Encode())
		return a.Queues, err
	}
	for after := ""; ; {
		p, err := s.ListQueues(ctx, after, sojourn.MaxFind)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if after = p.Next; after == "" {
			return all, nil
		}
	}
}

// ListQueues lists a page of queues with their counts.
func (s *queueCalls) ListQueues(ctx context.Context, after string, limit int) (sojourn.Page[sojourn.QueueStatus], error) {
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	a, err := get[wire.QueuesAnswer](ctx, s.transport, "/v1/queues?"+q.Encode())
	return sojourn.Page[sojourn.QueueStatus]{Items: a.Queues, Next: a.Next}, err
}

// DeclareQueue replaces the declared settings of a queue.
func (s *queueCalls) DeclareQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, request{method: http.MethodPut, path: queuePath(name, "/declared"), in: q, safety: safe})
}

// UpdateQueue changes single settings for an operator.
func (s *queueCalls) UpdateQueue(ctx context.Context, name string, p sojourn.QueuePatch) (sojourn.QueueStatus, error) {
	r := request{method: http.MethodPatch, path: queuePath(name, ""), in: layers.Merge(p, p), safety: safe} // null would be a reset
	if p.Revision != 0 {                                                                                    // repeated, it would be refused for its own change
		r.safety = unsafe
	}
	return s.changeQueue(ctx, r)
}

// PauseQueue pauses or resumes a queue, or kinds in it.
func (s *queueCalls) PauseQueue(ctx context.Context, name string, paused bool, kinds ...string) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, request{method: http.MethodPost, path: queuePath(name, "/pause"), in: wire.PauseRequest{Paused: paused, Kinds: kinds}, safety: safe})
}

// SetQueue makes the settings in force.
func (s *queueCalls) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return s.changeQueue(ctx, request{method: http.MethodPut, path: queuePath(name, ""), in: q, safety: safe})
}

func (s *queueCalls) changeQueue(ctx context.Context, r request) (status sojourn.QueueStatus, err error) {
	r.out = &status
	err = s.call(ctx, r)
	return status, err
}

// ForgetQueue removes a queue, with Force also what is in it. A repeated slice does the next one.
func (s *queueCalls) ForgetQueue(ctx context.Context, name string, o sojourn.ForgetOptions) (f sojourn.Forgotten, err error) {
	q := url.Values{}
	for name, given := range map[string]bool{"force": o.Force, "dry_run": o.DryRun} {
		if given {
			q.Set(name, "true")
		}
	}
	for name, text := range map[string]string{"dependents": o.Dependents, "by": o.By, "reason": o.Reason} {
		if text != "" {
			q.Set(name, text)
		}
	}
	err = s.call(ctx, request{method: http.MethodDelete, path: queuePath(name, "?"+q.Encode()), out: &f, safety: unsafe})
	return f, err
}

// HoldQueue starts nothing of a queue for so long.
func (s *queueCalls) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	return s.call(ctx, request{method: http.MethodPost, path: queuePath(queue, "/hold"), in: wire.HoldRequest{For: d, Reason: reason}, safety: safe})
}

// WhyQueue evaluates the gates for the first jobs of a queue.
func (s *queueCalls) WhyQueue(ctx context.Context, queue string) (sojourn.QueueWhy, error) {
	return get[sojourn.QueueWhy](ctx, s.transport, queuePath(queue, "/why"))
}
