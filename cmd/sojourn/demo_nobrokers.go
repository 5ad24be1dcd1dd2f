//go:build nobrokers

package main

import "github.com/sojourn-queue/sojourn/internal/demo"

var demoWires func(path string) ([]demo.Wire, error)
