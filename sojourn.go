// Package sojourn is a durable job queue for work that waits on the outside world: a job sends a
// request, frees its worker, and is finished by an answer that comes later over another channel,
// matched by a key the application already has.
//
// There are five terms. A [Job] is one unit of work. Its [Kind] selects the handler. It waits in a
// queue. A worker (package worker) claims it under a [Lease] and runs the handler. Its key matches
// the [Response] that arrives later.
//
// The flow, in the order in which to read the code:
//
//	Kind.New          makes a Job from typed arguments                           kind.go, job.go
//	Client.Enqueue    checks it, gives it an ID, stores it durably               sojourn.go
//	Claimer.Claim     hands it to a worker under a lease                         driver/work.go
//	handler           returns nil, an error, or Await, Snooze, Abort, Cancel     outcome.go
//	rules.Decide      says what the outcome does to the job (pure)               rules/decide.go
//	Client.Respond    stores the answer; rules.Match finds the job for it        rules/match.go
//	Store.Sweep       ends overdue leases, waits and deadlines                   driver/driver.go
//
// This package has what applications need. It does no input or output and reads no clock: a [Store]
// does both. Constructors such as sqlite.Open return a [Client] over their store. Package rules
// holds the rules of a job's life, and every store calls them; package driver is what workers and
// servers need of a store; package access has tokens and the audit log.
//
// Delivery is at least once. Further guarantees: an acknowledged enqueue is durable, a job has one
// live lease at a time, every write on behalf of a step checks (id, epoch, worker) and the running
// state, and a worker that lost its lease cannot change anything.
package sojourn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/inside"
)

// Client is the API for applications: it validates calls, leases ids, and handles typed jobs.
// Constructors such as sqlite.Open return one over their store. Safe for concurrent use.
type Client struct {
	store    Store
	ids      *idBlock
	messages *messageIDs
	by       string // see As
	server   bool   // see NewServerClient
	tracer   Tracer // see WithTracer
}

// NewClient makes a Client over any Store.
func NewClient(s Store) *Client {
	return &Client{store: s, ids: &idBlock{}, messages: &messageIDs{}}
}

// NewServerClient makes the Client of a server. The server owns the ids that it leases, not the
// Caller in the context, so no caller can use them first. A caller that sends a job with an id must
// have leased that id.
func NewServerClient(s Store) *Client {
	c := NewClient(s)
	c.server = true
	return c
}

// As returns the same client for an operator. Its changes of jobs and responses are recorded under
// this name. A server records the access token too. Close only one of them.
func (c *Client) As(name string) *Client {
	named := *c
	named.by = name
	return &named
}

// leasing is the context in which c leases ids.
func (c *Client) leasing(ctx context.Context) context.Context {
	if !c.server {
		return ctx
	}
	return inside.AsServer(ctx)
}

// Store returns the underlying store, for workers and tools.
func (c *Client) Store() Store { return c.store }

// Close closes the store. Jobs that are running elsewhere go on.
func (c *Client) Close() error { return c.store.Close() }

// Enqueue stores one job and returns when it is durable. It writes the id into j before it calls
// the store: if the error has CodeUnknown, repeat the call with the same j, and at most one job
// exists. If a live job of the kind has the key, nothing changes, and the result and then j.ID have
// the id of that job (see OnKeyConflict); the call may still be repeated with the same j.
func (c *Client) Enqueue(ctx context.Context, j *Job) (Enqueued, error) {
	es, err := c.enqueue(ctx, []*Job{j}, false)
	if err != nil {
		return Enqueued{}, alone(err)
	}
	return es[0], nil
}

// alone removes the index from the error of a call without a batch.
func alone(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Index == 0 {
		c := *e
		c.Index = -1
		return &c
	}
	return err
}

// EnqueueAll stores up to MaxBatch jobs in one transaction, all or none. The results are in the
// order of jobs. An *Error has the index of the invalid job in Index.
func (c *Client) EnqueueAll(ctx context.Context, jobs ...*Job) ([]Enqueued, error) {
	return c.enqueue(ctx, jobs, false)
}

// EnqueueEach stores up to MaxBatch jobs independently of each other: Enqueued.Err is the error
// of an item. The returned error is about the whole call.
func (c *Client) EnqueueEach(ctx context.Context, jobs ...*Job) ([]Enqueued, error) {
	return c.enqueue(ctx, jobs, true)
}

func (c *Client) enqueue(ctx context.Context, jobs []*Job, partial bool) ([]Enqueued, error) {
	if len(jobs) > MaxBatch {
		return nil, Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), MaxBatch)
	}
	out := make([]Enqueued, len(jobs))
	send, place := make([]*Job, 0, len(jobs)), make([]int, 0, len(jobs))
	for i, j := range jobs {
		if err := j.Validate(MaxMaxBytes); err != nil { // the store knows its own, lower limit
			if !partial {
				return nil, AtIndex(i, err)
			}
			out[i].Err = AtIndex(i, err)
			continue
		}
		send, place = append(send, j), append(place, i)
	}
	if len(send) == 0 {
		return out, nil
	}
	ctx, done := c.TraceEnqueue(ctx, send)
	es, err := c.enqueueDrawn(ctx, send, partial)
	done(err)
	for k, e := range es {
		out[place[k]] = e
		if e.Err != nil {
			out[place[k]].Err = AtIndex(place[k], e.Err)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// enqueueDrawn gives ids to jobs without one. If this call took ids from an expired block, the
// store refuses them before it writes, and enqueueDrawn replaces them once.
func (c *Client) enqueueDrawn(ctx context.Context, jobs []*Job, partial bool) ([]Enqueued, error) {
	for _, j := range jobs {
		j.resend()
	}
	es, err := c.drawFresh(ctx, jobs, partial)
	for i, e := range es {
		if j := jobs[i]; err == nil && e.Err == nil && e.ID != 0 && e.ID != j.ID {
			j.sent, j.kept, j.ID = j.ID, e.ID, e.ID
		}
	}
	return es, err
}

func (c *Client) drawFresh(ctx context.Context, jobs []*Job, partial bool) ([]Enqueued, error) {
	fresh := jobs
	if drawn := func(j *Job) bool { return j.ID != 0 }; slices.ContainsFunc(jobs, drawn) {
		fresh = slices.DeleteFunc(slices.Clone(jobs), drawn)
	}
	es, err := c.drawAndSend(ctx, fresh, jobs, partial)
	if ErrorCode(err) == CodeIDExpired && len(fresh) > 0 {
		c.ids.drop()
		return c.drawAndSend(ctx, fresh, jobs, partial)
	}
	var again []*Job // of a partial call: the others are stored, or refused for another reason
	var place []int
	for i, e := range es {
		if ErrorCode(e.Err) == CodeIDExpired && slices.Contains(fresh, jobs[i]) {
			again, place = append(again, jobs[i]), append(place, i)
		}
	}
	if err != nil || len(again) == 0 {
		return es, err
	}
	c.ids.drop()
	more, err := c.drawAndSend(ctx, again, again, partial)
	for k, i := range place {
		if err == nil {
			es[i] = more[k]
		} else {
			es[i].Err = err
		}
	}
	return es, nil
}

// drawAndSend gives new ids to the jobs in fresh, which are part of jobs, and stores all jobs.
func (c *Client) drawAndSend(ctx context.Context, fresh, jobs []*Job, partial bool) ([]Enqueued, error) {
	for _, j := range fresh {
		id, err := c.ids.next(c.leasing(ctx), c.store)
		if err != nil {
			for _, f := range fresh {
				f.ID = 0
			}
			return nil, err
		}
		if j.ID = id; c.server {
			j.set |= setServerID
		}
	}
	send := make([]Job, len(jobs))
	for i, j := range jobs {
		send[i] = *j
	}
	es, err := c.store.Enqueue(ctx, send, partial)
	ownNotDuplicate(es, fresh, jobs)
	return es, err
}

// ownNotDuplicate clears Duplicate where this call stored the job: the store may have sent it twice
// because the first answer was lost. No other caller knows an id that this call has leased.
func ownNotDuplicate(es []Enqueued, fresh, jobs []*Job) {
	if !slices.ContainsFunc(es, func(e Enqueued) bool { return e.Duplicate }) {
		return
	}
	seen := make(map[ID]bool, len(jobs))
	for i := range es {
		id := jobs[i].ID
		if es[i].Duplicate && es[i].ID == id && !seen[id] && slices.Contains(fresh, jobs[i]) {
			es[i].Duplicate = false
		}
		seen[id] = true
	}
}

// Reserve leases n ids (1 to 10,000) for jobs that get them by WithID, for example because the
// args of one job name another. They are valid for IDLife. Enqueue does not draw them for others.
func (c *Client) Reserve(ctx context.Context, n int) ([]ID, error) {
	if n < 1 || n > idBlockNext {
		return nil, Invalid("n", "%d is out of range: 1 to %d ids a call", n, idBlockNext)
	}
	return c.ids.reserve(c.leasing(ctx), c.store, n)
}

// Wake makes workers and waiting calls of this process poll for jobs now. It is optional: it saves
// one poll interval after the commit of a transaction with EnqueueTx or FinishTx.
func (c *Client) Wake() {
	if s, ok := c.store.(interface{ Nudge() }); ok {
		s.Nudge()
	}
}

// Get returns a job, complete. ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, id ID) (*Job, error) {
	return c.one(ctx, Filter{IDs: []ID{id}, Full: true}, "no job has the id %d", id)
}

// GetByKey returns the live job with the key, else the newest final one, or ErrNotFound. Only jobs
// of the kinds are considered; without kinds, those of all. ErrConflict if live jobs of several
// kinds have the key: name one kind.
func (c *Client) GetByKey(ctx context.Context, key string, kinds ...string) (*Job, error) {
	if key == "" {
		return nil, Invalid("key", "is empty; a job without a key is found by its id")
	}
	if len(kinds) == 1 {
		return c.one(ctx, Filter{Kind: kinds[0], Key: key, Full: true}, "no job of kind %.64q has the key %.64q", kinds[0], key)
	}
	jobs, err := c.store.Find(ctx, Filter{Key: key, Limit: MaxFind})
	if err != nil {
		return nil, err
	}
	if len(kinds) > 0 {
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return !slices.Contains(kinds, j.Kind) })
	}
	id, err := holder(key, jobs)
	if err != nil {
		return nil, err
	}
	return c.Get(ctx, id)
}

// holder chooses one of the jobs with a key, one of each kind: the live one, else the newest.
func holder(key string, jobs []Job) (ID, error) {
	if len(jobs) == 0 {
		return 0, NotFound("no job has the key %.64q", key)
	}
	var live []string
	newest := jobs[0]
	for _, j := range jobs {
		if j.State.Live() {
			live = append(live, fmt.Sprintf("%d (%.64s)", j.ID, j.Kind))
		}
		switch {
		case newest.State.Live():
		case j.State.Live(), !j.FinishedAt.Before(newest.FinishedAt):
			newest = j
		}
	}
	if len(live) > 1 {
		return 0, Conflict("live jobs of several kinds have the key %.64q: %.400s; name the kind", key, strings.Join(live, ", "))
	}
	return newest.ID, nil
}

func (c *Client) one(ctx context.Context, f Filter, missing string, a ...any) (*Job, error) {
	jobs, err := c.store.Find(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, NotFound(missing, a...)
	}
	return &jobs[0], nil
}

// Wait returns the job once it is final, or ctx's error. ErrNotFound if there is none any more.
func (c *Client) Wait(ctx context.Context, id ID) (*Job, error) {
	for {
		if _, err := c.one(ctx, Filter{IDs: []ID{id}}, "no job has the id %d", id); err != nil {
			return nil, err
		}
		f := Filter{IDs: []ID{id}, States: []State{Completed, Failed, Cancelled}, Full: true, Wait: 30 * time.Second}
		jobs, err := c.store.Find(ctx, f)
		if err != nil || len(jobs) > 0 {
			if err == nil {
				return &jobs[0], nil
			}
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// Respond stores an external message durably and delivers it to the job with its key. Acknowledge
// to the sender only after it returns nil. A response without a MessageID gets a random one,
// written into r before the first try, so that a repeated call with the same r is a duplicate.
func (c *Client) Respond(ctx context.Context, r *Response) (Responded, error) {
	as, err := c.RespondAll(ctx, r)
	if err != nil {
		return Responded{}, alone(err)
	}
	return as[0], nil
}

// RespondAll stores up to MaxBatch responses in one transaction, all or none.
func (c *Client) RespondAll(ctx context.Context, rs ...*Response) ([]Responded, error) {
	if len(rs) > MaxBatch {
		return nil, Invalid("responses", "%d responses exceed the limit of %d a call; split them", len(rs), MaxBatch)
	}
	for i, r := range rs {
		if err := r.Validate(MaxMaxBytes); err != nil {
			return nil, AtIndex(i, err)
		}
		if r.MessageID == "" {
			r.MessageID = c.messages.next()
		}
	}
	done := func(error) {}
	if c.tracer != nil && len(rs) > 0 {
		ctx, done = c.tracer.Respond(ctx, rs)
	}
	send := make([]Response, len(rs))
	for i, r := range rs {
		send[i] = *r
	}
	answers, err := c.store.Respond(ctx, send)
	done(err)
	return answers, err
}

// messageIDs makes ids for responses without one. Those of one client have a common prefix and
// ascend, so that they share pages of the store's index. The random end makes them unguessable.
type messageIDs struct {
	mu     sync.Mutex // guards the fields below
	prefix string
	n      uint64
}

func (m *messageIDs) next() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prefix == "" {
		m.prefix = rand.Text()[:10]
	}
	m.n++
	return fmt.Sprintf("%s%08x%s", m.prefix, m.n, rand.Text()[:8])
}

// Cancel ends one job, even a running one, at once: its worker is told by its next Extend or
// Finish. Cancelling a cancelled job is no error; ErrConflict if the job ended otherwise.
func (c *Client) Cancel(ctx context.Context, id ID, reason string) error {
	return c.Jobs().Cancel(ctx, id, reason)
}

// Tracer makes spans of a client's calls. The module otelsojourn has one for OpenTelemetry. Safe
// for concurrent use.
type Tracer interface {
	// Enqueue begins the span of a call that stores jobs, and gives each job the trace context of
	// the span, see Job.InheritTrace. The context is that of the call, and done ends the span.
	Enqueue(ctx context.Context, jobs []*Job) (_ context.Context, done func(error))
	// Respond is the same for responses.
	Respond(ctx context.Context, rs []*Response) (_ context.Context, done func(error))
}

// WithTracer returns the same client with a tracer for Enqueue and Respond and their variants, and
// for EnqueueTx of the stores. nil is none. Close only one of the clients.
func (c *Client) WithTracer(t Tracer) *Client {
	traced := *c
	traced.tracer = t
	return &traced
}

// TraceEnqueue calls the client's tracer for a call that stores jobs without Client.Enqueue, such
// as in a transaction of the application. done is never nil.
func (c *Client) TraceEnqueue(ctx context.Context, jobs []*Job) (_ context.Context, done func(error)) {
	if c.tracer == nil || len(jobs) == 0 {
		return ctx, func(error) {}
	}
	return c.tracer.Enqueue(ctx, jobs)
}
