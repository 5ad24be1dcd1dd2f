package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/worker"
)

// Wire is a broker inside this process, with the topics [Requests] and [Replies]. It is safe for
// concurrent use, except for Close.
type Wire interface {
	// Name returns the broker's name: "nats" or "kafka".
	Name() string
	// Send returns when the broker has the message. It uses only Key, Headers and Body of m.
	Send(ctx context.Context, topic string, m source.Message) error
	// Receive opens a consumer of a topic, with the broker package that programs use.
	Receive(topic string) (source.Broker, error)
	// Close stops the broker. All consumers must be closed before.
	Close()
}

// The topics of a Wire.
const (
	Requests = "requests"
	Replies  = "replies"
)

// trade is a request that the shop sends to a partner over a wire, once every so many orders.
type trade struct {
	over  string // the name of the wire
	every int
	key   string // prefix of the job's key, before the order
	kind  sojourn.Kind[asked]
	says  string // the partner's final reply
}

// asked holds the args of a job whose response arrives over a wire.
type asked struct {
	Key string `json:"key"`
}

func keyOf(a asked) string { return a.Key }

// trades lists the trades. Each kind has its own queue.
var trades = []trade{
	{over: "nats", every: 25, key: "export-", says: "written",
		kind: sojourn.Kind[asked]{Name: "export_orders", Queue: "exports", Key: keyOf, Policy: sojourn.Policy{Timeout: time.Hour, KeepKey: 365 * 24 * time.Hour}}},
	{over: "kafka", every: 10, key: "parcel-", says: "booked",
		kind: sojourn.Kind[asked]{Name: "book_parcel", Queue: "parcels", Key: keyOf, Policy: sojourn.Policy{Timeout: time.Hour, KeepKey: 365 * 24 * time.Hour}}},
}

// partner receives requests over a wire and responds over it later. It loses its pending responses
// when the process dies; the broker keeps its messages.
type partner struct {
	trade
	cfg    Config
	wire   Wire
	stats  *stats
	ledger *ledger
	logger *slog.Logger

	stopHearing, stopTaking context.CancelFunc
	replies, sources        sync.WaitGroup
}

// request is a message of the shop, reply the partner's response.
type (
	request struct {
		Key string `json:"key"`
		Try int32  `json:"try"`
	}
	reply struct {
		Key   string `json:"key"`
		State string `json:"state"`
	}
)

// eventID is the header with the partner's id of a response.
const eventID = "event-id"

// extras gives the jobs that an order brings along.
func (s *shop) extras(n int) (jobs []*sojourn.Job) {
	for _, t := range s.trades {
		if n%t.every == 0 {
			jobs = append(jobs, t.kind.New(asked{t.key + orderName(n)}, sojourn.Tags(tag), sojourn.MaxAttempts(s.cfg.MaxAttempts), sojourn.RetryBackoff(s.cfg.Backoff)))
		}
	}
	return jobs
}

// handle is one step of a job: send the request and wait, or process the response.
func (p *partner) handle(ctx context.Context, job *sojourn.Job, a asked) error {
	p.stats.started(job)
	if job.Response != nil {
		return job.SetResult(job.Response.Body)
	}
	if job.Failures > 0 {
		p.stats.event("%s: asks again over %s, attempt %d", a.Key, p.wire.Name(), job.Attempt)
	}
	body, err := json.Marshal(request{a.Key, job.Attempt})
	if err != nil {
		return err
	}
	if err := p.wire.Send(ctx, Requests, source.Message{Key: a.Key, Body: body}); err != nil {
		return sojourn.WithReason("broker_unreachable", err)
	}
	return sojourn.Await(p.cfg.Within)
}

// match returns a matcher that finds the job of a response. A response that is not JSON is parked.
func match(kind string) source.Matcher {
	return func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
		var r reply
		if err := json.Unmarshal(m.Body, &r); err != nil {
			return nil, err
		}
		return &sojourn.Response{Kind: kind, Key: r.Key, MessageID: m.Headers[eventID]}, nil
	}
}

// start teaches the worker the kind, and begins to answer and to take answers.
func (p *partner) start(w *worker.Worker, c *sojourn.Client, fail func(error)) error {
	worker.Handle(w, p.kind, p.handle)
	requests, err := p.wire.Receive(Requests)
	if err != nil {
		return err
	}
	replies, err := p.wire.Receive(Replies)
	if err != nil {
		return errors.Join(err, requests.Close())
	}
	s, err := source.New(c, replies, source.Options{Name: p.wire.Name(), Match: match(p.kind.Name), Logger: p.logger, Observe: func(h source.Handled) {
		if err := p.taken(h); err != nil {
			fail(err)
		}
	}})
	if err != nil {
		return err
	}
	var hearing, taking context.Context
	hearing, p.stopHearing = context.WithCancel(context.Background())
	taking, p.stopTaking = context.WithCancel(context.Background())
	p.replies.Go(func() { p.hear(hearing, requests) })
	p.sources.Go(func() {
		if err := s.Run(taking); err != nil {
			fail(fmt.Errorf("source %s: %w", p.wire.Name(), err))
		}
	})
	return nil
}

// taken notes an answer that the source has stored and acknowledged.
func (p *partner) taken(h source.Handled) error {
	switch h.Answer.Outcome {
	case sojourn.Applied, "":
	case sojourn.Parked:
		p.stats.event("%s: unreadable answer, parked", p.wire.Name())
	default:
		p.stats.event("%s: answer over %s is %s", h.Response.Key, p.wire.Name(), h.Answer.Outcome)
	}
	return p.ledger.write(entry{Answer: h.Response.MessageID, Source: p.wire.Name(), Outcome: h.Answer.Outcome})
}

// stop stops the partner's responses, then the source that receives them.
func (p *partner) stop() {
	if p.stopHearing != nil {
		p.stopHearing()
		p.replies.Wait()
		p.stopTaking()
		p.sources.Wait()
	}
}

// hear takes requests until ctx ends, and answers each after its time.
func (p *partner) hear(ctx context.Context, requests source.Broker) {
	defer requests.Close()
	for ctx.Err() == nil {
		ms, err := requests.Receive(ctx, source.DefaultBatch)
		for _, m := range ms {
			var r request
			if json.Unmarshal(m.Body, &r) == nil {
				p.replies.Go(func() { p.answer(ctx, r) })
			}
		}
		if len(ms) > 0 {
			err = requests.Acknowledge(context.WithoutCancel(ctx), ms)
		}
		if err != nil && !sleep(ctx, firstRetry) {
			return
		}
	}
}

// answer sends what fate says. An answer that cannot be read is followed by none, until the job
// asks again.
func (p *partner) answer(ctx context.Context, r request) {
	f := p.cfg.World.fate(p.cfg.Seed, r.Key, int(r.Try))
	if f.never || !sleep(ctx, f.delay/2) {
		return
	}
	body, err := json.Marshal(reply{r.Key, p.says})
	if err != nil {
		return
	}
	if f.garbled {
		body = []byte("<html>502 Bad Gateway</html>")
	}
	times := 1
	if f.twice {
		times = 2
	}
	m := source.Message{Key: r.Key, Headers: map[string]string{eventID: "evt_" + r.Key + "_" + strconv.Itoa(int(r.Try))}, Body: body}
	for range times {
		if err := p.wire.Send(ctx, Replies, m); err != nil && ctx.Err() == nil {
			p.stats.event("%s: %v", p.wire.Name(), err)
		}
	}
}

// PartnerReport counts the traffic of a wire, in this run and earlier ones with the same ledger.
type PartnerReport struct {
	Broker    string `json:"broker"`
	Kind      string `json:"kind"`
	Queue     string `json:"queue"`
	Jobs      int    `json:"jobs"`      // acknowledged by Enqueue
	Answered  int    `json:"answered"`  // applied responses
	Duplicate int    `json:"duplicate"` // duplicate responses
	Parked    int    `json:"parked"`    // responses that could not be read
	Other     int    `json:"other"`     // early and late ones
}
