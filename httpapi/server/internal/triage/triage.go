// Package triage serves failure groups and stored operations. The store checks the grants: a token
// sees only groups of queues and kinds that it may read, and its own operations.
package triage

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/failure"
)

// ListFailuresIn is the request of ListFailures.
type ListFailuresIn struct {
	Queue  string `query:"queue"`
	Kind   string `query:"kind"`
	Reason string `query:"reason"`
	Open   bool   `query:"open" doc:"only groups with failed jobs that are neither redriven nor deleted"`
	Muted  bool   `query:"muted" doc:"also muted groups"`
	After  string `query:"after" doc:"the next of the page before"`
	Limit  int    `query:"limit" doc:"1 to 1,000; default 100"`
}

// ListFailures lists failure groups.
func ListFailures(ctx context.Context, s sojourn.Store, in *ListFailuresIn) (wire.FailuresAnswer, error) {
	limit := in.Limit
	if limit == 0 {
		limit = 100
	}
	found, err := failure.StoreOf(s).Failures(ctx, failure.Query{Queue: in.Queue, Kind: in.Kind, Reason: in.Reason, Open: in.Open, Muted: in.Muted, After: in.After, Limit: limit})
	out := wire.FailuresAnswer{Failures: wire.FailuresOf(found)}
	if err == nil && len(found) == limit {
		out.Next = found[limit-1].Cursor()
	}
	return out, err
}

// GetFailureIn is the request of GetFailure.
type GetFailureIn struct {
	Failure string `path:"failure"`
}

// GetFailure shows one failure group with exact counts.
func GetFailure(ctx context.Context, s sojourn.Store, in *GetFailureIn) (wire.Failure, error) {
	found, err := failure.StoreOf(s).Failures(ctx, failure.Query{ID: in.Failure})
	if err != nil {
		return wire.Failure{}, err
	}
	return wire.Failure{Group: found[0]}, nil
}

// MuteFailureIn is the request of MuteFailure.
type MuteFailureIn struct {
	Failure string `path:"failure"`
	Body    wire.FailureMute
}

// Detail is what the audit log has of the request.
func (in *MuteFailureIn) Detail() any { return in.Body }

// MuteFailure mutes a failure group or ends its mute.
func MuteFailure(ctx context.Context, s sojourn.Store, in *MuteFailureIn) (wire.Failure, error) {
	g, err := failure.StoreOf(s).MuteFailure(ctx, in.Failure, failure.Mute{Off: in.Body.Off, For: in.Body.For, By: by(ctx, in.Body.By), Reason: in.Body.Reason})
	return wire.Failure{Group: g}, err
}

// by is the name of a caller, with the name that it states.
func by(ctx context.Context, name string) string {
	c := access.CallerOf(ctx)
	switch {
	case c == nil:
		return name
	case name == "":
		return c.Token
	}
	return c.Token + "/" + name
}

// Narrow gives a filter by failure group the queue and the kind of the group, unless the caller may
// use the verb everywhere. A group that the caller may not read does not exist for it.
func Narrow(ctx context.Context, s sojourn.Store, verb access.Verb, f *sojourn.Filter) error {
	if f.Failure == "" || access.CallerOf(ctx).Allows(verb, "", "") {
		return nil
	}
	found, err := failure.StoreOf(s).Failures(ctx, failure.Query{ID: f.Failure})
	if err != nil {
		return err
	}
	for _, c := range []struct {
		of   *string
		want string
	}{{&f.Queue, found[0].Queue}, {&f.Kind, found[0].Kind}} {
		if *c.of != "" && *c.of != c.want {
			return sojourn.Invalid("failure", "group %s belongs to queue %s and kind %s; leave both out of the filter", f.Failure, found[0].Queue, found[0].Kind)
		}
		*c.of = c.want
	}
	return nil
}
