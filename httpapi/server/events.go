package server

import (
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/event"
)

type readEventsIn struct {
	Follower string `path:"follower"`
	Body     wire.EventRead
}

func readEvents(c *call, in *readEventsIn) (wire.EventPage, error) {
	r := event.Read{Follower: in.Follower, Ack: in.Body.Ack, Limit: in.Body.Limit, Wait: in.Body.Wait}
	ctx, end, err := c.waiting(r.Wait, func(h *holder) error { return h.has(access.VerbRead) })
	if err != nil {
		return wire.EventPage{}, err
	}
	defer end()
	found, err := event.StoreOf(c.store).ReadEvents(ctx, r)
	if r.Wait > tokensFresh && (err == nil || c.cut()) { // the grants may have changed meanwhile
		if err = c.renew(); err == nil {
			r.Wait = 0
			found, err = event.StoreOf(c.store).ReadEvents(c.ctx, r)
		}
	}
	return wire.EventPageOf(found), err
}
