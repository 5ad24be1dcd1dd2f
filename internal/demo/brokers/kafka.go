package brokers

import (
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/kafka"
)

type kafkaWire struct {
	cluster  *kfake.Cluster
	producer *kgo.Client
}

func startKafka(dir string) (*kafkaWire, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SeedTopics(3, "requests", "replies"), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	w := &kafkaWire{cluster: c}
	if w.producer, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...)); err != nil {
		c.Close()
		return nil, err
	}
	return w, nil
}

func (w *kafkaWire) Name() string { return "kafka" }

func (w *kafkaWire) Send(ctx context.Context, topic string, m source.Message) error {
	r := &kgo.Record{Topic: topic, Key: []byte(m.Key), Value: m.Body}
	for name, value := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return w.producer.ProduceSync(ctx, r).FirstErr()
}

// Receive waits only 2 s for the member of a demo that was killed.
func (w *kafkaWire) Receive(topic string) (source.Broker, error) {
	return kafka.Open(kafka.Options{Brokers: w.cluster.ListenAddrs(), Topics: []string{topic}, Group: "demo-" + topic,
		Client: []kgo.Opt{kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)}})
}

func (w *kafkaWire) Close() {
	w.producer.Close()
	w.cluster.Close()
}
