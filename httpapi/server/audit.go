package server

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
)

const auditPatience = 5 * time.Second

// audit records the action that an operator did or tried, in a separate transaction after it. If
// that transaction fails, the complete entry is written to the server's log.
func (c *call) audit(rt route, err error) {
	store, keeps := c.store.(access.AuditStore)
	if !keeps || rt.class == admission.Reading || rt.verb != access.VerbOperate && rt.verb != access.VerbAdmin && rt.tag != "schedules" {
		return
	}
	e := access.AuditEntry{Who: c.who.id, Action: rt.id, Target: c.r.URL.Path, From: c.r.RemoteAddr}
	e.Request, _ = c.r.Context().Value(requestKey{}).(string)
	if c.detail != nil {
		b, _ := wire.Codec{}.Marshal(c.detail)
		e.Detail = string(b)
	}
	if err != nil {
		e.Code = c.coded(c.r, e.Request, err).Code
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), auditPatience)
	defer cancel()
	if err := store.Audit(ctx, e); err != nil {
		c.log.Error("not in the audit log", "error", err, "who", e.Who, "action", e.Action, "target", e.Target, "detail", e.Detail, "code", e.Code,
			"request_id", e.Request)
	}
}

type listAuditIn struct {
	Before int64     `query:"before" doc:"the last seq of the page before"`
	Limit  int       `query:"limit" doc:"1 to 1,000; default 100"`
	Who    string    `query:"who" doc:"only what the token with this id did"`
	Since  time.Time `query:"since" doc:"only from this time on"`
}

func listAudit(c *call, in *listAuditIn) (wire.AuditAnswer, error) {
	if err := c.who.may(access.VerbAdmin, "", ""); err != nil {
		return wire.AuditAnswer{}, err
	}
	store, keeps := c.store.(access.AuditReader)
	if !keeps {
		return wire.AuditAnswer{}, unsupported()
	}
	entries, err := store.AuditLog(c.ctx, access.AuditFilter{Before: in.Before, Limit: in.Limit, Who: in.Who, Since: in.Since})
	return wire.AuditAnswer{Entries: append([]access.AuditEntry{}, entries...)}, err
}
