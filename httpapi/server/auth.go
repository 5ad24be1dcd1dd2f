package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
)

const (
	bearerPrefix = "sj_"
	tokensFresh  = time.Second            // age of the cached list of tokens. With recheckEvery a revocation takes effect within 2 s on every node
	tokensRetry  = 500 * time.Millisecond // after the list could not be read: until then requests get the same error
	tokensWithin = 5 * time.Second        // for reading the list
	usedEvery    = time.Minute
)

// door authenticates requests with the tokens of the store.
type door struct {
	store access.Keeper
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex // guards the fields below, and keeps requests from reading the same list at once
	tokens   map[string]access.Token
	at       time.Time            // when the reading of tokens began
	failedAt time.Time            // when it failed last
	used     map[string]time.Time // when the use of a token was last stored
}

func newDoor(store access.Keeper, log *slog.Logger) *door {
	return &door{store: store, log: log, now: time.Now, used: map[string]time.Time{}}
}

// holder is the sender of a request: the holder of a token, or anyone if authentication is off.
type holder struct {
	id     string
	hash   []byte // of the secret
	until  time.Time
	caller *access.Caller // for the store; nil of anybody
	anyone bool
}

var unauthorized = wire.Refusal(wire.CodeUnauthorized, `missing, wrong, expired or revoked token; send "Authorization: Bearer <token>" (create one with "sojourn token create")`)

// tokensUnknown returns the error used while the tokens cannot be read. It reveals nothing about
// the store, because the caller is not authenticated.
func tokensUnknown() error {
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true,
		Message: "the server cannot check tokens now; nothing was stored, try again (its log has the cause)"}
}

// enter admits a request whose token has the verb for at least one queue or kind. The operation
// checks its own jobs again.
func (s *Server) enter(r *http.Request, verb access.Verb) (*holder, error) {
	if s.door == nil {
		return &holder{anyone: true}, nil
	}
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, unauthorized
	}
	t, err := s.door.find(r.Context(), strings.TrimSpace(bearer))
	if err != nil {
		return nil, err
	}
	connlimit.SetAuthenticated(r.Context(), true)
	h := holderOf(t)
	h.caller.MaxQueues = s.o.MaxQueues
	return h, h.has(verb)
}

func holderOf(t access.Token) *holder {
	return &holder{id: t.ID, hash: t.Hash, until: t.ExpiresAt, caller: &access.Caller{Token: t.ID, Grants: t.Grants}}
}

// has refuses a holder that has a verb for nothing at all.
func (h *holder) has(verb access.Verb) error {
	if h.anyone {
		return nil
	}
	for _, g := range h.caller.Grants {
		if g.Has(verb) {
			return nil
		}
	}
	return forbidden(verb, "", "")
}

// current is the holder as the list of tokens has it now.
func (d *door) current(ctx context.Context, h *holder) (*holder, error) {
	tokens, err := d.list(ctx)
	if err != nil {
		return h, err
	}
	t, ok := tokens[h.id]
	if !ok || !t.Good(d.now()) || subtle.ConstantTimeCompare(t.Hash, h.hash) != 1 {
		return nil, unauthorized
	}
	return holderOf(t), nil
}

// find gives the token that a bearer is, if it opens anything now. Unknown, wrong, expired and
// revoked ones get the same answer after the same work.
func (d *door) find(ctx context.Context, bearer string) (access.Token, error) {
	tokens, err := d.list(ctx)
	if err != nil {
		return access.Token{}, err
	}
	t, hash := tokens[bearerID(bearer)], sha256.Sum256([]byte(bearer))
	same := subtle.ConstantTimeCompare(hash[:], t.Hash) == 1
	if !same || !t.Good(d.now()) {
		return access.Token{}, unauthorized
	}
	d.note(ctx, t)
	return t, nil
}

func (d *door) list(ctx context.Context) (map[string]access.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if now.Sub(d.at) < tokensFresh {
		return d.tokens, nil
	}
	if now.Sub(d.failedAt) < tokensRetry {
		return nil, tokensUnknown()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokensWithin)
	defer cancel()
	all, err := d.store.AccessTokens(ctx)
	if err != nil {
		d.failedAt = d.now()
		d.log.Error("the tokens cannot be read", "error", err)
		return nil, tokensUnknown()
	}
	d.tokens, d.at = make(map[string]access.Token, len(all)), now
	for _, t := range all {
		d.tokens[t.ID] = t
	}
	return d.tokens, nil
}

// note stores, at most once a minute, that a token is in use. A failure does not fail the request.
func (d *door) note(ctx context.Context, t access.Token) {
	now := d.now()
	d.mu.Lock()
	due := now.Sub(d.used[t.ID]) >= usedEvery && now.Sub(t.UsedAt) >= usedEvery
	if due {
		d.used[t.ID] = now
	}
	d.mu.Unlock()
	if due {
		_ = d.store.UseAccessToken(context.WithoutCancel(ctx), t.ID)
	}
}

func forbidden(verb access.Verb, queue, kind string) error {
	where := ""
	if queue != "" || kind != "" {
		where = fmt.Sprintf(" for queue %.64q and kind %.64q", queue, kind)
	}
	return wire.Refusal(wire.CodeForbidden, "the token does not have %s%s", verb, where)
}

// may returns an error unless a grant allows verb. An empty queue or kind means all of them, which
// requires a grant without a pattern there.
func (h *holder) may(verb access.Verb, queue, kind string) error {
	if h.allows(verb, queue, kind) {
		return nil
	}
	return forbidden(verb, queue, kind)
}

func (h *holder) allows(verb access.Verb, queue, kind string) bool {
	return h.anyone || h.caller.Allows(verb, queue, kind)
}

// everywhere reports whether verb is allowed on all jobs.
func (h *holder) everywhere(verb access.Verb) bool { return h.allows(verb, "", "") }

// worker is the name under which the holder's worker claims: it begins with the id of the token, so
// that a token can report only on the leases that it holds, on whichever node they were claimed.
func (h *holder) worker(name string) string {
	if h.anyone || strings.HasPrefix(name, h.id+"/") {
		return name
	}
	return h.id + "/" + name
}

// holds refuses leases of others.
func (h *holder) holds(l sojourn.Lease) error {
	if h.anyone || strings.HasPrefix(l.Worker, h.id+"/") {
		return nil
	}
	return wire.Refusal(wire.CodeForbidden, "the lease of job %d belongs to a worker with another token", l.ID)
}

// sees reports whether the holder may look at a queue, though perhaps not at all of its kinds.
func (h *holder) sees(queue string) bool {
	return h.anyone || h.caller.Sees(queue)
}

// by returns the holder's name for the history, with the name that the caller states.
func (h *holder) by(name string) string {
	if name == "" {
		return h.id
	}
	return h.id + "/" + name
}

// NewToken makes a token and the text that its holder sends, which is shown once and stored
// nowhere: prefix, id, underscore, secret. The secret has 256 random bits, so a plain hash of it is
// enough.
func NewToken(name string, life time.Duration, grants []access.Grant) (t access.Token, bearer string) {
	id := strings.ToLower(rand.Text()[:10])
	bearer = bearerPrefix + id + "_" + rand.Text() + rand.Text()
	hash := sha256.Sum256([]byte(bearer))
	return access.Token{ID: id, Name: name, Hash: hash[:], Grants: grants, ExpiresAt: time.Now().Add(life)}, bearer
}

// bearerID returns the id in a bearer token. It does not verify the rest.
func bearerID(bearer string) string {
	rest, _ := strings.CutPrefix(bearer, bearerPrefix)
	id, _, _ := strings.Cut(rest, "_")
	return id
}
