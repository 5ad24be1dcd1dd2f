package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/brokertest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/nats"
	"github.com/sojourn-queue/sojourn/source/sourcetest"
)

// dial is a connection of the other side.
func dial(t *testing.T, m *brokertest.NATS) jetstream.JetStream {
	t.Helper()
	conn, err := client.Connect(m.URL, client.MaxReconnects(-1), client.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func stream(t *testing.T, js jetstream.JetStream, name string) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func publish(t *testing.T, js jetstream.JetStream, subject string, ms ...source.Message) {
	t.Helper()
	for _, m := range ms {
		one := &client.Msg{Subject: subject, Data: m.Body, Header: client.Header{}}
		for k, v := range m.Headers {
			one.Header[k] = []string{v}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := js.PublishMsg(ctx, one)
		for ctx.Err() == nil && err != nil {
			_, err = js.PublishMsg(ctx, one)
		}
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, o nats.Options) source.Broker {
	t.Helper()
	b, err := nats.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	m := brokertest.StartNATS(t)
	js := dial(t, m)
	var n atomic.Int64
	sourcetest.Run(t, func(t *testing.T) sourcetest.Bench {
		name := fmt.Sprintf("REPLIES%d", n.Add(1))
		stream(t, js, name)
		return sourcetest.Bench{
			Open: func(t *testing.T) source.Broker {
				return open(t, nats.Options{URL: m.URL, Stream: name, AckWait: time.Second})
			},
			Publish: func(t *testing.T, ms ...source.Message) { publish(t, js, name+".a", ms...) },
			Restart: func(t *testing.T) { m.Stop(); m.Start(t) },
			NoKey:   true,
		}
	})
}

// TestStreamMadeAnew: it counts from 1 again, and its messages are no duplicates of those before.
// The consumer is made anew with it.
func TestStreamMadeAnew(t *testing.T) {
	m := brokertest.StartNATS(t)
	js := dial(t, m)
	ids := map[string]bool{}
	var b source.Broker
	for range 2 {
		stream(t, js, "ORDERS")
		publish(t, js, "ORDERS.x", source.Message{Body: []byte("{}")})
		if b == nil {
			b = open(t, nats.Options{URL: m.URL, Stream: "ORDERS"})
			defer b.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var ms []*source.Message
		for len(ms) == 0 {
			if ctx.Err() != nil {
				t.Fatal("no message came")
			}
			ms, _ = b.Receive(ctx, 10)
		}
		ids[ms[0].ID] = true
		if err := b.Acknowledge(ctx, ms); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(ctx, "ORDERS"); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 2 {
		t.Errorf("ids: %v", ids)
	}
}

// TestSubjects: only those of the filter come, and an existing consumer is used as it is.
func TestSubjects(t *testing.T) {
	m := brokertest.StartNATS(t)
	js := dial(t, m)
	stream(t, js, "S")
	for _, subject := range []string{"S.a", "S.b", "S.c"} {
		publish(t, js, subject, source.Message{Body: []byte(subject), Headers: map[string]string{"Content-Type": "text/plain"}})
	}
	receive := func(o nats.Options) (got []string, err error) {
		o.URL, o.Stream = m.URL, "S"
		b := open(t, o)
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for ctx.Err() == nil {
			ms, failed := b.Receive(ctx, 10)
			for _, m := range ms {
				got = append(got, m.Topic+" "+m.ContentType)
			}
			if failed != nil && ctx.Err() == nil {
				return got, failed
			}
			if len(ms) > 0 {
				b.Acknowledge(ctx, ms)
			}
		}
		return got, nil
	}
	for want, o := range map[string]nats.Options{
		"[S.b text/plain]":                {Durable: "one", Subjects: []string{"S.b"}},
		"[S.a text/plain S.c text/plain]": {Durable: "two", Subjects: []string{"S.a", "S.c"}},
	} {
		if got, err := receive(o); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%v: %v %v, want %s", o.Subjects, got, err, want)
		}
	}
	if got, err := receive(nats.Options{Durable: "none", Existing: true}); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("a consumer that must exist: %v %v", got, err)
	}
	publish(t, js, "S.a", source.Message{})
	publish(t, js, "S.b", source.Message{})
	if got, err := receive(nats.Options{Durable: "one", Existing: true, Subjects: []string{"S.a"}}); fmt.Sprint(got) != "[S.b ]" || err != nil {
		t.Errorf("an existing consumer: %v %v", got, err)
	}
}

// TestServerIsAway: opening does not need a server; receiving says that there is none, and finds it
// when it comes.
func TestServerIsAway(t *testing.T) {
	m := brokertest.StartNATS(t)
	stream(t, dial(t, m), "S")
	publish(t, dial(t, m), "S.a", source.Message{Body: []byte("x")})
	m.Stop()
	b := open(t, nats.Options{URL: m.URL, Stream: "S"})
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if ms, err := b.Receive(ctx, 1); err == nil || len(ms) > 0 {
		t.Errorf("%d messages, %v", len(ms), err)
	}
	m.Start(t)
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		ms, err := b.Receive(ctx, 1)
		if len(ms) == 1 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestOptions(t *testing.T) {
	for field, o := range map[string]nats.Options{"stream": {}, "ack_wait": {Stream: "S", AckWait: 1}, "url": {Stream: "S", URL: "nats://a b"}} {
		_, err := nats.Open(o)
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := nats.Open(nats.Options{Stream: "a.b"}); err == nil {
		t.Error("a.b is no name of a stream")
	}
}
