// Observability: a worker counts for Prometheus, logs each failed attempt once as JSON, and the
// follow-up job belongs to the trace of the first.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/metrics"
)

var (
	charge = sojourn.Kind[int]{Name: "charge", Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: 10 * time.Millisecond}}}
	ship   = sojourn.Kind[int]{Name: "ship"}
)

func main() {
	ctx := context.Background()
	client, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	counted := metrics.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	w := worker.New(client, worker.Options{Observer: counted, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))})
	worker.Handle(w, charge, func(_ context.Context, job *sojourn.Job, order int) error {
		if job.Attempt == 1 {
			return sojourn.WithReason("bank_down", errors.New("no connection"))
		}
		return sojourn.Then(ship.New(order, sojourn.Key("parcel")))
	})
	worker.Handle(w, ship, func(_ context.Context, job *sojourn.Job, _ int) error {
		parent, _ := job.TraceContext()
		fmt.Println("ship belongs to", parent)
		return nil
	})
	first, err := client.Enqueue(ctx, charge.New(42, sojourn.Meta(sojourn.MetaTraceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")))
	if err != nil {
		log.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	for _, wait := range []func() (*sojourn.Job, error){
		func() (*sojourn.Job, error) { return client.Get(ctx, first.ID) },
		func() (*sojourn.Job, error) { return client.GetByKey(ctx, "parcel") },
	} {
		j, err := wait()
		if err == nil {
			_, err = client.Wait(ctx, j.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	show(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

// show prints what Prometheus reads about ends.
func show(h http.Handler) {
	scraped := httptest.NewRecorder()
	h.ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(scraped.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "sojourn_worker_ended_total") {
			fmt.Print(line)
		}
	}
}
