package query

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qTokens   = `select id, name, hash, grants, created_us, expires_us, revoked_us, used_us from sj_access`
	qAuditLog = `select seq, at_us, who, action, target, detail, code, request, source from sj_audit
		where seq < $1 and at_us >= $2 and (who = $3 or $4 = 0) order by seq desc limit $5`
)

// AccessTokens lists the tokens of servers; see access.Keeper.
func (s *Reader) AccessTokens(ctx context.Context) ([]access.Token, error) {
	var out []access.Token
	err := s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		return t.Read(qTokens, func(r sqldb.Row) error {
			a := access.Token{ID: r.Text(0), Name: r.Text(1), Hash: r.Bytes(2), CreatedAt: jobrow.Time(r.Int(4)), ExpiresAt: jobrow.Time(r.Int(5)),
				RevokedAt: jobrow.Time(r.Int(6)), UsedAt: jobrow.Time(r.Int(7))}
			out = append(out, a)
			return json.Unmarshal([]byte(r.Text(3)), &out[len(out)-1].Grants)
		})
	})
	slices.SortFunc(out, func(a, b access.Token) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, err
}

// AuditLog lists entries; see access.AuditReader.
func (s *Reader) AuditLog(ctx context.Context, f access.AuditFilter) ([]access.AuditEntry, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Before <= 0 {
		f.Before = math.MaxInt64
	}
	one := int64(0) // all of them
	if f.Who != "" {
		one = 1
	}
	var out []access.AuditEntry
	err := s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		return t.Read(qAuditLog, func(r sqldb.Row) error {
			out = append(out, access.AuditEntry{Seq: r.Int(0), At: jobrow.Time(r.Int(1)), Who: r.Text(2), Action: r.Text(3), Target: r.Text(4), Detail: r.Text(5),
				Code: r.Text(6), Request: r.Text(7), From: r.Text(8)})
			return nil
		}, f.Before, jobrow.Micros(f.Since), f.Who, one, f.Limit)
	})
	return out, err
}
