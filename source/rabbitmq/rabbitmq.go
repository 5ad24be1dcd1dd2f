// Package rabbitmq receives messages from a queue of RabbitMQ, with manual acknowledgement and a
// prefetch.
package rabbitmq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
)

// Defaults of Options.
const (
	DefaultURL      = "amqp://guest:guest@127.0.0.1:5672/"
	DefaultPrefetch = 200 // messages
	MaxPrefetch     = 65535
)

const (
	connectTime = 10 * time.Second // for one attempt to connect
	heartbeat   = 10 * time.Second // a server that is silent for twice this long is gone
)

// Options of a broker. Only Queue is needed.
type Options struct {
	URL      string      // amqp or amqps, with user, password and virtual host. Default: that of a fresh server
	Queue    string      // must exist
	Prefetch int         // messages that the server sends ahead of their acknowledgement: 1 to 65,535, default 200. No batch is larger
	Config   amqp.Config // of the client, such as TLS and SASL
}

// Validate checks everything that can be checked without a server; Open calls it.
func (o Options) Validate() error {
	if o.Queue == "" || len(o.Queue) > 255 {
		return sojourn.Invalid("queue", "a queue has a name of 1 to 255 bytes, this one has %d", len(o.Queue))
	}
	if o.Prefetch < 0 || o.Prefetch > MaxPrefetch {
		return sojourn.Invalid("prefetch", "%d is out of range: 1 to %d, or 0 for %d", o.Prefetch, MaxPrefetch, DefaultPrefetch)
	}
	if o.URL != "" {
		if _, err := amqp.ParseURI(o.URL); err != nil {
			return sojourn.Invalid("url", "%v", err) // names no password
		}
	}
	return nil
}

// Open returns at once. Receive connects, and fails while the server is unreachable. The error is
// about the options.
//
// The id of a message is its property message-id. If the sender sets none, it is the SHA-256 of the
// message, so that a redelivered message is recognised. Messages with the same body, routing key,
// type, correlation id, application, timestamp and headers are then duplicates; set ids to keep
// them apart. Headers that begin with x- are ignored, because servers add them. The key of a
// message is its correlation id. Headers that are not text are formatted with fmt.
func Open(o Options) (source.Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.URL, o.Prefetch = cmp.Or(o.URL, DefaultURL), cmp.Or(o.Prefetch, DefaultPrefetch)
	if o.Config.Dial == nil {
		o.Config.Dial = amqp.DefaultDial(connectTime)
	}
	o.Config.Heartbeat = cmp.Or(o.Config.Heartbeat, heartbeat)
	if o.Config.Properties == nil {
		o.Config.Properties = amqp.NewConnectionProperties()
		o.Config.Properties.SetClientConnectionName("sojourn")
	}
	return &broker{o: o}, nil
}

type broker struct {
	o       Options
	conn    *amqp.Connection
	channel *amqp.Channel
	from    <-chan amqp.Delivery // nil: not connected
	closed  <-chan *amqp.Error   // why the channel has ended
}

func (b *broker) Receive(ctx context.Context, limit int) ([]*source.Message, error) {
	if b.from == nil {
		if err := b.connect(); err != nil {
			return nil, err
		}
	}
	var ms []*source.Message
	select {
	case d, ok := <-b.from:
		if !ok {
			return nil, b.lost()
		}
		ms = append(ms, message(d))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(ms) < limit {
		select {
		case d, ok := <-b.from:
			if !ok { // these come again, and can be stored all the same
				return ms, b.lost()
			}
			ms = append(ms, message(d))
		default:
			return ms, nil
		}
	}
	return ms, nil
}

func (b *broker) connect() (err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.conn, err = amqp.DialConfig(b.o.URL, b.o.Config); err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	if b.channel, err = b.conn.Channel(); err != nil {
		return err
	}
	b.closed = b.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = b.channel.Qos(b.o.Prefetch, 0, false); err != nil {
		return err
	}
	from, err := b.channel.Consume(b.o.Queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("queue %s: %w", b.o.Queue, err)
	}
	b.from = from
	return nil
}

// lost returns the reason why the deliveries ended, and disconnects. The server may have cancelled
// only the consumer, because the queue was deleted.
func (b *broker) lost() error {
	err := errors.New("the server has ended the consumer")
	select {
	case reason := <-b.closed:
		if reason != nil {
			err = reason
		}
	default:
	}
	b.Close()
	return fmt.Errorf("queue %s: %w", b.o.Queue, err)
}

func message(d amqp.Delivery) *source.Message {
	headers := make(map[string]string, len(d.Headers))
	for name, value := range d.Headers {
		switch v := value.(type) {
		case string:
			headers[name] = v
		case []byte:
			headers[name] = string(v)
		default:
			headers[name] = fmt.Sprint(v)
		}
	}
	m := &source.Message{ID: d.MessageId, Topic: d.RoutingKey, Key: d.CorrelationId, Headers: headers, ContentType: d.ContentType, Time: d.Timestamp, Body: d.Body, Ref: d}
	if m.ID == "" {
		m.ID = identity(m, d.Type, d.AppId)
	}
	m.Headers = source.LowerCase(headers)
	return m
}

// identity returns the SHA-256 of the parts of a message that redelivery does not change. Each part
// is prefixed with its length.
func identity(m *source.Message, more ...string) string {
	h := sha256.New()
	write := func(part string) { fmt.Fprintf(h, "%d ", len(part)); io.WriteString(h, part) }
	for _, part := range append([]string{m.Topic, m.Key, m.ContentType, m.Time.UTC().Format(time.RFC3339), string(m.Body)}, more...) {
		write(part)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if !strings.HasPrefix(strings.ToLower(name), "x-") {
			write(name)
			write(m.Headers[name])
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Acknowledge speaks of the last message, and with it of all before it. Messages of a connection
// that has ended cannot be acknowledged: they come again.
func (b *broker) Acknowledge(_ context.Context, ms []*source.Message) error {
	if len(ms) == 0 {
		return nil
	}
	return ms[len(ms)-1].Ref.(amqp.Delivery).Ack(true)
}

func (b *broker) Close() error {
	conn := b.conn
	b.conn, b.channel, b.from, b.closed = nil, nil, nil, nil
	if conn == nil || conn.IsClosed() {
		return nil
	}
	return conn.Close()
}
