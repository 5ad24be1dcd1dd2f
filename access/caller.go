package access

import (
	"context"
	"slices"
)

// Caller identifies the holder of an access token on whose behalf a Store is called. A server puts
// it into the context of each call. Without one the application itself calls and may do everything.
// A store uses it to authorize effects of a call on jobs of other queues, which no route can check.
type Caller struct {
	Token     string  // id of the access token, never empty
	Grants    []Grant // of the token
	MaxQueues int     // queues that jobs of the token may create, see CodeQueueLimit; 0 = any number
}

// CodeScope is the code of an *Error for what a token has no grant for.
const CodeScope = "insufficient_scope"

// tokenSource begins the sources of responses that holders of access tokens send; see
// sojourn.ValidSource.
const tokenSource = "token:"

type callerKey struct{}

// WithCaller returns a context for calls on behalf of c. A nil c is the application itself.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the Caller of a context, nil for the application itself.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Allows reports whether one of the grants allows verb on jobs of a queue and kind. The nil Caller
// may do everything. An empty queue or kind means all of them, as in Grant.Allows.
func (c *Caller) Allows(verb Verb, queue, kind string) bool {
	if c == nil {
		return true
	}
	for _, g := range c.Grants {
		if g.Allows(verb, queue, kind) {
			return true
		}
	}
	return false
}

// SameGrants reports whether two callers have the same grants in the same order.
func (c *Caller) SameGrants(o *Caller) bool {
	return c == o || c != nil && o != nil && slices.EqualFunc(c.Grants, o.Grants, func(a, b Grant) bool {
		return a.Queue == b.Queue && a.Kind == b.Kind && slices.Equal(a.Verbs, b.Verbs)
	})
}

// Sees reports whether one of the grants allows reading jobs of a queue, of at least one kind.
func (c *Caller) Sees(queue string) bool {
	if c == nil {
		return true
	}
	for _, g := range c.Grants {
		g.Kind = ""
		if g.Allows(VerbRead, queue, "") {
			return true
		}
	}
	return false
}

// Owner returns the owner of leased ids and sent responses: the id of the token, "" without one.
func (c *Caller) Owner() string {
	if c == nil {
		return ""
	}
	return c.Token
}
