package server

import (
	"context"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/events"
	"github.com/sojourn-queue/sojourn/store/event"
)

type readEventsIn struct {
	Follower string `path:"follower"`
	Body     wire.EventRead
}

func readEvents(c *call, in *readEventsIn) (wire.EventPage, error) {
	r := event.Read{Follower: in.Follower, Ack: in.Body.Ack, After: in.Body.After, Limit: in.Body.Limit, Wait: in.Body.Wait}
	ctx, end, err := c.waiting(r.Wait, func(h *holder) error { return h.has(access.VerbRead) })
	if err != nil {
		return wire.EventPage{}, err
	}
	defer end()
	found, err := c.eventsOf(ctx, r)
	return wire.EventPageOf(found), err
}

// eventsOf reads events by the grants of the token at the end of the read.
func (c *call) eventsOf(ctx context.Context, r event.Read) (event.Page, error) {
	found, err := event.StoreOf(c.store).ReadEvents(access.WithCaller(ctx, c.who.caller), r)
	if r.Wait > tokensFresh && (err == nil || c.cut()) { // the grants may have changed meanwhile
		if err = c.renew(); err == nil {
			r.Wait = 0
			found, err = event.StoreOf(c.store).ReadEvents(c.ctx, r)
		}
	}
	return found, err
}

type streamEventsIn struct{ events.StreamIn }

func (in *streamEventsIn) defaults() { in.Wait = events.StreamTime }

// streamEvents sends events until the time is over, the token is no longer valid, the caller has
// gone or the server drains.
func streamEvents(c *call, in *streamEventsIn) (eventStream, error) {
	ctx, end, err := c.waiting(events.StreamTime, func(h *holder) error { return h.has(access.VerbRead) })
	if err != nil {
		return eventStream{}, err
	}
	defer end()
	return eventStream{}, events.Stream(ctx, c.w, &in.StreamIn, c.r.Header.Get("Last-Event-ID"), c.eventsOf)
}

// eventStream is the answer of an operation that has written server-sent events.
type eventStream struct{}
