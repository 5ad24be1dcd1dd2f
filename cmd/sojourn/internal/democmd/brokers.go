//go:build !nobrokers

package democmd

import "github.com/sojourn-queue/sojourn/internal/demo/brokers"

// demoWires starts the brokers of the demo. It is what links servers; the tag nobrokers leaves them
// out.
var demoWires = brokers.Start
