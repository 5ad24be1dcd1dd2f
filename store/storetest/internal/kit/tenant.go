package kit

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// Distant is an optional ability of a store that learns who calls from something else than the
// access.Caller in the context, such as the connection to a server.
type Distant interface {
	// As returns a store over the same data whose calls are made by the holder of an access token.
	As(c *access.Caller) driver.Store
}

// Keeper is the part of the store that keeps access tokens. A case about tokens that the store does
// not keep is skipped.
func (s *Scene) Keeper() access.Keeper {
	s.Helper()
	if far, ok := s.Store.(interface{ Keeper() access.Keeper }); ok {
		return far.Keeper()
	}
	k, ok := s.Store.(access.Keeper)
	if !ok {
		s.Skip("this store keeps no tokens")
	}
	return k
}

// Tenant is the scene as the holder of a token sees it. A store that is far away has to be asked
// for a connection with that token.
func (s *Scene) Tenant(token string, grants ...access.Grant) *Scene {
	s.Helper()
	return s.Caller(&access.Caller{Token: token, Grants: grants})
}

// Caller is the scene as a caller sees it.
func (s *Scene) Caller(c *access.Caller) *Scene {
	s.Helper()
	e := *s.environment
	e.IDs, e.Ctx = nil, access.WithCaller(s.Ctx, c)
	if far, ok := s.Store.(Distant); ok {
		e.Store = far.As(c)
	}
	t := *s
	t.use(&e)
	return &t
}

// Everything is a grant that holds nothing back.
var Everything = access.Grant{Verbs: []access.Verb{access.VerbAdmin}}

// Workers lists workers.
func (s *Scene) Workers(after string, limit int, ids ...string) []sojourn.WorkerStatus {
	s.Helper()
	ws, err := s.Store.Workers(s.Ctx, after, limit, ids...)
	s.Must(err, "Workers")
	return ws
}
