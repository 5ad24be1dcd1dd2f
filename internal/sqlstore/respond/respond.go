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

type answer struct {
	done    []sojourn.Responded
	refused error
}

// Responder stores responses and matches them with jobs.
type Responder struct {
	core *txn.Core
	Op   *txn.Op[[]sojourn.Response, answer]
}

func NewResponder(c *txn.Core) *Responder {
	return &Responder{core: c, Op: &txn.Op[[]sojourn.Response, answer]{Name: "respond", Class: groupcommit.Finish, Locks: true,
		Begin: func(t *txn.Tx, requests [][]sojourn.Response) txn.Batch[answer] { return newResponding(t, requests) }}}
}

// Run decides the responses in turn, and writes the results of all together.
func (r *batch) Run() ([]answer, error) {
	if err := r.prepare(); err != nil {
		return nil, err
	}
	answers := make([]answer, len(r.calls))
	for i, c := range r.calls {
		if answers[i].refused = c.refused; c.refused != nil {
			continue
		}
		answers[i].done = make([]sojourn.Responded, len(c.responses))
		for k := range c.responses {
			var err error
			if answers[i].done[k], err = r.one(&c.responses[k], c.targets[k]); err != nil {
				return nil, err
			}
		}
	}
	r.write()
	return answers, nil
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

// sourcesOf replaces the sources of responses by those of their caller. Responses of the
// application are not changed.
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

// target is the job that a response addresses, and the message id for deduplication.
type target struct {
	id                        sojourn.ID // 0: the holder of the key
	token                     bool
	generation, attempt, wait int32 // of a token
	until                     int64 // of a token, microseconds; 0 = it does not expire

	notJSON  txn.NotJSON
	as       jobrow.Message
	digest   jobrow.Digest
	conflict bool // its message id has another digest, so that as is an id of its own
}

// resolveTarget checks a response and determines the job that it addresses, without reading the
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
		to.notJSON = txn.CheckJSON("body", r.ContentType, r.Body)
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
