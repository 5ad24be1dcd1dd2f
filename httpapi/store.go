package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Store is a driver.Store behind a Sojourn server. Safe for concurrent use.
//
// A call whose response is lost or comes from a proxy is retried up to twice if it is idempotent:
// every read, Enqueue (by id), Claim (by number), Extend, Finish (by lease and outcome), Respond
// where every response has a message id, UpdateQueue without a revision, HoldQueue, and Save
// without log lines. Other calls then return CodeUnknown. An overloaded, draining or rate-limiting
// server states that the call had no effect; every such call is retried after Retry-After, if that
// is 10 s or less.
// A response has at most 64 MiB.
//
// Single jobs enqueued at the same time are coalesced into one request and fail independently; a
// lone one is sent at once.
//
// Store also implements driver.Checker, driver.Repairer and access.AuditReader, as far as the store
// behind the server does.
type Store struct {
	*transport
	queueCalls
	inboxCalls
	triageCalls
	checks  atomic.Pointer[[]string] // as the last Check has named them
	singles gatherer
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Checker     = (*Store)(nil)
	_ access.AuditReader = (*Store)(nil)
	_ driver.Repairer    = (*Store)(nil)
)

func newStore(base *url.URL, o options) *Store {
	t := newTransport(base, o)
	s := &Store{transport: t, queueCalls: queueCalls{t}, inboxCalls: inboxCalls{t}, triageCalls: triageCalls{t}}
	s.singles.send = func(ctx context.Context, jobs []wire.NewJob) ([]wire.Enqueued, error) {
		return s.enqueueTogether(ctx, jobs, true)
	}
	return s
}

// IDs leases a block of ids. A repeated call leases another one, which wastes the first and nothing
// else.
func (s *Store) IDs(ctx context.Context, n int) (sojourn.ID, error) {
	a, err := post[wire.IDsAnswer](ctx, s.transport, "/v1/ids", wire.IDsRequest{Count: n}, safe, 0, func(a wire.IDsAnswer) bool { return a.First > 0 })
	return a.First, err
}

// Enqueue stores jobs that have ids.
func (s *Store) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, s.ended(ctx, request{}, false)
	}
	out := make([]sojourn.Enqueued, len(jobs))
	var send []wire.NewJob
	var place []int
	for i := range jobs {
		if err := sendable(&jobs[i]); err != nil {
			if !partial {
				return nil, sojourn.AtIndex(i, err)
			}
			out[i].Err = sojourn.AtIndex(i, err)
			continue
		}
		send, place = append(send, wire.NewJobOf(&jobs[i])), append(place, i)
	}
	if len(send) == 0 {
		return out, nil
	}
	answers, err := s.enqueue(ctx, send, partial)
	if err != nil {
		return nil, err
	}
	for k, i := range place {
		out[i] = answers[k].Domain()
		if out[i].Err != nil {
			out[i].Err = sojourn.AtIndex(i, out[i].Err)
		}
	}
	return out, nil
}

func (s *Store) enqueue(ctx context.Context, send []wire.NewJob, partial bool) ([]wire.Enqueued, error) {
	if len(send) > 1 {
		return s.enqueueTogether(ctx, send, partial)
	}
	if err := s.ended(ctx, request{}, false); err != nil {
		return nil, err
	}
	one, err := s.singles.enqueue(ctx, send[0])
	if err == nil && one.Error != nil && !partial {
		err = sojourn.AtIndex(0, one.Error.Err())
	}
	return []wire.Enqueued{one}, err
}

func (s *Store) enqueueTogether(ctx context.Context, send []wire.NewJob, partial bool) ([]wire.Enqueued, error) {
	a, err := post(ctx, s.transport, "/v1/jobs/batch", wire.EnqueueRequest{Jobs: send, Partial: partial}, safe, 0, func(a wire.EnqueueAnswer) bool {
		return len(a.Jobs) == len(send) && !slices.ContainsFunc(a.Jobs, func(e wire.Enqueued) bool { return e.Error == nil && (e.ID <= 0 || e.State == 0) })
	})
	return a.Jobs, err
}

// sendable refuses jobs that no server accepts or that JSON cannot represent.
func sendable(j *sojourn.Job) error {
	if j.ID == 0 {
		return sojourn.Invalid("id", "the job has none; draw one with IDs, or enqueue with a Client")
	}
	return j.Validate(sojourn.MaxMaxBytes)
}

// Claim takes ready jobs under leases.
func (s *Store) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	how := safe
	if r.Number == 0 {
		how = unsafe
	}
	a, err := post[wire.ClaimAnswer](ctx, s.transport, "/v1/claim", wire.ClaimRequest(r), how, min(r.Wait, sojourn.MaxWait), func(a wire.ClaimAnswer) bool {
		return a.Jobs != nil && !slices.ContainsFunc(a.Jobs, func(c wire.Claimed) bool { return c.Lease.ID <= 0 || c.Lease.ID != c.Job.ID })
	})
	if err != nil {
		return nil, err
	}
	return wire.Each(a.Jobs, wire.Claimed.Domain), nil
}

// Extend prolongs leases.
func (s *Store) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	a, err := post[wire.ExtendAnswer](ctx, s.transport, "/v1/extend", wire.ExtendRequest{Leases: leases}, safe, 0, func(a wire.ExtendAnswer) bool {
		return len(a.Leases) == len(leases) && !slices.ContainsFunc(a.Leases, wire.Extended.Broken)
	})
	if err != nil {
		return nil, err
	}
	return wire.Each(a.Leases, wire.Extended.Domain), nil
}

// Save writes under leases. Log lines would be stored twice by a repeated call.
func (s *Store) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	how := safe
	for _, i := range items {
		if len(i.Log) > 0 {
			how = unsafe
		}
	}
	body := wire.SaveRequest{Items: wire.Each(items, func(i driver.Saved) wire.Saved { return wire.Saved(i) })}
	a, err := post(ctx, s.transport, "/v1/save", body, how, 0, func(a wire.SaveAnswer) bool {
		return len(a.Leases) == len(items) && !slices.ContainsFunc(a.Leases, wire.Extended.Broken)
	})
	if err != nil {
		return nil, err
	}
	return wire.Each(a.Leases, wire.Extended.Domain), nil
}

// Finish ends steps.
func (s *Store) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	body := wire.FinishRequest{Outcomes: wire.Each(outcomes, func(o sojourn.Outcome) wire.Outcome {
		o.Reason, o.Text = sojourn.Cut(o.Reason, sojourn.MaxReason), sojourn.Cut(o.Text, sojourn.MaxError) // as the store would
		return wire.OutcomeOf(o)
	})}
	a, err := post(ctx, s.transport, "/v1/finish", body, safe, 0, func(a wire.FinishAnswer) bool {
		return len(a.Outcomes) == len(outcomes) && !slices.ContainsFunc(a.Outcomes, unfinished)
	})
	if err != nil {
		return nil, err
	}
	return wire.Each(a.Outcomes, wire.Finished.Domain), nil
}

// unfinished reports whether an entry has no result for its outcome.
func unfinished(f wire.Finished) bool {
	switch f.Status {
	case driver.FinishApplied, driver.FinishRepeated, driver.FinishLost:
		return false
	case driver.FinishRefused:
		return f.Error == nil || f.Error.Code == ""
	}
	return true
}

// Edit cancels, fails, redrives, releases, purges or changes jobs.
func (s *Store) Edit(ctx context.Context, f sojourn.Filter, e sojourn.Edit) (sojourn.Page[sojourn.Edited], error) {
	how := unsafe
	switch {
	case e.DryRun:
		how = looks
	case e.Action == sojourn.EditCancel || e.Action == sojourn.EditFail:
		how = safe
	}
	a, err := post[wire.EditAnswer](ctx, s.transport, "/v1/jobs/edit", wire.EditRequest{Filter: wire.FilterOf(f), Edit: wire.EditOf(e)}, how, 0, func(a wire.EditAnswer) bool { return a.Items != nil })
	if err != nil {
		return sojourn.Page[sojourn.Edited]{}, err
	}
	return a.Domain(), nil
}

// Find returns jobs.
func (s *Store) Find(ctx context.Context, f sojourn.Filter) ([]sojourn.Job, error) {
	a, err := post[wire.JobsAnswer](ctx, s.transport, "/v1/jobs/find", wire.FilterOf(f), looks, min(f.Wait, sojourn.MaxWait), func(a wire.JobsAnswer) bool {
		return a.Jobs != nil && !slices.ContainsFunc(a.Jobs, func(j wire.JobView) bool { return j.ID <= 0 && !j.Virtual })
	})
	if err != nil {
		return nil, err
	}
	return wire.Domains(a.Jobs), nil
}

func jobPath(id sojourn.ID, part string) string {
	return "/v1/jobs/" + strconv.FormatInt(int64(id), 10) + part
}

// History returns the history of a job.
func (s *Store) History(ctx context.Context, id sojourn.ID, after int32, limit int) ([]sojourn.HistoryEntry, error) {
	a, err := get[wire.HistoryAnswer](ctx, s.transport, fmt.Sprintf("%s?after=%d&limit=%d", jobPath(id, "/history"), after, limit))
	return a.History, err
}

// Log returns the lines of a job's own log.
func (s *Store) Log(ctx context.Context, id sojourn.ID) ([]sojourn.LogLine, error) {
	a, err := get[wire.LogAnswer](ctx, s.transport, jobPath(id, "/log"))
	return a.Log, err
}

// Why evaluates the gates for a job.
func (s *Store) Why(ctx context.Context, id sojourn.ID) (sojourn.Why, error) {
	return get[sojourn.Why](ctx, s.transport, jobPath(id, "/why"))
}

// Sweep processes overdue jobs and responses.
func (s *Store) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	return post[driver.Swept](ctx, s.transport, "/v1/sweep", wire.SweepRequest{Limit: limit}, unsafe, 0, nil)
}

// Status describes the store behind the server.
func (s *Store) Status(ctx context.Context) (sojourn.Status, error) {
	return get[sojourn.Status](ctx, s.transport, "/v1/status")
}

// Check returns the invariant violations of the store behind the server.
func (s *Store) Check(ctx context.Context) ([]driver.Violation, error) {
	a, err := post[wire.CheckAnswer](ctx, s.transport, "/v1/check", nil, looks, time.Hour, func(a wire.CheckAnswer) bool { return len(a.Checks) > 0 })
	s.checks.Store(&a.Checks)
	return a.Violations, err
}

// Checks names the invariants that the last Check has looked at.
func (s *Store) Checks() []string {
	if names := s.checks.Load(); names != nil {
		return *names
	}
	return nil
}

// Repair recomputes the values derived from the jobs. It is idempotent, but a second call does not
// list the repairs of the first.
func (s *Store) Repair(ctx context.Context) ([]driver.Violation, error) {
	var a wire.RepairAnswer
	err := s.call(ctx, request{method: http.MethodPost, path: "/v1/repair", out: &a, safety: unsafe, wait: time.Hour})
	return a.Repaired, err
}

// Close ends blocked calls with ErrClosed. The store behind the server stays open.
func (s *Store) Close() error {
	s.close()
	s.http.CloseIdleConnections()
	return nil
}
