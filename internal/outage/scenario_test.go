package outage

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store"
)

// server is a broker as the scenario sees it.
type server interface {
	name() string            // of the role in opens
	address() string         // for that role
	start(t *testing.T)      // or start again, with its data; returns when it answers
	kill()                   // kill -9
	prepare(t *testing.T)    // the topic, subject or queue
	sender() (sender, error) // a connection of the outside
}

// sender sends messages. When send returns without an error, the broker has all of them on disk.
type sender interface {
	send(ctx context.Context, ms []message) error
	close()
}

const (
	childKills = 5
	sendAtOnce = 100 // messages
	brokerGone = 300 * time.Millisecond
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// storeURL makes the store of a test, which SOJOURN_OUTAGE_STORE names: sqlite, the default, or
// postgres, in a cluster of its own.
func storeURL(t *testing.T) string {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "outage.db")
	switch name := os.Getenv("SOJOURN_OUTAGE_STORE"); name {
	case "", "sqlite":
	case "postgres":
		url = pgtest.NewCluster(t).URL
	default:
		t.Fatalf("SOJOURN_OUTAGE_STORE is %q: use sqlite or postgres", name)
	}
	c, err := store.Open(url, store.Migrate())
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// run sends the answers to all jobs over the broker. Whenever another sixth of the messages is
// handled, the child is killed; in the middle, the broker too (spec:H1, spec:H4, spec:H5, inv:U4,
// inv:A1).
func run(t *testing.T, s server) {
	if testing.Short() {
		t.Skip("-short leaves out what kills brokers")
	}
	began := time.Now()
	seed := number(t, "SOJOURN_OUTAGE_SEED", rand.Uint64())
	p := newPlan(int(number(t, "SOJOURN_OUTAGE_JOBS", 2000)), rand.New(rand.NewPCG(seed, 0)))
	t.Logf("seed %d, %d jobs, %d messages", seed, p.jobs, p.messages())
	url := storeURL(t)
	c, err := store.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.start(t)
	s.prepare(t)
	var handled atomic.Int64
	startChild := func() *process {
		return start(t, s.name(), s.address(), []string{"SOJOURN_OUTAGE_URL=" + url}, func(line string) {
			if line == "handled 10" {
				handled.Add(10)
			}
		})
	}
	out := &outside{s: s}
	out.send(t, p.early)
	ch := startChild()
	until(t, "the early answers are stored", func() bool { return len(inbox(t, c)) == len(p.early) })
	if err := p.enqueue(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sent, middle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		half := len(p.rest) * 2 / 3 // above half, because handled messages are reported in tens
		out.send(t, p.rest[:half])
		<-middle
		out.send(t, p.rest[half:])
	}()
	for kill := range childKills {
		until(t, "the next sixth is handled", func() bool { return handled.Load() >= int64(p.messages()*(kill+1)/(childKills+1)) })
		if kill == childKills/2 {
			close(middle)
			time.Sleep(5 * time.Millisecond) // so that some messages are on their way
			s.kill()
			time.Sleep(brokerGone)
			s.start(t)
		}
		ch.kill()
		ch = startChild()
	}
	select {
	case <-sent:
	case <-time.After(patience):
		t.Fatal("the outside cannot send")
	}
	until(t, "all jobs are completed and all messages stored", func() bool { return done(t, c, p) })
	ch.stop(t)
	p.audit(t, c, out.uncertain)
	t.Logf("%s: %d kill -9 of the source, 1 of the broker, %d messages sent, %d of them perhaps twice, %d handled by what was counted, %v",
		t.Name(), childKills, p.messages(), out.uncertain, handled.Load(), time.Since(began).Round(time.Millisecond))
}

func done(t *testing.T, c *sojourn.Client, p plan) bool {
	t.Helper()
	live, err := c.Store().Find(t.Context(), sojourn.Filter{Limit: 1, States: []sojourn.State{sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}})
	if err != nil {
		t.Fatal(err)
	}
	if len(live) > 0 {
		time.Sleep(100 * time.Millisecond)
		return false
	}
	return len(inbox(t, c)) >= p.stored()
}

// outside is the other side, which sends its answers until the broker has them.
type outside struct {
	s         server
	uncertain int // messages that may have been sent twice
}

func (o *outside) send(t *testing.T, ms []message) {
	var to sender
	defer func() {
		if to != nil {
			to.close()
		}
	}()
	for batch := range slices.Chunk(ms, sendAtOnce) {
		for tries := 0; ; tries++ {
			err := o.once(t.Context(), &to, batch)
			if err == nil {
				break
			}
			if t.Context().Err() != nil || tries > 600 {
				t.Errorf("cannot send: %v", err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (o *outside) once(ctx context.Context, to *sender, batch []message) (err error) {
	if *to == nil {
		if *to, err = o.s.sender(); err != nil {
			*to = nil
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err = (*to).send(ctx, batch); err != nil {
		o.uncertain += len(batch)
		(*to).close()
		*to = nil
	}
	return err
}
