package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/event"
)

// NewFollower is a follower to be made.
type NewFollower struct {
	Queue  string          `json:"queue,omitempty" doc:"only events of jobs in this queue"`
	Kind   string          `json:"kind,omitempty" doc:"only events of jobs of this kind"`
	Key    string          `json:"key,omitempty" doc:"only events of jobs with this key"`
	Tag    string          `json:"tag,omitempty" doc:"only events of jobs with this tag"`
	States []sojourn.State `json:"states,omitempty" doc:"the states after the transition; default all"`
}

// NewFollowerOf is f for the wire.
func NewFollowerOf(f event.Filter) NewFollower { return NewFollower(f) }

// Domain is n for a store.
func (n NewFollower) Domain() event.Filter { return event.Filter(n) }

// EventRead acknowledges and reads events.
type EventRead struct {
	Ack   event.Position `json:"ack,omitempty" doc:"acknowledges all events up to this position: that of an event, or the next of a page"`
	After event.Position `json:"after,omitempty" doc:"reads behind this position, which the follower has got, and acknowledges nothing"`
	Limit int            `json:"limit,omitempty" doc:"1 to 1,000; default 100"`
	Wait  time.Duration  `json:"wait,omitempty" doc:"how long to wait for an event, at most 1m"`
}

// Follower is a follower of events.
type Follower struct {
	Name      string         `json:"name"`
	Owner     string         `json:"owner,omitempty" doc:"the access token that has made it"`
	Filter    NewFollower    `json:"filter"`
	Position  event.Position `json:"position" doc:"of the last acknowledged event"`
	Lag       int64          `json:"lag" doc:"stored events after it, also those that do not match the filter, at most 10,000; of a token that may not read all jobs those that match, among the next 1,000"`
	Behind    float64        `json:"behind" doc:"age in seconds of the oldest of them"`
	Gap       bool           `json:"gap,omitempty" doc:"events were deleted before it has read them"`
	CreatedAt time.Time      `json:"created_at"`
	SeenAt    time.Time      `json:"seen_at" doc:"when it was read last, to the hour"`
}

// FollowerOf is s for the wire.
func FollowerOf(s event.Status) Follower {
	return Follower{s.Name, s.Owner, NewFollowerOf(s.Filter), s.Position, s.Lag, s.Behind, s.Gap, s.CreatedAt, s.SeenAt}
}

// Domain is f for a client.
func (f Follower) Domain() event.Status {
	return event.Status{Name: f.Name, Owner: f.Owner, Filter: f.Filter.Domain(), Position: f.Position, Lag: f.Lag, Behind: f.Behind, Gap: f.Gap, CreatedAt: f.CreatedAt, SeenAt: f.SeenAt}
}

// FollowersAnswer has followers in the order of their names.
type FollowersAnswer struct {
	Followers []Follower `json:"followers"`
}

// FollowersOf shows followers.
func FollowersOf(all []event.Status) []Follower {
	out := make([]Follower, len(all))
	for i, f := range all {
		out[i] = FollowerOf(f)
	}
	return out
}

// EventPage has the events after a follower's position.
type EventPage struct{ event.Page }

// EventPageOf shows a page.
func EventPageOf(p event.Page) EventPage {
	if p.Events == nil {
		p.Events = []event.Event{}
	}
	return EventPage{p}
}
