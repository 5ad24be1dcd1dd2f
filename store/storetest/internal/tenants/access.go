package tenants

import (
	"crypto/sha256"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var accessTrials = []kit.Trial{
	{Name: "tokens of servers are kept", Law: "What is stored of a token comes back; a second write replaces it but for its beginning.",
		Covers: "spec:H7", Run: tokensKept},
	{Name: "the audit log is kept", Law: "Entries come back newest first, in pages, and end after their time.", Covers: "spec:H7", Run: auditKept},
}

func tokensKept(s *kit.Scene) {
	a, ok := s.Store.(access.Keeper)
	if !ok {
		s.Skip("this store keeps no tokens")
	}
	hash := sha256.Sum256([]byte("secret"))
	t := access.Token{ID: "a1", Name: "shop", Hash: hash[:], ExpiresAt: s.Now().Add(time.Hour),
		Grants: []access.Grant{{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "pay*", Kind: "charge_*"}}}
	s.Must(a.SetAccessToken(s.Ctx, t), "SetAccessToken")
	made := s.Now()
	s.Advance(time.Minute)
	s.Must(a.UseAccessToken(s.Ctx, "a1"), "UseAccessToken")
	s.Must(a.UseAccessToken(s.Ctx, "nobody"), "UseAccessToken of a token that is not there")
	t.RevokedAt = s.Now()
	s.Must(a.SetAccessToken(s.Ctx, t), "SetAccessToken again")
	all, err := a.AccessTokens(s.Ctx)
	s.Must(err, "AccessTokens")
	kit.Same(s, "tokens", len(all), 1)
	got := all[0]
	s.At("created_at", got.CreatedAt, made)
	s.At("used_at", got.UsedAt, s.Now().Truncate(time.Minute))
	s.At("revoked_at", got.RevokedAt, t.RevokedAt)
	s.At("expires_at", got.ExpiresAt, t.ExpiresAt)
	got.CreatedAt, got.UsedAt, t.RevokedAt, t.ExpiresAt = time.Time{}, time.Time{}, got.RevokedAt, got.ExpiresAt
	kit.Same(s, "token", kit.Text(got), kit.Text(t))
	kit.Same(s, "hash", string(got.Hash), string(hash[:]))
	t.Hash = t.Hash[:31]
	s.Refused(a.SetAccessToken(s.Ctx, t), sojourn.CodeInvalid, "half a hash")
}

func auditKept(s *kit.Scene) {
	a, ok := s.Store.(access.AuditStore)
	if !ok {
		s.Skip("this store keeps no audit log")
	}
	for _, action := range []string{"one", "two", "three"} {
		s.Must(a.Audit(s.Ctx, access.AuditEntry{Who: "a1", Action: action, Target: "/v1", Detail: "{}", Code: "conflict", Request: "r", From: "f"}), "Audit")
		s.Advance(time.Second)
	}
	page, err := a.AuditLog(s.Ctx, access.AuditFilter{Limit: 2})
	s.Must(err, "AuditLog")
	kit.Same(s, "entries of a page", len(page), 2)
	kit.Same(s, "newest", page[0].Action, "three")
	s.At("its time", page[0].At, s.Now().Add(-time.Second))
	page, err = a.AuditLog(s.Ctx, access.AuditFilter{Before: page[1].Seq})
	s.Must(err, "AuditLog")
	kit.Same(s, "entries of the next page", len(page), 1)
	first := page[0]
	first.Seq, first.At = 0, time.Time{}
	kit.Same(s, "first", first, access.AuditEntry{Who: "a1", Action: "one", Target: "/v1", Detail: "{}", Code: "conflict", Request: "r", From: "f"})
	s.Must(a.Audit(s.Ctx, access.AuditEntry{Who: "a2", Action: "other"}), "Audit")
	for _, c := range []struct {
		f    access.AuditFilter
		want int
	}{{access.AuditFilter{Who: "a1"}, 3}, {access.AuditFilter{Who: "a2"}, 1}, {access.AuditFilter{Since: s.Now()}, 1},
		{access.AuditFilter{Since: s.Now().Add(-time.Second)}, 2}, {access.AuditFilter{Since: s.Now().Add(-time.Second), Who: "a1"}, 1}, {access.AuditFilter{Who: "a"}, 0}} {
		page, err = a.AuditLog(s.Ctx, c.f)
		s.Must(err, "AuditLog")
		kit.Same(s, "entries of "+kit.Text(c.f), len(page), c.want)
	}
	_, err = a.AuditLog(s.Ctx, access.AuditFilter{Limit: sojourn.MaxFind + 1})
	s.Refused(err, sojourn.CodeInvalid, "a page that is too long")
	s.Advance(access.AuditKeep + time.Second)
	s.Must(a.Audit(s.Ctx, access.AuditEntry{Action: "four"}), "Audit")
	page, err = a.AuditLog(s.Ctx, access.AuditFilter{})
	s.Must(err, "AuditLog")
	kit.Same(s, "entries after their time", len(page), 1)
}
