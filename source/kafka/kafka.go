// Package kafka receives records from Kafka topics, as a member of a consumer group. Offsets are
// committed after the store's commit, and a partition is released only between two batches, when
// none of its records is being processed.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
)

// Defaults of Options.
const (
	DefaultBroker = "127.0.0.1:9092"
	DefaultGroup  = "sojourn"
)

// Options of a broker. Only Topics is needed.
type Options struct {
	Brokers []string // host:port of some of the cluster. Default: 127.0.0.1:9092
	Topics  []string
	Group   string // the consumer group, which holds the offsets. Default: sojourn
	// Instance makes the process a static member of the group: restarted under the same name, it
	// continues at once, without a rebalance. Each running process needs its own name. Default:
	// none; the partitions of a dead process then wait for 45 s.
	Instance string
	Client   []kgo.Opt // of the client, such as TLS, SASL and timeouts; they come after the package's own
}

// Validate checks everything that can be checked without a cluster; Open calls it.
func (o Options) Validate() error {
	if len(o.Topics) == 0 {
		return sojourn.Invalid("topics", "are missing; list at least one topic")
	}
	for _, t := range o.Topics {
		if t == "" {
			return sojourn.Invalid("topics", "a topic has no name")
		}
	}
	return nil
}

// Open creates a client and returns at once. Receive connects, and waits while the cluster is
// unreachable. The error is about the options. If the group has no offset yet, it starts at the
// oldest record.
//
// The id of a message is TOPIC/PARTITION@OFFSET. The offsets of a topic that is deleted and created
// again restart at 0: give the source a new name then, or a rule for the id. Only the first value
// of a header is used.
func Open(o Options) (source.Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(o.Brokers) == 0 {
		o.Brokers = []string{DefaultBroker}
	}
	if o.Group == "" {
		o.Group = DefaultGroup
	}
	options := []kgo.Opt{
		kgo.ClientID("sojourn"), kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
	}
	if o.Instance != "" {
		options = append(options, kgo.InstanceID(o.Instance))
	}
	client, err := kgo.NewClient(append(options, o.Client...)...)
	if err != nil {
		return nil, sojourn.Invalid("client", "%v", err)
	}
	return &broker{client}, nil
}

type broker struct{ client *kgo.Client }

// Receive lets a rebalance happen that has waited for the batch before.
func (b *broker) Receive(ctx context.Context, limit int) (ms []*source.Message, err error) {
	b.client.AllowRebalance()
	got := b.client.PollRecords(ctx, limit)
	got.EachRecord(func(r *kgo.Record) { ms = append(ms, message(r)) })
	got.EachError(func(topic string, partition int32, failed error) {
		if topic != "" {
			failed = fmt.Errorf("%s/%d: %w", topic, partition, failed)
		}
		err = errors.Join(err, failed)
	})
	return ms, err
}

func message(r *kgo.Record) *source.Message {
	headers := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		name := strings.ToLower(h.Key)
		if _, ok := headers[name]; !ok { // the first one counts
			headers[name] = string(h.Value)
		}
	}
	return &source.Message{ID: fmt.Sprintf("%s/%d@%d", r.Topic, r.Partition, r.Offset), Topic: r.Topic, Key: string(r.Key), Headers: headers,
		ContentType: headers["content-type"], Time: r.Timestamp, Body: r.Value, Ref: r}
}

// Acknowledge commits the offsets. They cover all earlier records of their partitions.
func (b *broker) Acknowledge(ctx context.Context, ms []*source.Message) error {
	records := make([]*kgo.Record, len(ms))
	for i, m := range ms {
		records[i] = m.Ref.(*kgo.Record)
	}
	return b.client.CommitRecords(ctx, records...)
}

func (b *broker) Close() error {
	b.client.CloseAllowingRebalance()
	return nil
}
