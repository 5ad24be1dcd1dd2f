package access

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/glob"
)

// Verb is a permission of a token.
type Verb string

// The verbs. VerbAdmin covers all others.
const (
	VerbEnqueue  Verb = "enqueue"   // store jobs
	VerbRespond  Verb = "respond"   // answer jobs
	VerbWork     Verb = "work"      // claim jobs, write under their leases, sweep
	VerbRead     Verb = "read"      // look, without args, results, checkpoints and responses
	VerbReadArgs Verb = "read:args" // with them
	// VerbReadRedacted shows what a server hides by its setting redact. It needs VerbReadArgs too.
	VerbReadRedacted Verb = "read:redacted"
	VerbOperate      Verb = "operate" // cancel, redrive, change, hold
	VerbAdmin        Verb = "admin"   // settings of queues, tokens, checks, purges
)

// Verbs are all of them.
var Verbs = []Verb{VerbEnqueue, VerbRespond, VerbWork, VerbRead, VerbReadArgs, VerbReadRedacted, VerbOperate, VerbAdmin}

// Grant allows verbs on the jobs whose queue and kind match the patterns, in which * stands for any
// text. An empty pattern matches everything.
type Grant struct {
	Verbs []Verb `json:"verbs"`
	Queue string `json:"queue,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// Has reports whether g allows verb anywhere.
func (g Grant) Has(verb Verb) bool {
	return slices.Contains(g.Verbs, verb) || slices.Contains(g.Verbs, VerbAdmin)
}

// Allows reports whether g allows verb on jobs of a queue and a kind; an empty name means all
// queues or kinds.
func (g Grant) Allows(verb Verb, queue, kind string) bool {
	return g.Has(verb) && matches(g.Queue, queue) && matches(g.Kind, kind)
}

// matches compares a name with a pattern. Only a pattern that matches everything matches all names
// at once.
func matches(pattern, name string) bool { return pattern == "" || glob.Match(pattern, name) }

// AccessToken opens the door of a server. Only the hash of its secret is stored.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`       // for people
	Hash      []byte    `json:"-"`          // SHA-256 of the secret
	Grants    []Grant   `json:"grants"`     // at least one
	CreatedAt time.Time `json:"created_at"` // set by the store
	ExpiresAt time.Time `json:"expires_at"` // always set: a token that never expires is never rotated
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	UsedAt    time.Time `json:"used_at,omitzero"` // to the minute
}

// Good reports whether the token is valid at that time.
func (t Token) Good(now time.Time) bool {
	return t.RevokedAt.IsZero() && now.Before(t.ExpiresAt)
}

// Validate checks names, grants and times.
func (t Token) Validate() error {
	if err := sojourn.ValidName("id", t.ID); err != nil {
		return err
	}
	if err := sojourn.ValidKey("name", t.Name); err != nil {
		return err
	}
	if len(t.Hash) != 32 {
		return sojourn.Invalid("hash", "has %d bytes; a SHA-256 has 32", len(t.Hash))
	}
	if len(t.Grants) < 1 || len(t.Grants) > sojourn.MaxTags {
		return sojourn.Invalid("grants", "%d grants are out of range: 1 to %d", len(t.Grants), sojourn.MaxTags)
	}
	for _, g := range t.Grants {
		if len(g.Verbs) == 0 || len(g.Queue) > sojourn.MaxName || len(g.Kind) > sojourn.MaxName {
			return sojourn.Invalid("grants", "a grant has verbs, and patterns of at most %d bytes", sojourn.MaxName)
		}
		for _, v := range g.Verbs {
			if !slices.Contains(Verbs, v) {
				return sojourn.Invalid("grants", "%.64q is not a verb: use enqueue, respond, work, read, read:args, read:redacted, operate or admin", string(v))
			}
		}
	}
	if t.ExpiresAt.IsZero() {
		return sojourn.Invalid("expires_at", "is missing; set the time at which the token expires")
	}
	return nil
}

// Keeper is an optional ability of a Store: it keeps the tokens of servers.
type Keeper interface {
	// AccessTokens lists all, oldest first.
	AccessTokens(ctx context.Context) ([]Token, error)
	// SetAccessToken stores a token, in the place of one with the same id. CreatedAt is the
	// store's; of a known id it stays.
	SetAccessToken(ctx context.Context, t Token) error
	// UseAccessToken notes that a token was used now. One that is not there is no error.
	UseAccessToken(ctx context.Context, id string) error
}

// AuditEntry records one action of an operator through a server.
type AuditEntry struct {
	Seq     int64     `json:"seq"`               // set by the store, rising
	At      time.Time `json:"at"`                // set by the store
	Who     string    `json:"who"`               // the id of a token; empty if the server needs none
	Action  string    `json:"action"`            // such as editJobs or setQueue
	Target  string    `json:"target"`            // such as the path of the request
	Detail  string    `json:"detail,omitempty"`  // the request, as JSON, without args; cut at MaxProgress bytes
	Code    string    `json:"code,omitempty"`    // of the refusal; empty if it was done
	Request string    `json:"request,omitempty"` // the id of the request
	From    string    `json:"from,omitempty"`    // the address that it came from
}

// AuditKeep is how long audit entries are kept.
const AuditKeep = 400 * 24 * time.Hour

// AuditFilter chooses entries. Everything that is set must match.
type AuditFilter struct {
	Before int64     // the last Seq of the page before; 0 = from the newest
	Limit  int       // 1 to MaxFind; 0 = 100
	Who    string    // the id of a token
	Since  time.Time // not before it
}

// Validate checks the ranges.
func (f AuditFilter) Validate() error { return sojourn.ValidLimit(f.Limit) }

// AuditReader is an optional ability of a Store: it lists the actions of operators.
type AuditReader interface {
	// AuditLog lists entries, newest first.
	AuditLog(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
}

// AuditStore is an optional ability of a Store: it records the actions of operators. No method
// changes an entry.
type AuditStore interface {
	AuditReader
	// Audit adds an entry.
	Audit(ctx context.Context, e AuditEntry) error
}
