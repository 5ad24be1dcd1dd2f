// Package nats receives messages from a stream of NATS JetStream, through a durable consumer with
// explicit acknowledgement.
package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
)

// Defaults of Options.
const (
	DefaultURL     = "nats://127.0.0.1:4222"
	DefaultDurable = "sojourn"
	DefaultAckWait = 30 * time.Second // messages of a dead process are redelivered after this
)

const (
	// alive is the interval of the server's heartbeats while a request waits for a message. Two
	// missed heartbeats fail the request.
	alive = time.Second
	// connectTime limits the wait for a connection, so that a missing connection is logged.
	connectTime = 5 * time.Second
)

// Options of a broker. Only Stream is needed.
type Options struct {
	URL         string        // one or more, with commas; may carry user and password or token. Default: nats://127.0.0.1:4222
	Credentials string        // a file with JWT and seed. Default: none
	Stream      string        // must exist
	Subjects    []string      // of the stream; more than one needs a server 2.10. Default: all
	Durable     string        // the consumer, which holds the position. Default: sojourn
	AckWait     time.Duration // default 30 s, at least 1 s
	Existing    bool          // use the consumer as it is: do not create or change it
	Connect     []nats.Option // of the client, such as TLS; they come after the package's own
}

// Validate checks everything that can be checked without a server; Open calls it.
func (o Options) Validate() error {
	if o.Stream == "" || strings.ContainsAny(o.Stream, " .*>/\\\t\r\n") {
		return sojourn.Invalid("stream", "%.64q is not the name of a stream", o.Stream)
	}
	if o.AckWait != 0 && o.AckWait < time.Second {
		return sojourn.Invalid("ack_wait", "%v is out of range: 1s and more, or 0 for %v", o.AckWait, DefaultAckWait)
	}
	return nil
}

// Open starts to connect and returns at once. Receive waits while the server is unreachable. The
// error is about the options. A missing consumer is created, and one with other settings is
// changed, unless Existing is set.
//
// The id of a message is STREAM@TIME/SEQUENCE, where TIME is the creation time of the stream, in
// milliseconds since 1970, because the sequence of a recreated stream restarts at 1. A message has
// no key. Only the first value of a header is used.
func Open(o Options) (source.Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.URL == "" {
		o.URL = DefaultURL
	}
	if o.Durable == "" {
		o.Durable = DefaultDurable
	}
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	connect := []nats.Option{nats.Name("sojourn"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	if o.Credentials != "" {
		connect = append(connect, nats.UserCredentials(o.Credentials))
	}
	conn, err := nats.Connect(o.URL, append(connect, o.Connect...)...)
	if err != nil {
		return nil, sojourn.Invalid("url", "%v", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &broker{o: o, conn: conn, js: js}, nil
}

type broker struct {
	o      Options
	conn   *nats.Conn
	js     jetstream.JetStream
	from   jetstream.Consumer // nil: look for it
	prefix string             // of message ids
}

func (b *broker) Receive(ctx context.Context, limit int) ([]*source.Message, error) {
	if err := b.consumer(ctx); err != nil {
		return nil, err
	}
	ms, err := b.fetch(func() (jetstream.MessageBatch, error) { return b.from.FetchNoWait(limit) })
	for err == nil && len(ms) == 0 && ctx.Err() == nil {
		ms, err = b.next(ctx)
	}
	if err != nil {
		b.from = nil // it may be gone, or the stream recreated
	}
	if err == nil && len(ms) == 0 {
		err = ctx.Err()
	}
	return ms, err
}

// next waits for one message.
func (b *broker) next(ctx context.Context) ([]*source.Message, error) {
	wait, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a deadline close by would leave no room for signs of life
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	ms, err := b.fetch(func() (jetstream.MessageBatch, error) {
		return b.from.Fetch(1, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(alive))
	})
	if wait.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return ms, err
}

func (b *broker) fetch(start func() (jetstream.MessageBatch, error)) (ms []*source.Message, err error) {
	batch, err := start()
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		one, err := b.message(m)
		if err != nil {
			return ms, err
		}
		ms = append(ms, one)
	}
	return ms, batch.Error()
}

// consumer waits for the connection and finds the consumer.
func (b *broker) consumer(ctx context.Context) error {
	if err := b.connected(ctx); err != nil || b.from != nil {
		return err
	}
	stream, err := b.js.Stream(ctx, b.o.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.o.Stream, err)
	}
	var from jetstream.Consumer
	if b.o.Existing {
		from, err = stream.Consumer(ctx, b.o.Durable)
	} else {
		c := jetstream.ConsumerConfig{Durable: b.o.Durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: b.o.AckWait, FilterSubjects: b.o.Subjects}
		if len(b.o.Subjects) == 1 { // servers before 2.10 know only this field
			c.FilterSubject, c.FilterSubjects = b.o.Subjects[0], nil
		}
		from, err = stream.CreateOrUpdateConsumer(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", b.o.Durable, b.o.Stream, err)
	}
	b.from, b.prefix = from, fmt.Sprintf("%s@%d/", b.o.Stream, stream.CachedInfo().Created.UnixMilli())
	return nil
}

func (b *broker) connected(ctx context.Context) error {
	changes := b.conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer b.conn.RemoveStatusListener(changes)
	if b.conn.IsConnected() {
		return nil
	}
	select {
	case <-changes:
		return nil
	case <-time.After(connectTime):
		if err := b.conn.LastError(); err != nil {
			return fmt.Errorf("not connected: %w", err)
		}
		return errors.New("not connected")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *broker) message(m jetstream.Msg) (*source.Message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	headers := make(map[string]string, len(m.Headers()))
	for name, values := range m.Headers() {
		if len(values) > 0 {
			headers[name] = values[0]
		}
	}
	headers = source.LowerCase(headers)
	return &source.Message{ID: fmt.Sprint(b.prefix, meta.Sequence.Stream), Topic: m.Subject(), Headers: headers, ContentType: headers["content-type"],
		Time: meta.Timestamp, Body: m.Data(), Ref: m}, nil
}

// Acknowledge waits for the server's word about the last one only: they reach it in order.
func (b *broker) Acknowledge(ctx context.Context, ms []*source.Message) error {
	for i, m := range ms {
		of := m.Ref.(jetstream.Msg)
		var err error
		if i < len(ms)-1 {
			err = of.Ack()
		} else {
			err = of.DoubleAck(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) Close() error {
	b.conn.Close()
	return nil
}
