// Package source delivers responses from other systems to jobs. A Source receives messages from a
// broker, converts them to responses with a Matcher, stores these, and only then acknowledges the
// messages:
//
//	receive → match → respond → acknowledge
//
// No message is lost if a process dies: a message whose response is not durable is not acknowledged
// and is redelivered. A redelivered message has the same id and is a duplicate. A message that the
// matcher cannot convert, or that the store refuses, is parked in the inbox with its reason, and
// later messages continue. A message with the id of an earlier one, but another address or body, is
// stored in the inbox as a conflict.
//
// This package links no broker. Each broker has its own package: source/nats, source/kafka,
// source/rabbitmq. Rules in CEL are matchers too, see rule.Matcher.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Defaults and limits of Options.
const (
	DefaultBatch = 100              // messages that are received, stored and acknowledged together
	MaxBatch     = sojourn.MaxBatch // the most that Options.Batch may be
	DefaultGrace = 10 * time.Second // to store received messages after Run's context has ended
)

// acknowledgeTime bounds one call of Acknowledge: a broker that is away redelivers anyway.
const acknowledgeTime = 10 * time.Second

// Message is one message as the broker has it.
type Message struct {
	// ID is the same whenever the broker delivers this message, and no other of the source has it.
	// It is the message id of the response unless the matcher sets another, so a redelivery is a
	// duplicate.
	ID          string
	Topic       string            // topic, subject or routing key
	Key         string            // the broker's own key of the message, if it has such a thing
	Headers     map[string]string // the first value of each name; a matcher sees the names in lower case, see LowerCase
	ContentType string
	Time        time.Time // when the broker or the sender made it; zero if unknown
	Body        []byte
	Ref         any // for the broker's own use
}

// Broker delivers messages at least once. The calls come from one goroutine, one after the other.
type Broker interface {
	// Receive waits for at least one message and returns up to max messages in the order of their
	// arrival, without waiting for more. It may return messages and an error. After an error it is
	// called again and reconnects if necessary. A message of an earlier Receive that was not
	// acknowledged need not be redelivered before the broker is opened again.
	Receive(ctx context.Context, max int) ([]*Message, error)
	// Acknowledge tells the broker that ms, all messages received since the last Acknowledge, are
	// processed. After an error the broker may redeliver them, which does no harm.
	Acknowledge(ctx context.Context, ms []*Message) error
	// Close returns unacknowledged messages to the broker and disconnects.
	Close() error
}

// Responder stores responses; a *sojourn.Client is one.
type Responder interface {
	RespondAll(ctx context.Context, rs ...*sojourn.Response) ([]sojourn.Responded, error)
}

// Handled is the result of a message.
type Handled struct {
	Message  *Message
	Response *sojourn.Response // nil if the matcher passed the message over
	Answer   sojourn.Responded // of the store
}

// Options of a Source.
type Options struct {
	// Name is the source of the responses in the inbox, 1-255 bytes, see sojourn.ValidSource.
	// Message ids are unique within it: do not use one name for two brokers, and do not change it
	// while handled messages may be redelivered.
	Name string
	// Match makes the responses.
	Match Matcher
	// Batch is the maximum number of messages that are received, stored in one transaction and
	// acknowledged together. 1 to 1,000, default 100.
	Batch int
	// Grace is the time to store and acknowledge the received messages after Run's context has
	// ended: default 10 s. The broker redelivers messages that are not stored by then.
	Grace time.Duration
	// TTL is the time after which an early response becomes unmatched: at least 1 s; 0 = the
	// store's own, 24 h by default. The matcher may set another.
	TTL time.Duration
	// Logger logs the errors of the broker and the store. Default: slog.Default().
	Logger *slog.Logger
	// Observe is called with each message after it was acknowledged, in order, from the goroutine
	// of Run. Default: none.
	Observe func(Handled)
}

// Source carries messages from one broker to one store.
type Source struct {
	to   Responder
	from Broker
	o    Options
}

// New makes a source; Run starts it. The error is about the options.
func New(to Responder, from Broker, o Options) (*Source, error) {
	if err := sojourn.ValidSource("name", o.Name); err != nil {
		return nil, err
	}
	if o.Match == nil {
		return nil, sojourn.Invalid("match", "is missing; set a function that returns the address of the response in a message")
	}
	if o.Batch < 0 || o.Batch > MaxBatch {
		return nil, sojourn.Invalid("batch", "%d is out of range: 1 to %d, or 0 for %d", o.Batch, MaxBatch, DefaultBatch)
	}
	if o.Grace < 0 || o.Grace > sojourn.MaxHorizon {
		return nil, sojourn.Invalid("grace", "%v is out of range: up to 10 years, or 0 for %v", o.Grace, DefaultGrace)
	}
	if o.TTL != 0 && (o.TTL < sojourn.MinInboxTTL || o.TTL > sojourn.MaxHorizon) {
		return nil, sojourn.Invalid("ttl", "%v is out of range: 1s to 10 years, or 0 for the store's own", o.TTL)
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("source", o.Name)
	return &Source{to, from, o}, nil
}

// Run receives and stores messages until ctx ends, finishes those already received, closes the
// broker and returns nil. It retries through outages of the broker and the store of any length. It
// returns an error if the store is closed or has a wrong version, or if received messages could not
// be stored within the grace; the broker redelivers those.
func (s *Source) Run(ctx context.Context) error {
	err := s.loop(ctx)
	if closing := s.from.Close(); closing != nil {
		s.o.Logger.Warn("the broker did not close cleanly", "error", closing)
	}
	return err
}

func (s *Source) loop(ctx context.Context) error {
	pause := newPause()
	for ctx.Err() == nil {
		ms, err := s.from.Receive(ctx, s.o.Batch)
		if len(ms) > 0 {
			pause.reset()
			if err := s.inGrace(ctx, ms); err != nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("cannot receive, trying again", "error", err, "after", pause.next)
			pause.sleep(ctx)
		}
	}
	return nil
}

// inGrace handles messages with a context that outlives ctx by the grace.
func (s *Source) inGrace(ctx context.Context, ms []*Message) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(s.o.Grace):
			cancel()
		case <-work.Done():
		}
	})()
	return s.handle(work, ms)
}

func (s *Source) handle(ctx context.Context, ms []*Message) error {
	done := make([]Handled, len(ms))
	var rs []*sojourn.Response
	var of []*Message
	for i, m := range ms {
		done[i] = Handled{Message: m, Response: s.o.Match.Response(ctx, s.o.Name, m)}
		if r := done[i].Response; r != nil {
			r.TTL = cmp.Or(r.TTL, s.o.TTL)
			rs, of = append(rs, r), append(of, m)
		}
	}
	if ctx.Err() != nil { // the result of an interrupted matcher is meaningless
		return s.unstored(ctx, len(ms), nil)
	}
	answers, err := s.store(ctx, rs, of)
	if err != nil {
		return s.unstored(ctx, len(ms), err)
	}
	s.acknowledge(ctx, ms)
	if s.o.Observe == nil {
		return nil
	}
	for _, h := range done {
		if h.Response != nil {
			h.Answer, answers = answers[0], answers[1:]
		}
		s.o.Observe(h)
	}
	return nil
}

func (s *Source) acknowledge(ctx context.Context, ms []*Message) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTime)
	defer cancel()
	if err := s.from.Acknowledge(ctx, ms); err != nil {
		s.o.Logger.Warn("cannot acknowledge, the messages may come again", "error", err, "messages", len(ms))
	}
}

// unstored is the error of messages that stay with the broker.
func (s *Source) unstored(ctx context.Context, n int, err error) error {
	return fmt.Errorf("source %s: %d messages are not stored and will come again: %w", s.o.Name, n, errors.Join(context.Cause(ctx), err))
}

// store makes the responses durable, however long it takes. What the store refuses is parked in its
// place. The message ids stay, so a repetition of a call whose outcome is unknown is harmless.
func (s *Source) store(ctx context.Context, rs []*sojourn.Response, of []*Message) (answers []sojourn.Responded, err error) {
	if len(rs) == 0 {
		return nil, nil
	}
	pause := newPause()
	for {
		if answers, err = s.to.RespondAll(ctx, rs...); err == nil {
			return answers, nil
		}
		refusal, _ := errors.AsType[*sojourn.Error](err)
		switch code := sojourn.ErrorCode(err); {
		case refused(refusal, len(rs)) && parkRefused(rs[refusal.Index], of[refusal.Index], *refusal):
			continue
		case errors.Is(err, sojourn.ErrClosed) || code != "" && code != sojourn.CodeUnknown && code != sojourn.CodeUnavailable:
			return nil, err
		}
		s.o.Logger.Warn("cannot store responses, trying again", "error", err, "responses", len(rs), "after", pause.next)
		if pause.sleep(ctx); ctx.Err() != nil {
			return nil, err
		}
	}
}

// refused reports whether an error is about one response and will be the same the next time.
func refused(e *sojourn.Error, n int) bool {
	if e == nil || e.Index < 0 || e.Index >= n {
		return false
	}
	return e.Code == sojourn.CodeInvalid || e.Code == sojourn.CodeInvalidJSON || e.Code == sojourn.CodeTooLarge || e.Code == sojourn.CodeNotFound
}
