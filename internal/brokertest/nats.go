// Package brokertest starts brokers for tests, on ports of their own and with files that go when
// the test ends.
package brokertest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds the start of a broker, on a busy machine too.
const patience = time.Minute

// NATS is a server inside the test, with JetStream, that syncs each message to its file.
type NATS struct {
	URL    string
	dir    string
	port   int
	server *server.Server
}

// StartNATS starts one and stops it when the test ends.
func StartNATS(t *testing.T) *NATS {
	t.Helper()
	n := &NATS{dir: t.TempDir(), port: server.RANDOM_PORT}
	n.Start(t)
	t.Cleanup(n.Stop)
	return n
}

// Start starts it again, with its files and on its port.
func (n *NATS) Start(t *testing.T) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.dir, SyncAlways: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	n.server, n.URL, n.port = s, s.ClientURL(), s.Addr().(*net.TCPAddr).Port
}

// Stop stops it, and leaves its files.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}
