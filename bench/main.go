// Command bench measures Sojourn beside other job queues and beside the raw limit of its own
// tables, on SQLite, on PostgreSQL or over HTTP: see docs/benchmarks.md.
package main

import (
	"github.com/sojourn-queue/sojourn/bench/http"
	"github.com/sojourn-queue/sojourn/bench/postgres"
	"github.com/sojourn-queue/sojourn/bench/sqlite"
	"github.com/sojourn-queue/sojourn/internal/bench"
)

func main() {
	if http.IsChild() {
		http.Child()
		return
	}
	bench.Main(map[string]bench.Setup{"sqlite": sqlite.Setup, "postgres": postgres.Setup, "http": http.Setup})
}
