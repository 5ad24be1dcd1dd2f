package sourcetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/source"
)

// Bench is a broker under test, with one empty topic, subject or queue.
type Bench struct {
	// Open connects a consumer that continues where the previous one stopped.
	Open func(t *testing.T) source.Broker
	// Publish sends messages with their Body, and Headers and Key if the broker has them, and
	// returns when they are durable. ID is one that the sender gives; a broker with ids of its own
	// may ignore it.
	Publish func(t *testing.T, ms ...source.Message)
	// Restart kills the broker and starts it again with its data. nil: it cannot.
	Restart func(t *testing.T)
	// NoKey and NoHeaders: the broker has no such thing.
	NoKey, NoHeaders bool
}

// patience bounds every wait for something that must happen; long, so that a slow machine fails
// nothing.
const patience = time.Minute

// Run checks an implementation of source.Broker against what source.Source relies on. make gives
// each case a new topic.
func Run(t *testing.T, make func(t *testing.T) Bench) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b Bench)
	}{
		{"what a message carries", carries},
		{"order, ids and the size of a batch", batches},
		{"an acknowledged message does not come again", acknowledged},
		{"any other comes again, with its id", again},
		{"receiving ends with its context", ends},
		{"a restart of the broker", restart},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, make(t)) })
	}
}

func carries(t *testing.T, b Bench) {
	sent := []source.Message{
		{ID: "a", Body: []byte("{\"ok\":true}"), Key: "k-1", Headers: map[string]string{"event-id": "evt_1", "Event-Type": "é"}},
		{ID: "b", Body: []byte{0, 0xff, '\n', 0xfe}},
		{ID: "c", Body: []byte{}, Headers: map[string]string{"event-id": ""}},
		{ID: "d", Body: []byte(strings.Repeat("x", 100_000))},
	}
	b.Publish(t, sent...)
	c := b.open(t)
	for i, m := range c.take(t, len(sent)) {
		want := sent[i]
		if string(m.Body) != string(want.Body) {
			t.Errorf("message %d: the body is %.40q, want %.40q", i, m.Body, want.Body)
		}
		if m.Key != want.Key && !b.NoKey {
			t.Errorf("message %d: the key is %q, want %q", i, m.Key, want.Key)
		}
		for name, value := range want.Headers {
			if got, ok := m.Headers[strings.ToLower(name)]; !b.NoHeaders && (!ok || got != value) {
				t.Errorf("message %d: the header %s is %q (%v), want %q under its name in lower case: %v", i, name, got, ok, value, m.Headers)
			}
		}
		if m.Topic == "" || m.ID == "" {
			t.Errorf("message %d: topic %q, id %q", i, m.Topic, m.ID)
		}
	}
}

func batches(t *testing.T, b Bench) {
	const n = 50
	b.Publish(t, numbered(0, n)...)
	c := b.open(t)
	seen := map[string]bool{}
	for i := 0; i < n; {
		ms := c.receive(t, 7)
		if len(ms) > 7 {
			t.Fatalf("a batch of at most 7 has %d messages", len(ms))
		}
		for _, m := range ms {
			if want := fmt.Sprint(i); string(m.Body) != want {
				t.Fatalf("got %q, want %q: the order is not that of arrival", m.Body, want)
			}
			if seen[m.ID] {
				t.Fatalf("two messages have the id %q", m.ID)
			}
			seen[m.ID] = true
			i++
		}
		c.acknowledge(t, ms)
	}
}

func acknowledged(t *testing.T, b Bench) {
	b.Publish(t, numbered(0, 10)...)
	c := b.open(t)
	c.acknowledge(t, c.take(t, 10))
	c.Close()
	b.Publish(t, numbered(10, 11)...)
	c = b.open(t)
	if m := c.take(t, 1)[0]; string(m.Body) != "10" {
		t.Errorf("message %q came, want the new one alone", m.Body)
	}
}

func again(t *testing.T, b Bench) {
	b.Publish(t, numbered(0, 5)...)
	c := b.open(t)
	first := c.take(t, 5)
	ids := map[string]string{}
	for _, m := range first {
		ids[string(m.Body)] = m.ID
	}
	if len(ids) != 5 {
		t.Fatalf("got %v", ids)
	}
	c.Close()
	c = b.open(t)
	for _, m := range c.take(t, 5) {
		if id, ok := ids[string(m.Body)]; !ok || id != m.ID {
			t.Errorf("message %q came again as %q, at first it was %q", m.Body, m.ID, id)
		}
		delete(ids, string(m.Body))
	}
	if len(ids) > 0 {
		t.Errorf("did not come again: %v", ids)
	}
}

func ends(t *testing.T, b Bench) {
	c := b.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // a broker that is only just reached may say so first
			if ms, _ := c.Receive(ctx, 1); len(ms) > 0 {
				t.Errorf("%d messages came out of nothing", len(ms))
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Receive outlasts its context")
	}
}

func restart(t *testing.T, b Bench) {
	if b.Restart == nil {
		t.Skip("this broker cannot be restarted here")
	}
	b.Publish(t, numbered(0, 20)...)
	c := b.open(t)
	c.acknowledge(t, c.take(t, 10)[:10])
	b.Restart(t)
	b.Publish(t, numbered(20, 30)...)
	seen := map[string]bool{}
	for len(seen) < 20 {
		ms := c.receive(t, 7)
		for _, m := range ms {
			var n int
			if _, err := fmt.Sscan(string(m.Body), &n); err != nil || n >= 30 {
				t.Fatalf("%q came", m.Body)
			}
			if n >= 10 { // the first ten may come again: the broker may have lost the last acknowledgement
				seen[string(m.Body)] = true
			}
		}
		_ = c.Acknowledge(t.Context(), ms) // deliveries before the restart may be unknown
	}
}

func numbered(from, to int) (ms []source.Message) {
	for i := from; i < to; i++ {
		ms = append(ms, source.Message{ID: fmt.Sprintf("n-%d", i), Body: fmt.Append(nil, i)})
	}
	return ms
}

// consumer is a connection with calls that fail the test.
type consumer struct{ source.Broker }

func (b Bench) open(t *testing.T) consumer {
	t.Helper()
	c := b.Open(t)
	t.Cleanup(func() { c.Close() })
	return consumer{c}
}

// receive waits for one batch, past errors of a broker that is just coming back.
func (c consumer) receive(t *testing.T, limit int) []*source.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ms, err := c.Receive(ctx, limit)
		if len(ms) > 0 {
			return ms
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing came within %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// take receives n messages in one or more batches, none of which is acknowledged.
func (c consumer) take(t *testing.T, n int) (all []*source.Message) {
	t.Helper()
	for len(all) < n {
		all = append(all, c.receive(t, n-len(all))...)
	}
	return all
}

func (c consumer) acknowledge(t *testing.T, ms []*source.Message) {
	t.Helper()
	if err := c.Acknowledge(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
}
