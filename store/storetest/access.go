package storetest

import (
	"crypto/sha256"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

var accessTrials = []trial{
	{"tokens of servers are kept", "What is stored of a token comes back; a second write replaces it but for its beginning.", "spec:H7", tokensKept},
	{"the audit log is kept", "Entries come back newest first, in pages, and end after their time.", "spec:H7", auditKept},
}

func tokensKept(s *scene) {
	a, ok := s.store.(access.Keeper)
	if !ok {
		s.Skip("this store keeps no tokens")
	}
	hash := sha256.Sum256([]byte("secret"))
	t := access.Token{ID: "a1", Name: "shop", Hash: hash[:], ExpiresAt: s.now().Add(time.Hour),
		Grants: []access.Grant{{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "pay*", Kind: "charge_*"}}}
	s.must(a.SetAccessToken(s.ctx, t), "SetAccessToken")
	made := s.now()
	s.advance(time.Minute)
	s.must(a.UseAccessToken(s.ctx, "a1"), "UseAccessToken")
	s.must(a.UseAccessToken(s.ctx, "nobody"), "UseAccessToken of a token that is not there")
	t.RevokedAt = s.now()
	s.must(a.SetAccessToken(s.ctx, t), "SetAccessToken again")
	all, err := a.AccessTokens(s.ctx)
	s.must(err, "AccessTokens")
	same(s, "tokens", len(all), 1)
	got := all[0]
	s.at("created_at", got.CreatedAt, made)
	s.at("used_at", got.UsedAt, s.now().Truncate(time.Minute))
	s.at("revoked_at", got.RevokedAt, t.RevokedAt)
	s.at("expires_at", got.ExpiresAt, t.ExpiresAt)
	got.CreatedAt, got.UsedAt, t.RevokedAt, t.ExpiresAt = time.Time{}, time.Time{}, got.RevokedAt, got.ExpiresAt
	same(s, "token", text(got), text(t))
	same(s, "hash", string(got.Hash), string(hash[:]))
	t.Hash = t.Hash[:31]
	s.refused(a.SetAccessToken(s.ctx, t), sojourn.CodeInvalid, "half a hash")
}

func auditKept(s *scene) {
	a, ok := s.store.(access.AuditStore)
	if !ok {
		s.Skip("this store keeps no audit log")
	}
	for _, action := range []string{"one", "two", "three"} {
		s.must(a.Audit(s.ctx, access.AuditEntry{Who: "a1", Action: action, Target: "/v1", Detail: "{}", Code: "conflict", Request: "r", From: "f"}), "Audit")
		s.advance(time.Second)
	}
	page, err := a.AuditLog(s.ctx, access.AuditFilter{Limit: 2})
	s.must(err, "AuditLog")
	same(s, "entries of a page", len(page), 2)
	same(s, "newest", page[0].Action, "three")
	s.at("its time", page[0].At, s.now().Add(-time.Second))
	page, err = a.AuditLog(s.ctx, access.AuditFilter{Before: page[1].Seq})
	s.must(err, "AuditLog")
	same(s, "entries of the next page", len(page), 1)
	first := page[0]
	first.Seq, first.At = 0, time.Time{}
	same(s, "first", first, access.AuditEntry{Who: "a1", Action: "one", Target: "/v1", Detail: "{}", Code: "conflict", Request: "r", From: "f"})
	s.must(a.Audit(s.ctx, access.AuditEntry{Who: "a2", Action: "other"}), "Audit")
	for _, c := range []struct {
		f    access.AuditFilter
		want int
	}{{access.AuditFilter{Who: "a1"}, 3}, {access.AuditFilter{Who: "a2"}, 1}, {access.AuditFilter{Since: s.now()}, 1},
		{access.AuditFilter{Since: s.now().Add(-time.Second)}, 2}, {access.AuditFilter{Since: s.now().Add(-time.Second), Who: "a1"}, 1}, {access.AuditFilter{Who: "a"}, 0}} {
		page, err = a.AuditLog(s.ctx, c.f)
		s.must(err, "AuditLog")
		same(s, "entries of "+text(c.f), len(page), c.want)
	}
	_, err = a.AuditLog(s.ctx, access.AuditFilter{Limit: sojourn.MaxFind + 1})
	s.refused(err, sojourn.CodeInvalid, "a page that is too long")
	s.advance(access.AuditKeep + time.Second)
	s.must(a.Audit(s.ctx, access.AuditEntry{Action: "four"}), "Audit")
	page, err = a.AuditLog(s.ctx, access.AuditFilter{})
	s.must(err, "AuditLog")
	same(s, "entries after their time", len(page), 1)
}
