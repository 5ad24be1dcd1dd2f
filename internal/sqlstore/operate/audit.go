package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// The counter's row serialises entries, so that the numbers have the order of the commits.
	qNextAudit = `insert into sj_meta (name, value) values ('next_audit', '2')
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + 1 as text) returning cast(value as bigint) - 1`
	qAddAudit  = `insert into sj_audit (seq, at_us, who, action, target, detail, code, request, source) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	qTrimAudit = `delete from sj_audit where seq in (select seq from sj_audit where seq <= $1 and at_us < $2 order by seq limit 100)`
)

// Audit adds an entry to the audit log; see access.AuditStore. Longer texts are cut.
func (s *Operator) Audit(ctx context.Context, e access.AuditEntry) error {
	e.Detail = sojourn.Cut(e.Detail, sojourn.MaxProgress)
	for _, text := range []*string{&e.Who, &e.Action, &e.Target, &e.Code, &e.Request, &e.From} {
		*text = sojourn.Cut(*text, sojourn.MaxKey)
	}
	_, err := txn.Do(ctx, s.core, auditOp, 1, e)
	return err
}

// auditOp adds an entry, and deletes up to 100 that are older than access.AuditKeep.
var auditOp = txn.EachOp("audit", groupcommit.Finish, func(t *txn.Tx, e access.AuditEntry) (struct{}, error) {
	seq, err := t.ReadInt(qNextAudit)
	if err != nil {
		return struct{}{}, err
	}
	if _, err := t.Write(qTrimAudit, seq, t.Now-access.AuditKeep.Microseconds()); err != nil {
		return struct{}{}, err
	}
	_, err = t.Write(qAddAudit, seq, t.Now, e.Who, e.Action, e.Target, e.Detail, e.Code, e.Request, e.From)
	return struct{}{}, err
})
