package server

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

const auditPatience = 5 * time.Second

// audit writes down what an operator did or tried. It is a transaction of its own, after the action: one that fails is in the server's log, with all
// that it says.
func (c *call) audit(rt route, err error) {
	store, keeps := c.store.(sojourn.AuditStore)
	if !keeps || rt.class == reading || rt.verb != sojourn.VerbOperate && rt.verb != sojourn.VerbAdmin {
		return
	}
	e := sojourn.AuditEntry{Who: c.who.id, Action: rt.id, Target: c.r.URL.Path, From: c.r.RemoteAddr}
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
	Before int64 `query:"before" doc:"the last seq of the page before"`
	Limit  int   `query:"limit" doc:"1 to 1,000; default 100"`
}

// AuditAnswer is newest first.
type AuditAnswer struct {
	Entries []sojourn.AuditEntry `json:"entries"`
}

func listAudit(c *call, in *listAuditIn) (AuditAnswer, error) {
	if err := c.who.may(sojourn.VerbAdmin, "", ""); err != nil {
		return AuditAnswer{}, err
	}
	store, keeps := c.store.(sojourn.AuditStore)
	if !keeps {
		return AuditAnswer{}, unsupported()
	}
	entries, err := store.AuditLog(c.ctx, in.Before, in.Limit)
	return AuditAnswer{Entries: entries}, err
}
