package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const qSetToken = `insert into sj_access (id, name, hash, grants, created_us, expires_us, revoked_us, used_us) values ($1, $2, $3, $4, $5, $6, $7, $8)
		on conflict (id) do update set name = excluded.name, hash = excluded.hash, grants = excluded.grants, expires_us = excluded.expires_us,
		revoked_us = excluded.revoked_us`

const qUseToken = `update sj_access set used_us = $1 where id = $2 and used_us < $3`

// The counter's row serialises entries, so that the numbers have the order of the commits.
const qNextAudit = `insert into sj_meta (name, value) values ('next_audit', '2')
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + 1 as text) returning cast(value as bigint) - 1`

const qAudit = `insert into sj_audit (seq, at_us, who, action, target, detail, code, request, source) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

const qAuditEnd = `delete from sj_audit where seq in (select seq from sj_audit where seq <= $1 and at_us < $2 order by seq limit 100)`

var setTokenOp = txn.EachOp("set token", groupcommit.Finish, func(t *txn.Tx, a access.Token) (struct{}, error) {
	grants, err := jobrow.JSONText(a.Grants)
	if err != nil {
		return struct{}{}, err
	}
	_, err = t.Write(qSetToken, a.ID, a.Name, a.Hash, grants, t.Now, jobrow.Micros(a.ExpiresAt), jobrow.Micros(a.RevokedAt), jobrow.Micros(a.UsedAt))
	return struct{}{}, err
})

// SetAccessToken stores a token; see access.Keeper.
func (s *Operator) SetAccessToken(ctx context.Context, a access.Token) error {
	if err := a.Validate(); err != nil {
		return err
	}
	_, err := txn.Do(ctx, s.Core, setTokenOp, 1, a)
	return err
}

var useTokenOp = txn.EachOp("use token", groupcommit.Enqueue, func(t *txn.Tx, id string) (struct{}, error) {
	minute := t.Now - t.Now%60_000_000
	_, err := t.Write(qUseToken, minute, id, minute)
	return struct{}{}, err
})

// UseAccessToken notes the use of a token; see access.Keeper.
func (s *Operator) UseAccessToken(ctx context.Context, id string) error {
	_, err := txn.Do(ctx, s.Core, useTokenOp, 1, id)
	return err
}

var auditOp = txn.EachOp("audit", groupcommit.Finish, func(t *txn.Tx, e access.AuditEntry) (struct{}, error) {
	seq, err := t.ReadInt(qNextAudit)
	if err != nil {
		return struct{}{}, err
	}
	if _, err := t.Write(qAuditEnd, seq, t.Now-access.AuditKeep.Microseconds()); err != nil {
		return struct{}{}, err
	}
	_, err = t.Write(qAudit, seq, t.Now, e.Who, e.Action, e.Target, e.Detail, e.Code, e.Request, e.From)
	return struct{}{}, err
})

// Audit adds an entry; see access.AuditStore.
func (s *Operator) Audit(ctx context.Context, e access.AuditEntry) error {
	e.Detail = sojourn.Cut(e.Detail, sojourn.MaxProgress)
	for _, text := range []*string{&e.Who, &e.Action, &e.Target, &e.Code, &e.Request, &e.From} {
		*text = sojourn.Cut(*text, sojourn.MaxKey)
	}
	_, err := txn.Do(ctx, s.Core, auditOp, 1, e)
	return err
}
