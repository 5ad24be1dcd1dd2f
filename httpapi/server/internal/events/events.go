// Package events serves followers of events. The store checks the grants: a follower belongs to
// the token that has made it.
package events

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/event"
)

// FollowIn is the request of Follow.
type FollowIn struct {
	Follower string `path:"follower"`
	Body     wire.NewFollower
}

// Follow makes a follower.
func Follow(ctx context.Context, s sojourn.Store, in *FollowIn) (wire.Follower, error) {
	out, err := event.StoreOf(s).Follow(ctx, in.Follower, in.Body.Domain())
	return wire.FollowerOf(out), err
}

// ListIn is the request of List.
type ListIn struct{}

// List lists followers.
func List(ctx context.Context, s sojourn.Store, _ *ListIn) (wire.FollowersAnswer, error) {
	found, err := event.StoreOf(s).Followers(ctx)
	return wire.FollowersAnswer{Followers: wire.FollowersOf(found)}, err
}

// FollowerIn names a follower.
type FollowerIn struct {
	Follower string `path:"follower"`
}

// Deleted is the answer of Delete.
type Deleted struct{}

// Delete deletes a follower.
func Delete(ctx context.Context, s sojourn.Store, in *FollowerIn) (Deleted, error) {
	return Deleted{}, event.StoreOf(s).Unfollow(ctx, in.Follower)
}
