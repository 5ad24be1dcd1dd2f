package outage

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sojourn-queue/sojourn/internal/brokertest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/rabbitmq"
)

func init() {
	opens["rabbitmq"] = func(address string) (source.Broker, error) {
		return rabbitmq.Open(rabbitmq.Options{URL: address, Queue: topic})
	}
}

// rabbitServer is a node of the test's own, out of Debian's package.
type rabbitServer struct{ node *brokertest.RabbitMQ }

func (s *rabbitServer) name() string    { return "rabbitmq" }
func (s *rabbitServer) address() string { return s.node.URL }
func (s *rabbitServer) kill()           { s.node.Kill() }

func (s *rabbitServer) start(t *testing.T) {
	t.Helper()
	if s.node == nil {
		s.node = brokertest.StartRabbitMQ(t)
		return
	}
	s.node.Start(t)
}

func (s *rabbitServer) prepare(t *testing.T) {
	t.Helper()
	to, err := s.sender()
	if err == nil {
		defer to.close()
		_, err = to.(*rabbitSender).channel.QueueDeclare(topic, true, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *rabbitServer) sender() (sender, error) {
	conn, err := amqp.Dial(s.node.URL)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	return &rabbitSender{conn, ch}, err
}

type rabbitSender struct {
	conn    *amqp.Connection
	channel *amqp.Channel
}

func (s *rabbitSender) close() { s.conn.Close() }

func (s *rabbitSender) send(ctx context.Context, ms []message) error {
	var confirms []*amqp.DeferredConfirmation
	for _, m := range ms {
		c, err := s.channel.PublishWithDeferredConfirm("", topic, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: m.send,
			Headers: amqp.Table{"event-id": m.id}, Body: []byte(m.body)})
		if err != nil {
			return err
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed"))
		}
	}
	return nil
}

// TestRabbitMQ kills a node.
func TestRabbitMQ(t *testing.T) { run(t, &rabbitServer{}) }
