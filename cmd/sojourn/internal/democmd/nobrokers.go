//go:build !brokers

package democmd

import "github.com/sojourn-queue/sojourn/internal/demo"

var demoWires func(path string) ([]demo.Wire, error)

const demoBrokersHelp = `This build has no brokers. To see answers over NATS and Kafka too, run "make demo-brokers" in a clone of the repository,
or build the command with -tags brokers.`
