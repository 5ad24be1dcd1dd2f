// Package monitor has the flags --log and --metrics of commands that run until they are stopped.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/internal/version"
	"github.com/sojourn-queue/sojourn/worker/metrics"
)

// headerPatience is the time limit for the header of a scrape.
const headerPatience = 5 * time.Second

// Log is the flag --log.
type Log struct{ form string }

// Register adds the flag.
func (l *Log) Register(fl *pflag.FlagSet) {
	fl.StringVar(&l.form, "log", "text", "log format: text or json, on stderr")
}

// Validate checks the format.
func (l *Log) Validate() error {
	if l.form != "text" && l.form != "json" {
		return sojourn.Invalid("log", "%.64q is not a log format; use text or json", l.form)
	}
	return nil
}

// Logger writes in the format to standard error.
func (l *Log) Logger(a *cli.App) *slog.Logger {
	if l.form == "json" {
		return slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	return slog.New(slog.NewTextHandler(a.Err, nil))
}

// Metrics is the flag --metrics. The metrics count whether or not they are served.
type Metrics struct {
	*metrics.Metrics
	addr string
}

// Register adds the flag.
func (m *Metrics) Register(fl *pflag.FlagSet) {
	m.Metrics = metrics.New()
	fl.StringVar(&m.addr, "metrics", "", "`HOST:PORT` that serves GET /metrics for Prometheus, without a token (default none)")
}

// Validate checks the address.
func (m *Metrics) Validate() error {
	if m.addr == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(m.addr); err != nil {
		return sojourn.Invalid("metrics", "%.64q is not of the form HOST:PORT", m.addr)
	}
	return nil
}

// Serve serves the metrics until ctx ends, if the flag was given.
func (m *Metrics) Serve(ctx context.Context, log *slog.Logger) error {
	if m.addr == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.addr)
	if err != nil {
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: err.Error(), Err: err}
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_build_info", Help: "1; the labels have the version of the program."}, []string{"version", "go"})
	build.WithLabelValues(version.Current().Version, runtime.Version()).Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Metrics, build)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience}
	context.AfterFunc(ctx, func() { _ = h.Close() })
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "addr", l.Addr().String(), "error", err)
		}
	}()
	log.Info("metrics", "addr", l.Addr().String())
	return nil
}
