package storetest

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

// tenant is the scene as the holder of a token sees it. A store that is far away has to be asked
// for a connection with that token.
func (s *scene) tenant(token string, grants ...access.Grant) *scene {
	s.Helper()
	return s.caller(&access.Caller{Token: token, Grants: grants})
}

func (s *scene) caller(c *access.Caller) *scene {
	s.Helper()
	e := *s.environment
	e.ids, e.ctx = nil, access.WithCaller(s.ctx, c)
	if far, ok := s.store.(Distant); ok {
		e.store = far.As(c)
	}
	t := *s
	t.use(&e)
	return &t
}

// everything is a grant that holds nothing back.
var everything = access.Grant{Verbs: []access.Verb{access.VerbAdmin}}

func (s *scene) workers(f sojourn.WorkerFilter) []sojourn.WorkerStatus {
	s.Helper()
	ws, err := s.store.Workers(s.ctx, f)
	s.must(err, "Workers")
	return ws
}
