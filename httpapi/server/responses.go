package server

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/rules"
)

type respondOneIn struct{ Body wire.Response }

func respondOne(c *call, in *respondOneIn) (sojourn.Responded, error) {
	as, err := c.respond([]sojourn.Response{in.Body.Domain()})
	if err != nil {
		return sojourn.Responded{}, err
	}
	return as[0], nil
}

type respondBatchIn struct{ Body wire.RespondRequest }

func respondBatch(c *call, in *respondBatchIn) (wire.RespondAnswer, error) {
	as, err := c.respond(wire.Each(in.Body.Responses, wire.Response.Domain))
	return wire.RespondAnswer{Responses: as}, err
}

// respond checks the caller's permission for the target of each response. A capability in a
// response is itself a permission.
func (c *call) respond(rs []sojourn.Response) ([]sojourn.Responded, error) {
	for i, r := range rs {
		if r.Token != "" || c.who.everywhere(access.VerbRespond) {
			continue
		}
		if r.Job != 0 {
			jobs, err := c.store.Find(c.ctx, sojourn.Filter{IDs: []sojourn.ID{r.Job}})
			if err != nil {
				return nil, err
			}
			if len(jobs) == 0 || !c.who.allows(access.VerbRespond, jobs[0].Queue, jobs[0].Kind) {
				return nil, sojourn.NotFound("no job has the id %d", r.Job)
			}
			continue
		}
		if !c.who.allows(access.VerbRespond, "", r.Kind) { // the queue of the job is not known: a pattern for queues does not help
			return nil, sojourn.AtIndex(i, forbidden(access.VerbRespond, "*", r.Kind))
		}
	}
	return c.store.Respond(c.ctx, rs)
}

func listInbox(c *call, in *wire.InboxFilter) (wire.InboxAnswer, error) {
	if err := c.who.may(access.VerbReadArgs, "", in.Kind); err != nil {
		return wire.InboxAnswer{}, err
	}
	rs, err := c.store.Inbox(c.ctx, in.Domain())
	for i := range rs {
		rs[i].Token = ""
	}
	return wire.InboxAnswer{Responses: wire.Each(rs, wire.ResponseOf)}, err
}

type editInboxIn struct{ Body wire.InboxEdit }

func editInbox(c *call, in *editInboxIn) (sojourn.Responded, error) {
	c.detail = in.Body
	if err := c.who.may(access.VerbOperate, "", ""); err != nil {
		return sojourn.Responded{}, err
	}
	e := rules.InboxEdit(in.Body)
	if !c.who.anyone {
		e.By = c.who.by(e.By)
	}
	return c.client.Store().EditInbox(c.ctx, e.Seq, e.Action, e.To())
}

func countInbox(c *call, _ *nothingIn) (sojourn.InboxCounts, error) {
	if err := c.who.may(access.VerbRead, "", ""); err != nil {
		return sojourn.InboxCounts{}, err
	}
	return c.client.Inbox().Counts(c.ctx)
}

type nearMissesIn struct {
	Kind string `query:"kind"`
	Key  string `query:"key"`
}

func nearMisses(c *call, in *nearMissesIn) (wire.NearAnswer, error) {
	if err := c.who.may(access.VerbRead, "", in.Kind); err != nil {
		return wire.NearAnswer{}, err
	}
	near, err := c.client.Inbox().NearMisses(c.ctx, in.Kind, in.Key)
	return wire.NearAnswer{Near: near}, err
}
