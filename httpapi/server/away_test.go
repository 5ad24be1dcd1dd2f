package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// secretText is a driver's error when its database is unreachable.
const secretText = "failed to connect to `user=hidden_user database=hidden_db`: hostname 10.1.2.3: connection refused"

var errAway = &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: "the database cannot be reached: " + secretText, Err: errors.New(secretText)}

// unreadable is a token store whose database is unreachable.
type unreadable struct{ access.Keeper }

func (unreadable) AccessTokens(context.Context) ([]access.Token, error) { return nil, errAway }

// away is a store whose database is away.
type away struct{ driver.Store }

func (away) AccessTokens(context.Context) ([]access.Token, error) { return nil, errAway }
func (away) SetAccessToken(context.Context, access.Token) error   { return errAway }
func (away) UseAccessToken(context.Context, string) error         { return errAway }
func (away) Claim(context.Context, driver.ClaimRequest) ([]driver.Claimed, error) {
	return nil, errAway
}
func (away) Find(context.Context, sojourn.Filter) ([]sojourn.Job, error) {
	return nil, errors.New(secretText)
}
func (away) Status(context.Context) (sojourn.Status, error) { return sojourn.Status{}, errAway }
func (away) Enqueue(context.Context, []sojourn.Job, bool) ([]sojourn.Enqueued, error) {
	return nil, errAway
}

// TestDatabaseIsAway: no answer reveals the name, the user or the address of the database, or the
// text of its errors.
func TestDatabaseIsAway(t *testing.T) {
	for _, open := range []bool{false, true} {
		s := newSite(t, Options{Open: open})
		token := ""
		if !open {
			token = s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbAdmin, access.VerbRead, access.VerbEnqueue}})
			d := s.server.door
			d.mu.Lock()
			d.store = away{driver.Of(s.client)}
			d.mu.Unlock()
		}
		s.server.store = away{driver.Of(s.client)}
		s.server.client = sojourn.NewClient(s.server.store)
		for _, r := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/jobs", ""}, {http.MethodGet, "/v1/status", ""}, {http.MethodPost, "/v1/jobs", `{"kind":"k","id":1}`},
			{http.MethodGet, "/readyz", ""}, {http.MethodGet, "/metrics", ""},
		} {
			headers := []string{"X-Nothing: 1", "Authorization: Bearer sj_0123456789_abc"}
			if token != "" {
				headers = append(headers, token)
			}
			for _, h := range headers {
				a := s.send(r.method, r.path, r.body, h)
				for _, hidden := range []string{"hidden", "10.1.2.3", "refused", "hostname"} {
					if strings.Contains(a.body, hidden) {
						t.Errorf("open %v: %s %s with %.20q tells %q: %s", open, r.method, r.path, h, hidden, a.body)
					}
				}
				if a.status < 401 || r.path != "/readyz" && !strings.Contains(a.body, "request_id") {
					t.Errorf("open %v: %s %s is answered %d %s", open, r.method, r.path, a.status, a.body)
				}
			}
		}
	}
}
