package respond

import (
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Responder stores responses and matches them with jobs. Safe for concurrent use.
type Responder struct {
	core *txn.Core
	Op   *txn.Op[[]sojourn.Response, answer] // the requests of Respond, which the store orders by their locks
}

// NewResponder makes the responder of one store.
func NewResponder(c *txn.Core) *Responder {
	return &Responder{core: c, Op: &txn.Op[[]sojourn.Response, answer]{Name: "respond", Class: groupcommit.Finish, Locks: true,
		Ends:  func([]sojourn.Response, int) bool { return c.DB.Dialect().Concurrent },
		Begin: func(t *txn.Tx, requests [][]sojourn.Response) txn.Batch[answer] { return newBatch(t, requests) }}}
}

// Respond stores responses and matches them; see driver.Store. A caller with an access token has
// sources of its own.
func (s *Responder) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	if len(rs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("responses", "%d responses exceed the limit of %d a call; split them", len(rs), sojourn.MaxBatch)
	}
	if len(rs) == 0 {
		return nil, nil
	}
	rs, err := sourcesOf(access.CallerOf(ctx), rs)
	if err != nil {
		return nil, err
	}
	a, err := txn.Do(ctx, s.core, s.Op, len(rs), rs)
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// sourcesOf replaces the sources of responses by those that belong to the access token of their
// caller, so that no token can use the message ids of another. Responses of the application are not
// changed.
func sourcesOf(c *access.Caller, rs []sojourn.Response) ([]sojourn.Response, error) {
	if c != nil {
		rs = slices.Clone(rs)
	}
	for i := range rs {
		source, err := c.Source(rs[i].Source)
		if err != nil {
			return nil, sojourn.AtIndex(i, err)
		}
		if c != nil {
			rs[i].Source = source
		}
	}
	return rs, nil
}

// answer is the result of a call. It carries a refusal, so that the other calls of the group need
// not run again.
type answer struct {
	done    []sojourn.Responded
	refused error
}

// target is the job that a response addresses, and the identity of its message.
type target struct {
	id                        sojourn.ID // 0: the holder of the key
	token                     bool
	generation, attempt, wait int32 // of a token
	until                     int64 // of a token, microseconds; 0 = it does not expire

	notJSON  jobrow.NotJSON // of the body
	as       jobrow.Message // the message id under which it is stored
	digest   jobrow.Digest  // of the address and the body
	conflict bool           // its message id has another digest, so that as is an id of its own
}

// resolveTarget checks a response and determines the job that it addresses, as far as that needs no
// database.
func resolveTarget(t *txn.Tx, r *sojourn.Response) (target, error) {
	if err := r.Validate(t.Core.Cfg.MaxBytes); err != nil {
		return target{}, err
	}
	if r.MessageID == "" {
		return target{}, sojourn.Invalid("message_id", "is empty; Client.Respond makes one, so that a repeated call is recognised")
	}
	to := target{digest: jobrow.ResponseDigest(r)}
	if !r.Park && !r.Progress { // progress is a text for people, and a parked response has no job
		to.notJSON = jobrow.CheckJSON("body", r.ContentType, r.Body)
	}
	if r.Token == "" {
		to.id, to.as = r.Job, jobrow.MessageOf(r)
		return to, nil
	}
	c, err := access.ParseCapability(t.Core.Secret, r.Token)
	to.as, to.token, to.id, to.until = jobrow.LinkMessage(c, r.MessageID), true, c.Job, jobrow.Micros(c.Until)
	to.generation, to.attempt, to.wait = c.Generation, c.Attempt, c.Wait
	return to, err
}
