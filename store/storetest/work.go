package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// A wish changes a claim request.
type wish func(*driver.ClaimRequest)

func by(worker string) wish       { return func(r *driver.ClaimRequest) { r.Worker = worker } }
func from(queues ...string) wish  { return func(r *driver.ClaimRequest) { r.Queues = queues } }
func kinds(names ...string) wish  { return func(r *driver.ClaimRequest) { r.Kinds = names } }
func upTo(n int) wish             { return func(r *driver.ClaimRequest) { r.Max = n } }
func room(capacity int64) wish    { return func(r *driver.ClaimRequest) { r.Capacity = capacity } }
func numbered(n int64) wish       { return func(r *driver.ClaimRequest) { r.Number = n } }
func leased(d time.Duration) wish { return func(r *driver.ClaimRequest) { r.Lease = d } }
func waiting() wish               { return func(r *driver.ClaimRequest) { r.Wait = sojourn.MaxWait } }

// deciding declares that the worker has a retry handler for every kind.
func deciding(r *driver.ClaimRequest) { r.Decidable = r.Kinds }

// request is a claim of one job by w1, with a new number.
func (s *asWorker) request(wishes ...wish) driver.ClaimRequest {
	s.claims++
	r := driver.ClaimRequest{Worker: "w1", Number: s.claims, Queues: []string{line}, Kinds: []string{charge}, Max: 1, Capacity: 1 << 30, Lease: lease}
	for _, w := range wishes {
		w(&r)
	}
	return r
}

// claimMany claims as many jobs as there are.
func (s *asWorker) claimMany(wishes ...wish) []driver.Claimed {
	s.Helper()
	return s.claimAs(s.request(wishes...))
}

func (s *asWorker) claimAs(r driver.ClaimRequest) []driver.Claimed {
	s.Helper()
	cs, err := s.store.Claim(s.ctx, r)
	s.must(err, "Claim")
	for _, c := range cs {
		if c.Lease.ID != c.Job.ID || c.Lease.Epoch != c.Job.Epoch || c.Lease.Worker != r.Worker {
			s.Fatalf("Claim gave the lease %+v for job %d with epoch %d", c.Lease, c.Job.ID, c.Job.Epoch)
		}
	}
	return cs
}

// claim takes exactly one job.
func (s *asWorker) claim(wishes ...wish) driver.Claimed {
	s.Helper()
	cs := s.claimMany(wishes...)
	if len(cs) != 1 {
		s.Fatalf("Claim gave %d jobs, want 1", len(cs))
	}
	return cs[0]
}

// claimNone wants nothing to be claimable.
func (s *asWorker) claimNone(why string, wishes ...wish) {
	s.Helper()
	if cs := s.claimMany(append([]wish{upTo(100)}, wishes...)...); len(cs) != 0 {
		s.Fatalf("Claim gave %v, want none: %s", claimedIDs(cs), why)
	}
}

func claimedIDs(cs []driver.Claimed) []sojourn.ID {
	ids := make([]sojourn.ID, len(cs))
	for i, c := range cs {
		ids[i] = c.Job.ID
	}
	return ids
}

// inHand is the answer that a claim gave.
func (s *asWorker) inHand(c driver.Claimed) sojourn.Response {
	s.Helper()
	if c.Job.Response == nil {
		s.Fatalf("job %d was claimed (%s) without the answer it should have in hand", c.Job.ID, c.Purpose)
	}
	return *c.Job.Response
}

// report sends one outcome and returns the answer.
func (s *asWorker) report(o sojourn.Outcome) driver.Finished {
	s.Helper()
	fs, err := s.store.Finish(s.ctx, []sojourn.Outcome{o})
	s.must(err, "Finish")
	if len(fs) != 1 {
		s.Fatalf("Finish of 1 outcome gave %d answers", len(fs))
	}
	return fs[0]
}

// finish wants the outcome to be applied and to leave the job in a state.
func (s *asWorker) finish(o sojourn.Outcome, want sojourn.State) sojourn.Job {
	s.Helper()
	f := s.report(o)
	if f.Status != driver.FinishApplied || f.State != want {
		s.Fatalf("Finish(%s) of job %d answered %s, state %s (reason %q, err %v); want applied, %s",
			o.Type, o.Lease.ID, f.Status, f.State, f.Reason, f.Err, want)
	}
	return s.state(o.Lease.ID, want)
}

// reports wants the outcome to be answered so.
func (s *asWorker) reports(o sojourn.Outcome, want driver.FinishStatus) driver.Finished {
	s.Helper()
	f := s.report(o)
	if f.Status != want || errors.Is(f.Err, sojourn.ErrLeaseLost) != (want == driver.FinishLost) {
		s.Fatalf("Finish(%s) of %+v answered %s (state %s, reason %q, err %v), want %s", o.Type, o.Lease, f.Status, f.State, f.Reason, f.Err, want)
	}
	return f
}

// Outcomes of a step.

func completed(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted, Result: []byte("done"), ResultType: "text/plain"}
}

func failure(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: "gateway", Text: "the gateway said no"}
}

func await(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: within, Keys: keys}}
}

func awaitAll(c driver.Claimed, within time.Duration, keys ...string) sojourn.Outcome {
	o := await(c, within, keys...)
	o.Wait.Mode = sojourn.WaitAll
	return o
}

func snooze(c driver.Claimed, d time.Duration) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeSnooze, Delay: d}
}

func released(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeReleased}
}

func abort(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAbort, Reason: "declined", Text: "the card was declined"}
}

func decided(c driver.Claimed, v sojourn.Verdict) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeDecided, Verdict: v}
}

// Jobs in a state.

// running is a new job under a lease of w1.
func (s *scene) running(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.enqueue(options...)
	j := s.get(id)
	c := s.claim(from(j.Queue), kinds(j.Kind))
	same(s, "the claimed job", c.Job.ID, id)
	return c
}

// awaiting is a new job that waits for its answer until its attempt's timeout.
func (s *scene) awaiting(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.running(options...)
	s.finish(await(c, 0), sojourn.Awaiting)
	return c
}

// resumed is a new job with an answer that it waited for and no handler has seen.
func (s *scene) resumed(key string, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.awaiting(append(options, sojourn.Key(key))...)
	if r := s.respond(key); r.Outcome != sojourn.Applied {
		s.Fatalf("Respond to an awaiting job answered %+v, want applied", r)
	}
	if j := s.state(c.Job.ID, sojourn.Ready); !j.Resumed {
		s.Fatalf("job %d was answered and is not resumed", j.ID)
	}
	return c
}

// retrying makes a job whose first attempt ended with an error; the second starts in ten seconds.
func (s *scene) retrying(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.running(append([]sojourn.Option{steady(10 * time.Second)}, options...)...)
	s.finish(failure(c), sojourn.Scheduled)
	return c
}

// errored makes a job of a kind with a retry handler, whose lease was lost.
func (s *scene) errored(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.enqueue(append([]sojourn.Option{steady(10 * time.Second)}, options...)...)
	c := s.claim(deciding)
	same(s, "the claimed job", c.Job.ID, id)
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(id, sojourn.Errored)
	return c
}

// final is a new job that ended in a state.
func (s *scene) final(want sojourn.State, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.running(options...)
	switch want {
	case sojourn.Completed:
		s.finish(completed(c), want)
	case sojourn.Failed:
		s.finish(abort(c), want)
	default:
		s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled, Reason: "asked", Text: "asked to stop"}, want)
	}
	return c
}

// A mark changes a response.
type mark func(*sojourn.Response)

func body(b string) mark { return func(r *sojourn.Response) { r.Body = []byte(b) } }

func message(source, id string) mark {
	return func(r *sojourn.Response) { r.Source, r.MessageID = source, id }
}

func failing(reason string) mark {
	return func(r *sojourn.Response) { r.Failed, r.Reason, r.Error = true, reason, "the other side says "+reason }
}

func toJob(id sojourn.ID) mark {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Job = "", "", id }
}

func token(t string) mark {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Token = "", "", t }
}

// answer makes a response with a message id of its own.
func (s *asResponder) answer(key string, marks ...mark) sojourn.Response {
	s.messages++
	r := sojourn.Response{Kind: charge, Key: key, Source: "test", MessageID: fmt.Sprintf("m%d", s.messages),
		Body: fmt.Appendf(nil, "answer %d", s.messages), ContentType: "text/plain"}
	for _, m := range marks {
		m(&r)
	}
	return r
}

// respond stores one response and returns the answer.
func (s *asResponder) respond(key string, marks ...mark) sojourn.Responded {
	s.Helper()
	return s.send(s.answer(key, marks...))
}

func (s *asResponder) send(r sojourn.Response) sojourn.Responded {
	s.Helper()
	as, err := s.store.Respond(s.ctx, []sojourn.Response{r})
	s.must(err, "Respond")
	if len(as) != 1 {
		s.Fatalf("Respond of 1 response gave %d answers", len(as))
	}
	return as[0]
}

// became wants a response to be answered so, for a job (0 = none), and to lie so in the inbox.
func (s *asResponder) became(r sojourn.Responded, want sojourn.ResponseOutcome, job sojourn.ID) sojourn.Response {
	s.Helper()
	if r.Outcome != want || r.Job != job {
		s.Fatalf("Respond answered %s for job %d, want %s for job %d", r.Outcome, r.Job, want, job)
	}
	return s.lies(r.Seq, want)
}

// lies wants a response of the inbox to have an outcome.
func (s *asResponder) lies(seq int64, want sojourn.ResponseOutcome) sojourn.Response {
	s.Helper()
	for _, r := range s.inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
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

func (s *environment) inbox(f sojourn.InboxFilter) []sojourn.Response {
	s.Helper()
	rs, err := s.store.Inbox(s.ctx, f)
	s.must(err, "Inbox")
	return rs
}

// inFlight wants the queue to count n jobs of weight 1 in flight.
func (s *asOperator) inFlight(want int64, when string) {
	s.Helper()
	if got := s.queue(line).InFlight; got != want {
		s.Fatalf("%s: the queue has %d in flight, want %d", when, got, want)
	}
}

func (s *environment) queue(name string) sojourn.QueueStatus {
	s.Helper()
	qs, err := s.store.Queues(s.ctx, name)
	s.must(err, "Queues")
	if len(qs) != 1 || qs[0].Name != name {
		s.Fatalf("Queues(%q) gave %d queues", name, len(qs))
	}
	return qs[0]
}

func (s *asOperator) setQueue(name string, q sojourn.QueueSettings) {
	s.Helper()
	s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, name, q), "SetQueue")
}

// lively makes a response a sign of life.
func lively(text string) mark {
	return func(r *sojourn.Response) { r.Progress, r.Body = true, []byte(text) }
}

func follow(c driver.Claimed, jobs ...sojourn.Job) sojourn.Outcome {
	o := completed(c)
	o.Next = jobs
	return o
}
