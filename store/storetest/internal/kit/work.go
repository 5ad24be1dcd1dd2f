package kit

import (
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// A ClaimOption changes a claim request.
type ClaimOption func(*driver.ClaimRequest)

func By(worker string) ClaimOption       { return func(r *driver.ClaimRequest) { r.Worker = worker } }
func From(queues ...string) ClaimOption  { return func(r *driver.ClaimRequest) { r.Queues = queues } }
func Kinds(names ...string) ClaimOption  { return func(r *driver.ClaimRequest) { r.Kinds = names } }
func UpTo(n int) ClaimOption             { return func(r *driver.ClaimRequest) { r.Max = n } }
func Room(capacity int64) ClaimOption    { return func(r *driver.ClaimRequest) { r.Capacity = capacity } }
func Numbered(n int64) ClaimOption       { return func(r *driver.ClaimRequest) { r.Number = n } }
func Leased(d time.Duration) ClaimOption { return func(r *driver.ClaimRequest) { r.Lease = d } }
func Waiting() ClaimOption               { return func(r *driver.ClaimRequest) { r.Wait = sojourn.MaxWait } }

// Deciding declares that the worker has a retry handler for every kind.
func Deciding(r *driver.ClaimRequest) { r.Decidable = r.Kinds }

// Request is a claim of one job by w1, with a new number.
func (s *asWorker) Request(wishes ...ClaimOption) driver.ClaimRequest {
	s.Claims++
	r := driver.ClaimRequest{Worker: "w1", Number: s.Claims, Queues: []string{Queue}, Kinds: []string{Kind}, Max: 1, Capacity: 1 << 30, Lease: LeaseTime}
	for _, w := range wishes {
		w(&r)
	}
	return r
}

// ClaimMany claims as many jobs as there are.
func (s *asWorker) ClaimMany(wishes ...ClaimOption) []driver.Claimed {
	s.Helper()
	return s.ClaimAs(s.Request(wishes...))
}

func (s *asWorker) ClaimAs(r driver.ClaimRequest) []driver.Claimed {
	s.Helper()
	cs, err := s.Store.Claim(s.Ctx, r)
	s.Must(err, "Claim")
	for _, c := range cs {
		if c.Lease.ID != c.Job.ID || c.Lease.Epoch != c.Job.Epoch || c.Lease.Worker != r.Worker {
			s.Fatalf("Claim gave the lease %+v for job %d with epoch %d", c.Lease, c.Job.ID, c.Job.Epoch)
		}
	}
	return cs
}

// Claim takes exactly one job.
func (s *asWorker) Claim(wishes ...ClaimOption) driver.Claimed {
	s.Helper()
	cs := s.ClaimMany(wishes...)
	if len(cs) != 1 {
		s.Fatalf("Claim gave %d jobs, want 1", len(cs))
	}
	return cs[0]
}

// ClaimNone wants nothing to be claimable.
func (s *asWorker) ClaimNone(why string, wishes ...ClaimOption) {
	s.Helper()
	if cs := s.ClaimMany(append([]ClaimOption{UpTo(100)}, wishes...)...); len(cs) != 0 {
		s.Fatalf("Claim gave %v, want none: %s", ClaimedIDs(cs), why)
	}
}

func ClaimedIDs(cs []driver.Claimed) []sojourn.ID {
	ids := make([]sojourn.ID, len(cs))
	for i, c := range cs {
		ids[i] = c.Job.ID
	}
	return ids
}

// ClaimedResponse is the answer that a claim gave.
func (s *asWorker) ClaimedResponse(c driver.Claimed) sojourn.Response {
	s.Helper()
	if c.Job.Response == nil {
		s.Fatalf("job %d was claimed (%s) without the answer it should have in hand", c.Job.ID, c.Purpose)
	}
	return *c.Job.Response
}

// Report sends one outcome and returns the answer.
func (s *asWorker) Report(o sojourn.Outcome) driver.Finished {
	s.Helper()
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{o})
	s.Must(err, "Finish")
	if len(fs) != 1 {
		s.Fatalf("Finish of 1 outcome gave %d answers", len(fs))
	}
	return fs[0]
}

// Finish wants the outcome to be applied and to leave the job in a state.
func (s *asWorker) Finish(o sojourn.Outcome, want sojourn.State) sojourn.Job {
	s.Helper()
	f := s.Report(o)
	if f.Status != driver.FinishApplied || f.State != want {
		s.Fatalf("Finish(%s) of job %d answered %s, state %s (reason %q, err %v); want applied, %s",
			o.Type, o.Lease.ID, f.Status, f.State, f.Reason, f.Err, want)
	}
	return s.State(o.Lease.ID, want)
}

// Reports wants the outcome to be answered so.
func (s *asWorker) Reports(o sojourn.Outcome, want driver.FinishStatus) driver.Finished {
	s.Helper()
	f := s.Report(o)
	if f.Status != want || errors.Is(f.Err, sojourn.ErrLeaseLost) != (want == driver.FinishLost) {
		s.Fatalf("Finish(%s) of %+v answered %s (state %s, reason %q, err %v), want %s", o.Type, o.Lease, f.Status, f.State, f.Reason, f.Err, want)
	}
	return f
}

// Outcomes of a step.

func Completed(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted, Result: []byte("done"), ResultType: "text/plain"}
}

func Failure(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: "gateway", Text: "the gateway said no"}
}

func Await(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: within, Keys: keys}}
}

func AwaitAll(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	o := Await(c, within, keys...)
	o.Wait.Mode = sojourn.WaitAll
	return o
}

func Snooze(c driver.Claimed, d time.Duration) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeSnooze, Delay: d}
}

func Released(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeReleased}
}

func Abort(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAbort, Reason: "declined", Text: "the card was declined"}
}

func Decided(c driver.Claimed, v sojourn.Verdict) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeDecided, Verdict: v}
}

// Jobs in a state.

// Running is a new job under a lease of w1.
func (s *Scene) Running(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.Enqueue(options...)
	j := s.Get(id)
	c := s.Claim(From(j.Queue), Kinds(j.Kind))
	Same(s, "the claimed job", c.Job.ID, id)
	return c
}

// Awaiting is a new job that waits for its answer until its attempt's timeout.
func (s *Scene) Awaiting(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(options...)
	s.Finish(Await(c, 0), sojourn.Awaiting)
	return c
}

// Resumed is a new job with an answer that it waited for and no handler has seen.
func (s *Scene) Resumed(key string, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Awaiting(append(options, sojourn.Key(key))...)
	if r := s.Respond(key); r.Outcome != sojourn.Applied {
		s.Fatalf("Respond to an awaiting job answered %+v, want applied", r)
	}
	if j := s.State(c.Job.ID, sojourn.Ready); !j.Resumed {
		s.Fatalf("job %d was answered and is not resumed", j.ID)
	}
	return c
}

// Retrying makes a job whose first attempt ended with an error; the second starts in ten seconds.
func (s *Scene) Retrying(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(append([]sojourn.Option{Steady(10 * time.Second)}, options...)...)
	s.Finish(Failure(c), sojourn.Scheduled)
	return c
}

// Errored makes a job of a kind with a retry handler, whose lease was lost.
func (s *Scene) Errored(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.Enqueue(append([]sojourn.Option{Steady(10 * time.Second)}, options...)...)
	c := s.Claim(Deciding)
	Same(s, "the claimed job", c.Job.ID, id)
	s.Swept(LeaseTime, driver.Swept{Lost: 1})
	s.State(id, sojourn.Errored)
	return c
}

// Final is a new job that ended in a state.
func (s *Scene) Final(want sojourn.State, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(options...)
	switch want {
	case sojourn.Completed:
		s.Finish(Completed(c), want)
	case sojourn.Failed:
		s.Finish(Abort(c), want)
	default:
		s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled, Reason: "asked", Text: "asked to stop"}, want)
	}
	return c
}

// A ResponseOption changes a response.
type ResponseOption func(*sojourn.Response)

func Body(b string) ResponseOption { return func(r *sojourn.Response) { r.Body = []byte(b) } }

func Message(source, id string) ResponseOption {
	return func(r *sojourn.Response) { r.Source, r.MessageID = source, id }
}

func Failing(reason string) ResponseOption {
	return func(r *sojourn.Response) { r.Failed, r.Reason, r.Error = true, reason, "the other side says "+reason }
}

func ToJob(id sojourn.ID) ResponseOption {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Job = "", "", id }
}

func Token(t string) ResponseOption {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Token = "", "", t }
}

// Answer makes a response with a message id of its own.
func (s *asResponder) Answer(key string, marks ...ResponseOption) sojourn.Response {
	s.Messages++
	r := sojourn.Response{Kind: Kind, Key: key, Source: "test", MessageID: fmt.Sprintf("m%d", s.Messages),
		Body: fmt.Appendf(nil, "answer %d", s.Messages), ContentType: "text/plain"}
	for _, m := range marks {
		m(&r)
	}
	return r
}

// Respond stores one response and returns the answer.
func (s *asResponder) Respond(key string, marks ...ResponseOption) sojourn.Responded {
	s.Helper()
	return s.Send(s.Answer(key, marks...))
}

func (s *asResponder) Send(r sojourn.Response) sojourn.Responded {
	s.Helper()
	as, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
	s.Must(err, "Respond")
	if len(as) != 1 {
		s.Fatalf("Respond of 1 response gave %d answers", len(as))
	}
	return as[0]
}

// Became wants a response to be answered so, for a job (0 = none), and to lie so in the inbox.
func (s *asResponder) Became(r sojourn.Responded, want sojourn.ResponseOutcome, job sojourn.ID) sojourn.Response {
	s.Helper()
	if r.Outcome != want || r.Job != job {
		s.Fatalf("Respond answered %s for job %d, want %s for job %d", r.Outcome, r.Job, want, job)
	}
	return s.Stored(r.Seq, want)
}

// Stored wants a response of the inbox to have an outcome.
func (s *asResponder) Stored(seq int64, want sojourn.ResponseOutcome) sojourn.Response {
	s.Helper()
	for _, r := range s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
		if r.Seq == seq {
			if r.Outcome != want {
				s.Fatalf("response %d lies in the inbox as %s, want %s", seq, r.Outcome, want)
			}
			return r
		}
	}
	s.Fatalf("response %d is not in the inbox", seq)
	return sojourn.Response{}
}

func (s *environment) Inbox(f sojourn.InboxFilter) []sojourn.Response {
	s.Helper()
	rs, err := s.Store.Inbox(s.Ctx, f)
	s.Must(err, "Inbox")
	return rs
}

// InFlight wants the queue to count n jobs of weight 1 in flight.
func (s *asOperator) InFlight(want int64, when string) {
	s.Helper()
	if got := s.Queue(Queue).InFlight; got != want {
		s.Fatalf("%s: the queue has %d in flight, want %d", when, got, want)
	}
}

func (s *environment) Queue(name string) sojourn.QueueStatus {
	s.Helper()
	qs, err := s.Store.Queues(s.Ctx, name)
	s.Must(err, "Queues")
	if len(qs) != 1 || qs[0].Name != name {
		s.Fatalf("Queues(%q) gave %d queues", name, len(qs))
	}
	return qs[0]
}

func (s *asOperator) SetQueue(name string, q sojourn.QueueSettings) {
	s.Helper()
	s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, name, q), "SetQueue")
}

// Progress makes a response a sign of life.
func Progress(text string) ResponseOption {
	return func(r *sojourn.Response) { r.Progress, r.Body = true, []byte(text) }
}

func Follow(c driver.Claimed, jobs ...sojourn.Job) sojourn.Outcome {
	o := Completed(c)
	o.Next = jobs
	return o
}
