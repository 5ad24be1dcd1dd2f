//go:build nobrokers

package democmd

import "github.com/sojourn-queue/sojourn/internal/demo"

var demoWires func(path string) ([]demo.Wire, error)
