package outage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/nats"
	"github.com/sojourn-queue/sojourn/store"
)

func init() {
	opens["nats"] = func(address string) (source.Broker, error) {
		return nats.Open(nats.Options{URL: address, Stream: "REPLIES", AckWait: 2 * time.Second})
	}
	serves["nats-server"] = func(address string) error {
		var port int
		var dir string
		if _, err := fmt.Sscanf(address, "%d %s", &port, &dir); err != nil {
			return err
		}
		s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true})
		if err != nil {
			return err
		}
		s.Start()
		select {}
	}
}

// natsServer is the embedded server in a process of its own, or Debian's.
type natsServer struct {
	program string // empty: embedded
	port    int
	dir     string
	running *process
}

func (s *natsServer) name() string    { return "nats" }
func (s *natsServer) address() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }
func (s *natsServer) kill()           { s.running.kill() }

func (s *natsServer) start(t *testing.T) {
	t.Helper()
	if s.port == 0 {
		s.port, s.dir = freePort(t), t.TempDir()
	}
	var command []string
	if s.program != "" {
		command = []string{s.program, "-js", "-a", "127.0.0.1", "-p", strconv.Itoa(s.port), "-sd", s.dir}
	}
	s.running = start(t, "nats-server", fmt.Sprintf("%d %s", s.port, s.dir), nil, nil, command...)
	until(t, "the server answers", func() bool {
		conn, err := client.Connect(s.address(), client.MaxReconnects(0))
		if err != nil {
			return false
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err == nil {
			_, err = js.AccountInfo(t.Context())
		}
		return err == nil
	})
}

func (s *natsServer) sender() (sender, error) {
	conn, err := client.Connect(s.address(), client.MaxReconnects(0))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	return &natsSender{conn, js}, err
}

func (s *natsServer) prepare(t *testing.T) {
	t.Helper()
	to, err := s.sender()
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	_, err = to.(*natsSender).js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLIES", Subjects: []string{"replies"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
}

type natsSender struct {
	conn *client.Conn
	js   jetstream.JetStream
}

func (s *natsSender) close() { s.conn.Close() }

func (s *natsSender) send(ctx context.Context, ms []message) error {
	var acks []jetstream.PubAckFuture
	for _, m := range ms {
		header := client.Header{"event-id": {m.id}}
		ack, err := s.js.PublishMsgAsync(&client.Msg{Subject: "replies", Header: header, Data: []byte(m.body)}, jetstream.WithMsgID(m.send))
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// TestNATS kills the embedded server, which syncs every message to its file.
func TestNATS(t *testing.T) { run(t, &natsServer{}) }

// TestNATSOfDebian kills the server that Debian has.
func TestNATSOfDebian(t *testing.T) {
	run(t, &natsServer{program: program(t, "nats-server", "/usr/sbin/nats-server")})
}

// TestControl is the control arm: a source that acknowledges before it stores must lose answers,
// else the tests here could not fail.
func TestControl(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what kills processes again and again")
	}
	s := &natsServer{}
	s.start(t)
	s.prepare(t)
	url := storeURL(t)
	p := newPlan(5000, rand.New(rand.NewPCG(1, 1)))
	out := &outside{s: s}
	out.send(t, append(p.early, p.rest...))
	for s.left(t) > 0 {
		var stopped atomic.Bool
		ch := start(t, s.name(), s.address(), []string{"SOJOURN_OUTAGE_URL=" + url, "SOJOURN_OUTAGE_HASTY=1"}, func(line string) {
			if line == stoppedHasty {
				stopped.Store(true)
			}
		})
		until(t, "a batch is acknowledged and not stored", func() bool { return stopped.Load() || s.left(t) == 0 })
		ch.kill()
	}
	c, err := store.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if stored := len(inbox(t, c)); stored >= p.stored() {
		t.Errorf("acknowledging before the commit lost none of %d", p.stored())
	} else {
		t.Logf("%d of %d lost", p.stored()-stored, p.stored())
	}
}

// left counts the messages that the source has not acknowledged.
func (s *natsServer) left(t *testing.T) uint64 {
	t.Helper()
	to, err := s.sender()
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	c, err := to.(*natsSender).js.Consumer(t.Context(), "REPLIES", nats.DefaultDurable)
	if err != nil {
		return 1 // the source has not made it yet
	}
	i, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i.NumPending + uint64(i.NumAckPending)
}
