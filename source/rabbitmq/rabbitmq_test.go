package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/brokertest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/rabbitmq"
	"github.com/sojourn-queue/sojourn/source/sourcetest"
)

func open(t *testing.T, o rabbitmq.Options) source.Broker {
	t.Helper()
	b, err := rabbitmq.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// on runs fn with a channel of the other side.
func on(t *testing.T, r *brokertest.RabbitMQ, fn func(ch *amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = fn(ch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func declare(t *testing.T, r *brokertest.RabbitMQ, queue string) {
	t.Helper()
	on(t, r, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
}

func publish(t *testing.T, r *brokertest.RabbitMQ, queue string, ms ...amqp.Publishing) {
	t.Helper()
	on(t, r, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for _, m := range ms {
			m.DeliveryMode = amqp.Persistent
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, m)
			if err != nil {
				return err
			}
			if ok, err := c.WaitContext(t.Context()); !ok || err != nil {
				return fmt.Errorf("not confirmed: %v", err)
			}
		}
		return nil
	})
}

func receive(t *testing.T, b source.Broker, n int) (all []*source.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(all) < n {
		ms, err := b.Receive(ctx, n-len(all))
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		all = append(all, ms...)
	}
	return all
}

// TestRabbitMQ starts one node, which takes a while, for all that needs it.
func TestRabbitMQ(t *testing.T) {
	r := brokertest.StartRabbitMQ(t)
	t.Run("conformance", func(t *testing.T) {
		queues := 0
		sourcetest.Run(t, func(t *testing.T) sourcetest.Bench {
			queues++
			queue := fmt.Sprintf("replies-%d", queues)
			declare(t, r, queue)
			return sourcetest.Bench{
				Open: func(t *testing.T) source.Broker { return open(t, rabbitmq.Options{URL: r.URL, Queue: queue}) },
				Publish: func(t *testing.T, ms ...source.Message) {
					for _, m := range ms {
						p := amqp.Publishing{MessageId: m.ID, CorrelationId: m.Key, Body: m.Body, Headers: amqp.Table{}}
						for name, value := range m.Headers {
							p.Headers[name] = value
						}
						publish(t, r, queue, p)
					}
				},
				Restart: func(t *testing.T) { r.Stop(t); r.Start(t) },
			}
		})
	})
	t.Run("identity", func(t *testing.T) { testIdentity(t, r) })
	t.Run("what has no text", func(t *testing.T) { testHeaders(t, r) })
	t.Run("a queue that goes", func(t *testing.T) { testGone(t, r) })
}

// testIdentity: without a message id, a message that comes again is the same, and one that differs
// in anything is another (spec:H5).
func testIdentity(t *testing.T, r *brokertest.RabbitMQ) {
	declare(t, r, "anonymous")
	same := amqp.Publishing{Body: []byte("x"), CorrelationId: "c", Type: "t", Headers: amqp.Table{"a": "1"}}
	others := []amqp.Publishing{{Body: []byte("y"), CorrelationId: "c", Type: "t", Headers: amqp.Table{"a": "1"}}, {Body: []byte("x"), Type: "t", Headers: amqp.Table{"a": "1"}},
		{Body: []byte("x"), CorrelationId: "c", Headers: amqp.Table{"a": "1"}}, {Body: []byte("x"), CorrelationId: "c", Type: "t", Headers: amqp.Table{"a": "2"}},
		{Body: []byte("x"), CorrelationId: "c", Type: "t", Headers: amqp.Table{"a": "1"}, Timestamp: time.Unix(1, 0)}}
	onTheWay := same
	onTheWay.Headers = amqp.Table{"a": "1", "x-delivery-count": 2}
	publish(t, r, "anonymous", append(others, same, onTheWay)...)
	b := open(t, rabbitmq.Options{URL: r.URL, Queue: "anonymous"})
	var first []string
	ids := map[string]bool{}
	for _, m := range receive(t, b, 7) {
		first = append(first, m.ID)
		ids[m.ID] = true
	}
	if len(ids) != 6 || first[5] != first[6] || !strings.HasPrefix(first[0], "sha256:") {
		t.Errorf("the ids are %v", first)
	}
	b.Close()
	b = open(t, rabbitmq.Options{URL: r.URL, Queue: "anonymous"})
	defer b.Close()
	for i, m := range receive(t, b, 7) {
		if m.ID != first[i] {
			t.Errorf("message %d came again as %s, at first it was %s", i, m.ID, first[i])
		}
	}
}

func testHeaders(t *testing.T, r *brokertest.RabbitMQ) {
	declare(t, r, "typed")
	publish(t, r, "typed", amqp.Publishing{ContentType: "text/plain", Headers: amqp.Table{"n": int32(7), "b": []byte("raw"), "yes": true, "none": nil}})
	b := open(t, rabbitmq.Options{URL: r.URL, Queue: "typed"})
	defer b.Close()
	m := receive(t, b, 1)[0]
	if got := fmt.Sprint(m.Headers, m.ContentType, m.Topic); got != "map[b:raw n:7 none:<nil> yes:true]text/plaintyped" {
		t.Error(got)
	}
}

// testGone: a missing queue is an error, and a recreated one is found.
func testGone(t *testing.T, r *brokertest.RabbitMQ) {
	b := open(t, rabbitmq.Options{URL: r.URL, Queue: "gone"})
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Receive(ctx, 1); err == nil || !strings.Contains(err.Error(), "queue gone: Exception (404)") {
		t.Errorf("a queue that is missing: %v", err)
	}
	for range 2 {
		declare(t, r, "gone")
		publish(t, r, "gone", amqp.Publishing{Body: []byte("x")})
		ms := receive(t, b, 1)
		if err := b.Acknowledge(ctx, ms); err != nil {
			t.Error(err)
		}
		on(t, r, func(ch *amqp.Channel) error { _, err := ch.QueueDelete("gone", false, false, false); return err })
		if _, err := b.Receive(ctx, 1); err == nil || ctx.Err() != nil {
			t.Errorf("a queue that was deleted: %v", err)
		}
	}
}

func TestOptions(t *testing.T) {
	for field, o := range map[string]rabbitmq.Options{"queue": {}, "prefetch": {Queue: "q", Prefetch: 70000}, "url": {Queue: "q", URL: "http://ada:secret@x"}} {
		_, err := rabbitmq.Open(o)
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Field != field || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestServerIsAway: opening does not need a server, and receiving says that there is none.
func TestServerIsAway(t *testing.T) {
	b := open(t, rabbitmq.Options{URL: "amqp://127.0.0.1:1/", Queue: "q"})
	defer b.Close()
	if ms, err := b.Receive(t.Context(), 1); err == nil || len(ms) > 0 {
		t.Errorf("%d messages, %v", len(ms), err)
	}
}
