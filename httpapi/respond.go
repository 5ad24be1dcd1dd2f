package httpapi

import (
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// inboxCalls are the calls about responses.
type inboxCalls struct{ *transport }

// Respond stores responses.
func (s *inboxCalls) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	how := safe
	for _, r := range rs {
		if r.MessageID == "" {
			how = unsafe
		}
	}
	a, err := post(ctx, s.transport, "/v1/responses/batch", wire.RespondRequest{Responses: wire.Each(rs, wire.ResponseOf)}, how, 0, func(a wire.RespondAnswer) bool {
		return len(a.Responses) == len(rs) && !slices.ContainsFunc(a.Responses, func(r sojourn.Responded) bool { return r.Outcome == "" })
	})
	return a.Responses, err
}

// Inbox lists responses.
func (s *inboxCalls) Inbox(ctx context.Context, f sojourn.InboxFilter) ([]sojourn.Response, error) {
	if f.Outcomes != nil && len(f.Outcomes) == 0 { // a query string has no empty list
		return nil, s.ended(ctx, request{}, false)
	}
	a, err := get[wire.InboxAnswer](ctx, s.transport, "/v1/inbox?"+inboxQuery(f).Encode())
	if err != nil {
		return nil, err
	}
	return wire.Each(a.Responses, wire.Response.Domain), nil
}

func inboxQuery(f sojourn.InboxFilter) url.Values {
	q := url.Values{}
	for _, o := range f.Outcomes {
		q.Add("outcome", string(o))
	}
	for name, v := range map[string]string{"kind": f.Kind, "key": f.Key, "source": f.Source} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, n := range map[string]int64{"job": int64(f.Job), "limit": int64(f.Limit)} {
		if n != 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if f.After != "" {
		q.Set("before", f.After)
	}
	return q
}

// EditInbox matches, retries or discards one response. Match and retry store a response under a
// message id of their own, so a repeated call is a duplicate.
func (s *inboxCalls) EditInbox(ctx context.Context, seq int64, action string, to sojourn.Response) (sojourn.Responded, error) {
	return post[sojourn.Responded](ctx, s.transport, "/v1/inbox/edit", wire.InboxEdit{Seq: seq, Action: action, Job: to.Job, Kind: to.Kind, Key: to.Key, By: to.By}, safe, 0, func(r sojourn.Responded) bool { return r.Outcome != "" })
}

// CountInbox counts the responses in the inbox.
func (s *inboxCalls) CountInbox(ctx context.Context) (sojourn.InboxCounts, error) {
	return get[sojourn.InboxCounts](ctx, s.transport, "/v1/inbox/counts")
}

// NearMisses finds live jobs and early or unmatched responses with a similar key.
func (s *inboxCalls) NearMisses(ctx context.Context, kind, key string) ([]sojourn.NearMiss, error) {
	q := url.Values{"kind": {kind}, "key": {key}}
	a, err := get[wire.NearAnswer](ctx, s.transport, "/v1/inbox/near?"+q.Encode())
	return a.Near, err
}
