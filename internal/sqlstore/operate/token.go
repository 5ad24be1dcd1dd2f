package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qSetToken = `insert into sj_access (id, name, hash, grants, created_us, expires_us, revoked_us, used_us) values ($1, $2, $3, $4, $5, $6, $7, $8)
		on conflict (id) do update set name = excluded.name, hash = excluded.hash, grants = excluded.grants, expires_us = excluded.expires_us,
		revoked_us = excluded.revoked_us`
	qUseToken = `update sj_access set used_us = $1 where id = $2 and used_us < $3`
)

// SetAccessToken stores a token, new or changed; see access.Keeper.
func (s *Operator) SetAccessToken(ctx context.Context, a access.Token) error {
	if err := a.Validate(); err != nil {
		return err
	}
	_, err := txn.Do(ctx, s.core, setTokenOp, 1, a)
	return err
}

var setTokenOp = txn.EachOp("set token", groupcommit.Finish, func(t *txn.Tx, a access.Token) (struct{}, error) {
	grants, err := jobrow.JSONText(a.Grants)
	if err != nil {
		return struct{}{}, err
	}
	_, err = t.Write(qSetToken, a.ID, a.Name, a.Hash, grants, t.Now, jobrow.Micros(a.ExpiresAt), jobrow.Micros(a.RevokedAt), jobrow.Micros(a.UsedAt))
	return struct{}{}, err
})

// UseAccessToken records that a token is in use, to the minute, so that most requests write
// nothing; see access.Keeper.
func (s *Operator) UseAccessToken(ctx context.Context, id string) error {
	_, err := txn.Do(ctx, s.core, useTokenOp, 1, id)
	return err
}

var useTokenOp = txn.EachOp("use token", groupcommit.Enqueue, func(t *txn.Tx, id string) (struct{}, error) {
	minute := t.Now - t.Now%60_000_000
	_, err := t.Write(qUseToken, minute, id, minute)
	return struct{}{}, err
})
