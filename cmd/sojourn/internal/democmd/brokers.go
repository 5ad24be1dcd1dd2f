//go:build brokers

package democmd

import "github.com/sojourn-queue/sojourn/internal/demo/brokers"

// demoWires starts the brokers of the demo. This file links a NATS server and a Kafka broker; only
// builds with the tag brokers have them.
var demoWires = brokers.Start

const demoBrokersHelp = `This build has brokers: exports are requested and answered over NATS, parcels over Kafka, on servers inside the demo.
--brokers=false leaves them out.`
