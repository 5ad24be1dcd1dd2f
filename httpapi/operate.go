package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/workers"
)

var (
	_ workers.Store  = (*Store)(nil)
	_ workers.Leaver = (*Store)(nil)
)

// Workers lists workers; those that wait at the server are shown as waiting.
func (s *Store) Workers(ctx context.Context, after string, limit int, ids ...string) ([]sojourn.WorkerStatus, error) {
	q := url.Values{"worker": ids}
	if after != "" {
		q.Set("after", after)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	a, err := get[wire.WorkersAnswer](ctx, s.transport, "/v1/workers?"+q.Encode())
	return a.Workers, err
}

// DrainWorker gives a worker no more jobs.
func (s *Store) DrainWorker(ctx context.Context, worker string) error {
	return s.call(ctx, request{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(worker) + "/drain", safety: safe})
}

// ForgetWorker removes a worker and ends its leases.
func (s triageCalls) ForgetWorker(ctx context.Context, worker string, o workers.Forget) (out workers.Removed, err error) {
	if err := sojourn.ValidName("worker", worker); err != nil {
		return out, err
	}
	path := "/v1/workers/" + url.PathEscape(worker)
	if o.Force {
		path += "?force=true"
	}
	err = s.call(ctx, request{method: http.MethodDelete, path: path, out: &out, safety: unsafe})
	return out, err
}

// LeaveWorker takes a worker that has stopped off the list.
func (s triageCalls) LeaveWorker(ctx context.Context, worker string) error {
	if err := sojourn.ValidName("worker", worker); err != nil {
		return err
	}
	return s.call(ctx, request{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(worker) + "/leave", safety: safe})
}

// AuditLog lists what operators did through servers, newest first.
func (s *Store) AuditLog(ctx context.Context, f access.AuditFilter) ([]access.AuditEntry, error) {
	q := url.Values{}
	for name, n := range map[string]int64{"before": f.Before, "limit": int64(f.Limit)} {
		if n != 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if f.Who != "" {
		q.Set("who", f.Who)
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	a, err := get[wire.AuditAnswer](ctx, s.transport, "/v1/audit?"+q.Encode())
	return a.Entries, err
}
