package brokers

import (
	"context"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn/source"
	natssource "github.com/sojourn-queue/sojourn/source/nats"
)

// keep is the retention of consumed messages in a stream or topic.
const keep = 24 * time.Hour

type natsWire struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
}

func startNATS(dir string) (*natsWire, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { // the server itself would only not become ready
		return nil, err
	}
	s, err := server.NewServer(&server.Options{ServerName: "sojourn-demo", Host: "127.0.0.1", Port: server.RANDOM_PORT, DontListen: true, JetStream: true, StoreDir: dir,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30, NoSigs: true, NoLog: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	w := &natsWire{server: s}
	if !s.ReadyForConnections(time.Minute) {
		w.Close()
		return nil, errSlow
	}
	if err := w.connect(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// connect makes a connection that needs no port, and the streams.
func (w *natsWire) connect() (err error) {
	if w.conn, err = nats.Connect("", nats.InProcessServer(w.server)); err != nil {
		return err
	}
	if w.js, err = jetstream.New(w.conn); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, topic := range []string{"requests", "replies"} {
		if _, err := w.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, MaxAge: keep}); err != nil {
			return err
		}
	}
	return nil
}

func (w *natsWire) Name() string { return "nats" }

func (w *natsWire) Send(ctx context.Context, topic string, m source.Message) error {
	out := nats.NewMsg(topic)
	out.Data = m.Body
	for name, value := range m.Headers {
		out.Header[name] = []string{value}
	}
	_, err := w.js.PublishMsg(ctx, out)
	return err
}

// Receive connects without a port as well.
func (w *natsWire) Receive(topic string) (source.Broker, error) {
	return natssource.Open(natssource.Options{Stream: topic, Durable: "demo", AckWait: 5 * time.Second, Connect: []nats.Option{nats.InProcessServer(w.server)}})
}

func (w *natsWire) Close() {
	if w.conn != nil {
		w.conn.Close()
	}
	w.server.Shutdown()
	w.server.WaitForShutdown()
}
