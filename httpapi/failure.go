package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/failure"
)

var _ failure.Store = (*Store)(nil)

// triageCalls are the calls about failure groups, stored operations, statistics and events.
type triageCalls struct{ *transport }

// Failures lists failure groups.
func (s triageCalls) Failures(ctx context.Context, q failure.Query) ([]failure.Group, error) {
	if err := sojourn.ValidLimit(q.Limit); err != nil {
		return nil, err
	}
	if q.ID != "" {
		g, err := get[failure.Group](ctx, s.transport, "/v1/failures/"+url.PathEscape(q.ID))
		if err != nil {
			return nil, err
		}
		return []failure.Group{g}, nil
	}
	v := url.Values{}
	for name, value := range map[string]string{"queue": q.Queue, "kind": q.Kind, "reason": q.Reason} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, on := range map[string]bool{"open": q.Open, "muted": q.Muted} {
		if on {
			v.Set(name, "true")
		}
	}
	setPage(v, q.After, q.Limit)
	a, err := get[wire.FailuresAnswer](ctx, s.transport, "/v1/failures?"+v.Encode())
	var out []failure.Group
	for _, g := range a.Failures {
		out = append(out, g.Group)
	}
	return out, err
}

// MuteFailure mutes a failure group or ends its mute.
func (s triageCalls) MuteFailure(ctx context.Context, id string, m failure.Mute) (out failure.Group, err error) {
	if err := m.Validate(); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPost, path: "/v1/failures/" + url.PathEscape(id) + "/mute",
		in: wire.FailureMute{Off: m.Off, For: m.For, By: m.By, Reason: m.Reason}, out: &out, safety: safe})
	return out, err
}
