package outage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/kafka"
)

const topic = "replies"

func init() {
	opens["kafka"] = func(address string) (source.Broker, error) {
		return kafka.Open(kafka.Options{Brokers: []string{address}, Topics: []string{topic},
			Client: []kgo.Opt{kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200 * time.Millisecond)}})
	}
	serves["kafka-server"] = func(address string) error {
		var port int
		var dir string
		if _, err := fmt.Sscanf(address, "%d %s", &port, &dir); err != nil {
			return err
		}
		_, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites(), kfake.SeedTopics(4, topic),
			kfake.GroupMinSessionTimeout(100*time.Millisecond))
		if err != nil {
			return err
		}
		select {}
	}
}

// kafkaServer is kfake in a process of its own, which syncs every batch to its files.
type kafkaServer struct {
	port    int
	dir     string
	running *process
}

func (s *kafkaServer) name() string       { return "kafka" }
func (s *kafkaServer) address() string    { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *kafkaServer) kill()              { s.running.kill() }
func (s *kafkaServer) prepare(*testing.T) {}

func (s *kafkaServer) start(t *testing.T) {
	t.Helper()
	if s.port == 0 {
		s.port, s.dir = freePort(t), t.TempDir()
	}
	s.running = start(t, "kafka-server", fmt.Sprintf("%d %s", s.port, s.dir), nil, nil)
	c, err := kgo.NewClient(kgo.SeedBrokers(s.address()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "the broker answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Ping(ctx) == nil
	})
}

type kafkaSender struct{ *kgo.Client }

func (s *kafkaServer) sender() (sender, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.address()), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()))
	return kafkaSender{c}, err
}

func (s kafkaSender) close() { s.Close() }

func (s kafkaSender) send(ctx context.Context, ms []message) error {
	var records []*kgo.Record
	for _, m := range ms {
		records = append(records, &kgo.Record{Key: []byte(m.id), Value: []byte(m.body), Headers: []kgo.RecordHeader{{Key: "event-id", Value: []byte(m.id)}}})
	}
	return s.ProduceSync(ctx, records...).FirstErr()
}

// TestKafka kills kfake, which syncs every batch to its files.
func TestKafka(t *testing.T) { run(t, &kafkaServer{}) }
