// Package sourcetest has test tools for sources: Run is the conformance suite for brokers, and
// Memory an in-memory broker for tests of matchers and of programs that run a source.
package sourcetest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/sojourn-queue/sojourn/source"
)

// Memory is a broker in memory: a log of messages and one position in it. The zero value is empty
// and ready. It is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex // guards the fields below
	log  []source.Message
	done int         // messages that were acknowledged
	open *connection // the newest
	news chan struct{}
}

// Publish adds messages. One without an ID gets its place in the log.
func (b *Memory) Publish(ms ...source.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range ms {
		if m.ID == "" {
			m.ID = "memory/" + strconv.Itoa(len(b.log))
		}
		m.Headers = source.LowerCase(m.Headers)
		b.log = append(b.log, m)
	}
	b.tell()
}

// Open connects; the connection before breaks. What was received through that one and not
// acknowledged comes again.
func (b *Memory) Open() source.Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = &connection{of: b, at: b.done}
	b.tell()
	return b.open
}

// Left is how many messages are not acknowledged.
func (b *Memory) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.log) - b.done
}

// tell wakes the waiting receivers.
func (b *Memory) tell() {
	if b.news != nil {
		close(b.news)
	}
	b.news = make(chan struct{})
}

var errBroken = errors.New("sourcetest: the connection is closed")

type connection struct {
	of *Memory
	at int // the next message
}

// take returns the available messages, or a channel that signals when to try again.
func (c *connection) take(limit int) (ms []*source.Message, news chan struct{}, err error) {
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != c {
		return nil, nil, errBroken
	}
	for c.at < len(b.log) && len(ms) < limit {
		m := b.log[c.at]
		ms = append(ms, &m)
		c.at++
	}
	return ms, b.news, nil
}

func (c *connection) Receive(ctx context.Context, limit int) ([]*source.Message, error) {
	for {
		ms, news, err := c.take(limit)
		if err != nil || len(ms) > 0 {
			return ms, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *connection) Acknowledge(_ context.Context, ms []*source.Message) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.open != c {
		return errBroken
	}
	c.of.done += len(ms)
	return nil
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.open == c {
		c.of.open = nil
		c.of.tell()
	}
	return nil
}
