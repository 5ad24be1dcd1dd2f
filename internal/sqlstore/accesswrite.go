package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
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

var setTokenOp = eachOp("set token", groupcommit.Finish, func(t *tx, a access.Token) (struct{}, error) {
	grants, err := jsonText(a.Grants)
	if err != nil {
		return struct{}{}, err
	}
	_, err = t.exec(qSetToken, a.ID, a.Name, a.Hash, grants, t.now, micros(a.ExpiresAt), micros(a.RevokedAt), micros(a.UsedAt))
	return struct{}{}, err
})

// SetAccessToken stores a token; see access.Keeper.
func (s *operator) SetAccessToken(ctx context.Context, a access.Token) error {
	if err := a.Validate(); err != nil {
		return err
	}
	_, err := do(ctx, s.core, setTokenOp, 1, a)
	return err
}

var useTokenOp = eachOp("use token", groupcommit.Enqueue, func(t *tx, id string) (struct{}, error) {
	minute := t.now - t.now%60_000_000
	_, err := t.exec(qUseToken, minute, id, minute)
	return struct{}{}, err
})

// UseAccessToken notes the use of a token; see access.Keeper.
func (s *operator) UseAccessToken(ctx context.Context, id string) error {
	_, err := do(ctx, s.core, useTokenOp, 1, id)
	return err
}

var auditOp = eachOp("audit", groupcommit.Finish, func(t *tx, e access.AuditEntry) (struct{}, error) {
	seq, err := t.num(qNextAudit)
	if err != nil {
		return struct{}{}, err
	}
	if _, err := t.exec(qAuditEnd, seq, t.now-access.AuditKeep.Microseconds()); err != nil {
		return struct{}{}, err
	}
	_, err = t.exec(qAudit, seq, t.now, e.Who, e.Action, e.Target, e.Detail, e.Code, e.Request, e.From)
	return struct{}{}, err
})

// Audit adds an entry; see access.AuditStore.
func (s *operator) Audit(ctx context.Context, e access.AuditEntry) error {
	e.Detail = sojourn.Cut(e.Detail, sojourn.MaxProgress)
	for _, text := range []*string{&e.Who, &e.Action, &e.Target, &e.Code, &e.Request, &e.From} {
		*text = sojourn.Cut(*text, sojourn.MaxKey)
	}
	_, err := do(ctx, s.core, auditOp, 1, e)
	return err
}
