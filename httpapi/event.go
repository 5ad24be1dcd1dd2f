package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/event"
)

var _ event.Store = (*Store)(nil)

func followerPath(name, part string) string { return "/v1/followers/" + url.PathEscape(name) + part }

// Follow makes a follower of events.
func (s triageCalls) Follow(ctx context.Context, name string, f event.Filter) (out event.Status, err error) {
	if err := sojourn.ValidName("follower", name); err != nil {
		return out, err
	}
	if err := f.Validate(); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPut, path: followerPath(name, ""), in: wire.NewFollowerOf(f), out: &out, safety: safe})
	return out, err
}

// ReadEvents acknowledges and reads events of a follower.
func (s triageCalls) ReadEvents(ctx context.Context, r event.Read) (out event.Page, err error) {
	if err := sojourn.ValidLimit(r.Limit); err != nil {
		return out, err
	}
	if err := sojourn.ValidName("follower", r.Follower); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPost, path: followerPath(r.Follower, "/read"), in: wire.EventRead{Ack: r.Ack, After: r.After, Limit: r.Limit, Wait: min(r.Wait, sojourn.MaxWait)},
		out: &out, safety: safe})
	return out, err
}

// Followers lists followers of events.
func (s triageCalls) Followers(ctx context.Context) (out []event.Status, err error) {
	a, err := get[wire.FollowersAnswer](ctx, s.transport, "/v1/followers")
	for _, f := range a.Followers {
		out = append(out, f.Domain())
	}
	return out, err
}

// Unfollow deletes a follower of events.
func (s triageCalls) Unfollow(ctx context.Context, name string) error {
	return s.call(ctx, request{method: http.MethodDelete, path: followerPath(name, ""), safety: unsafe})
}
