// Package brokers starts real brokers inside the demo: a NATS server with JetStream, and kfake, the
// broker of franz-go's own tests that speaks the protocol of Kafka. They listen on loopback, on
// ports that are free, and keep their files beside the demo's store.
//
// It is the one package outside tests that links servers; see docs/decisions.
package brokers

import (
	"errors"
	"fmt"

	"github.com/sojourn-queue/sojourn/internal/demo"
)

// Start starts both. Their files are in the folders PATH.nats and PATH.kafka. One process at a time
// may use a path. An error is about files or ports.
func Start(path string) ([]demo.Wire, error) {
	n, err := startNATS(path + ".nats")
	if err != nil {
		return nil, fmt.Errorf("the NATS server of the demo: %w", err)
	}
	k, err := startKafka(path + ".kafka")
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("the Kafka broker of the demo: %w", err)
	}
	return []demo.Wire{n, k}, nil
}

var errSlow = errors.New("it is not ready after a minute")
