package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/brokertest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/kafka"
	"github.com/sojourn-queue/sojourn/source/sourcetest"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// quick notices dead members and servers sooner than in production.
var quick = []kgo.Opt{kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}

func open(t *testing.T, o kafka.Options) source.Broker {
	t.Helper()
	o.Client = append(o.Client, quick...)
	b, err := kafka.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// outside is a client of the other side.
func outside(t *testing.T, k *brokertest.Kafka) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Address), kgo.AllowAutoTopicCreation(), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func publish(t *testing.T, c *kgo.Client, topic string, ms ...source.Message) {
	t.Helper()
	var records []*kgo.Record
	for _, m := range ms {
		r := &kgo.Record{Topic: topic, Value: m.Body}
		if m.Key != "" {
			r.Key = []byte(m.Key)
		}
		for name, value := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)}, kgo.RecordHeader{Key: name, Value: []byte("second")})
		}
		records = append(records, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	one := kfake.DefaultNumPartitions(1) // the order is that of a partition
	k := brokertest.StartKafka(t, one)
	c := outside(t, k)
	var n atomic.Int64
	sourcetest.Run(t, func(t *testing.T) sourcetest.Bench {
		topic := fmt.Sprintf("replies-%d", n.Add(1))
		return sourcetest.Bench{
			Open: func(t *testing.T) source.Broker {
				return open(t, kafka.Options{Brokers: []string{k.Address}, Topics: []string{topic}, Group: topic})
			},
			Publish: func(t *testing.T, ms ...source.Message) { publish(t, c, topic, ms...) },
			Restart: func(t *testing.T) { k.Stop(); k.Start(t, one) },
		}
	})
}

// TestRebalance: members come and go while messages flow; each message is stored, and the offsets
// never run ahead of the store.
func TestRebalance(t *testing.T) {
	k := brokertest.StartKafka(t, kfake.DefaultNumPartitions(8))
	c := outside(t, k)
	client, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const n = 2000
	var handled atomic.Int64
	match := func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
		return &sojourn.Response{Kind: "k", Key: string(m.Body)}, nil
	}
	member := func() (stop func()) {
		s, err := source.New(client, open(t, kafka.Options{Brokers: []string{k.Address}, Topics: []string{"replies"}}),
			source.Options{Name: "bank", Match: match, Batch: 20, Observe: func(source.Handled) { handled.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		return func() { cancel(); done.Wait() }
	}
	until := func(what string, met func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !met(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not in time; %d handled", what, handled.Load())
			}
		}
	}
	first := member()
	for i := range 4 {
		var ms []source.Message
		for j := range n / 4 {
			ms = append(ms, source.Message{Body: fmt.Appendf(nil, "%d", i*n/4+j)})
		}
		publish(t, c, "replies", ms...)
		second := member()
		until("half of it is handled", func() bool { return handled.Load() >= int64(i*n/4+n/8) })
		first()
		first = second
	}
	defer first()
	until("all is handled", func() bool { return handled.Load() >= n })
	count := func() (n int) {
		for _, err := range client.Inbox().All(t.Context(), sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	until("all is stored", func() bool { return count() == n })
	t.Logf("%d messages handled %d times", n, handled.Load())
}

// TestHandOver: a member that joins gets no partition of which another has messages in hand; after
// the acknowledgement it goes on behind them.
func TestHandOver(t *testing.T) {
	k := brokertest.StartKafka(t, kfake.DefaultNumPartitions(2))
	c := outside(t, k)
	send := func(what string) {
		t.Helper()
		for i := range 40 {
			publish(t, c, "replies", source.Message{Body: fmt.Appendf(nil, "%s %d", what, i), Key: fmt.Sprint(i)})
		}
	}
	send("old")
	o := kafka.Options{Brokers: []string{k.Address}, Topics: []string{"replies"}}
	first := open(t, o)
	defer first.Close()
	receive := func(b source.Broker, limit time.Duration) []*source.Message {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		ms, _ := b.Receive(ctx, 100)
		return ms
	}
	var hand []*source.Message
	for end := time.Now().Add(time.Minute); len(hand) < 40 && time.Now().Before(end); {
		hand = append(hand, receive(first, time.Second)...)
	}
	second := open(t, o)
	defer second.Close()
	if ms := receive(second, time.Second); len(ms) > 0 {
		t.Errorf("%d messages that another member has in hand", len(ms))
	}
	if err := first.Acknowledge(t.Context(), hand); err != nil {
		t.Fatal(err)
	}
	send("new")
	got := map[string]int{}
	var mu sync.Mutex // guards got
	var both sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, b := range []source.Broker{first, second} {
		both.Go(func() {
			for ctx.Err() == nil {
				ms, _ := b.Receive(ctx, 100)
				mu.Lock()
				for _, m := range ms {
					got[string(m.Body)]++
				}
				if len(got) == 40 {
					cancel()
				}
				mu.Unlock()
				if err := b.Acknowledge(t.Context(), ms); err != nil {
					t.Log(err)
				}
			}
		})
	}
	both.Wait()
	for body, n := range got {
		if strings.HasPrefix(body, "old") || n != 1 {
			t.Errorf("%q came %d times more", body, n)
		}
	}
	if len(got) != 40 {
		t.Errorf("%d new messages came, want 40", len(got))
	}
}

func TestOptions(t *testing.T) {
	for _, topics := range [][]string{nil, {"a", ""}} {
		_, err := kafka.Open(kafka.Options{Topics: topics})
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Field != "topics" {
			t.Errorf("%q: %v", topics, err)
		}
	}
	_, err := kafka.Open(kafka.Options{Topics: []string{"t"}, Client: []kgo.Opt{kgo.SessionTimeout(-1)}})
	if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Field != "client" {
		t.Error(err)
	}
}
