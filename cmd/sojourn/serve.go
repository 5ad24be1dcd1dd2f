package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/rule"
	"github.com/sojourn-queue/sojourn/store"
)

const serveHelp = `Gives a store to everyone over HTTP: programs in Go by the URL http://HOST:PORT, all others by requests. The API is at
/docs, the health at /livez and /readyz, the metrics at /metrics; docs/guides/server.md says how to run it.

  sojourn serve                                        sqlite:sojourn.db on 127.0.0.1:7575
  sojourn serve --store postgres://… --addr :7575 --tls-cert cert.pem --tls-key key.pem

On loopback, and as long as the store has no token, whoever reaches the port may do everything. With the first token that
"sojourn token create" makes, every request needs one; a server that runs then is to be restarted. On any other address the server
does not start without a token.

SIGTERM ends it in order: /readyz fails, new work is refused, long polls are answered, and what runs is finished. A second one kills.`

// Times of the server.
const (
	headerPatience = 5 * time.Second // of the port for profiles
	maxRate        = 1_000_000       // requests a second
	warnEvery      = time.Minute
)

// serveFlags are the flags of serve.
type serveFlags struct {
	addr, cert, key, profile, logs string
	insecure, migrate              bool
	grace, notice                  time.Duration
	limits                         server.Options
	conns, queues                  int
	declared                       bool
	lowSpace                       int64
}

func (a *app) serveCommand() *cobra.Command {
	f := serveFlags{}
	cmd := &cobra.Command{Use: "serve", Short: "give the store to everyone over HTTP", Long: serveHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&f.addr, "addr", "127.0.0.1:7575", "`HOST:PORT` to listen on")
	fl.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate and what signs it; read again when it changes")
	fl.StringVar(&f.key, "tls-key", "", "`FILE` with its key")
	fl.BoolVar(&f.insecure, "insecure-no-auth", false, "ask nobody for a token, on any address")
	fl.BoolVar(&f.migrate, "migrate", false, "bring the tables of a PostgreSQL database to the newest version; SQLite files always are")
	fl.StringVar(&f.logs, "log", "text", "`text` or json, on stderr")
	fl.StringVar(&f.profile, "pprof", "", "`HOST:PORT` on loopback for /debug/pprof (default none)")
	fl.DurationVar(&f.grace, "grace", 30*time.Second, "how long running requests have after SIGTERM")
	fl.DurationVar(&f.notice, "notice", time.Second, "after SIGTERM, how long /readyz fails before the port is closed, so that others go elsewhere")
	fl.Int64Var(&f.limits.MaxBody, "max-body", 0, "bytes of a request's body (default 4 MiB, more if the store takes larger values)")
	fl.IntVar(&f.limits.MaxRequests, "max-requests", server.DefaultMaxRequests, "requests at work at a time; more are refused with 503")
	fl.IntVar(&f.limits.MaxWaiting, "max-waiting", server.DefaultMaxWaiting, "long polls at a time")
	fl.Float64Var(&f.limits.Rate, "rate", 0, "requests a second of one token, four times as many reports of its workers; more are refused with 429 (default no bound)")
	fl.IntVar(&f.queues, "max-queues-per-token", server.DefaultMaxQueues, "queues that the jobs of one token may create; 0 for no bound")
	fl.IntVar(&f.conns, "max-conns", server.DefaultMaxConns, "connections at a time, a quarter of them only for clients with a valid token; the oldest without a token makes room")
	fl.BoolVar(&f.declared, "declared-queues", false, `take jobs only for queues that "sojourn queue set" has made`)
	fl.Int64Var(&f.lowSpace, "low-space", 64<<20, "bytes that must be free on the disk of an SQLite file for new jobs; 0 for no bound")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(a.url()); err != nil {
			return err
		}
		var options []store.Option
		if f.migrate {
			options = append(options, store.Migrate())
		}
		if f.declared {
			options = append(options, store.DeclaredQueues())
		}
		c, err := store.Open(a.url(), append(options, store.LowSpace(f.lowSpace), store.Rules(rule.Throttlers()))...)
		if err != nil {
			return &unusableError{err}
		}
		return errors.Join(a.serve(cmd.Context(), c, f), c.Close())
	}
	return cmd
}

func (f serveFlags) validate(url string) error {
	if store.IsServer(url) {
		return sojourn.Invalid("store", "%s is a server already: name the database", store.Redact(url))
	}
	if (f.cert == "") != (f.key == "") {
		return sojourn.Invalid("tls-cert", "and --tls-key belong together")
	}
	if f.conns < 1 || f.limits.Rate < 0 || f.limits.Rate > maxRate {
		return sojourn.Invalid("max-conns", "is 1 or more, and --rate 0 to %d", maxRate)
	}
	if f.queues < 0 {
		return sojourn.Invalid("max-queues-per-token", "is not negative; 0 for no bound")
	}
	if f.notice < 0 || f.grace < 0 {
		return sojourn.Invalid("grace", "and --notice are not negative")
	}
	if f.logs != "text" && f.logs != "json" {
		return sojourn.Invalid("log", "%.64q: use text or json", f.logs)
	}
	if _, _, err := net.SplitHostPort(f.addr); err != nil {
		return sojourn.Invalid("addr", "%.64q is not HOST:PORT", f.addr)
	}
	if f.profile != "" && !loopback(f.profile) {
		return sojourn.Invalid("pprof", "%.64q is not on loopback: profiles show what is in memory", f.profile)
	}
	return nil
}

// loopback reports whether only this machine reaches an address.
func loopback(hostport string) bool {
	host, _, _ := net.SplitHostPort(hostport)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// open decides whether the door needs no token.
func (f serveFlags) open(ctx context.Context, c *sojourn.Client) (bool, error) {
	if f.insecure {
		return true, nil
	}
	keeper, ok := c.Store().(sojourn.AccessStore)
	if !ok {
		return false, sojourn.Invalid("store", "keeps no tokens")
	}
	tokens, err := keeper.AccessTokens(ctx)
	switch {
	case err != nil:
		return false, err
	case len(tokens) > 0:
		return false, nil
	case loopback(f.addr):
		return true, nil
	}
	return false, sojourn.Invalid("addr", `%s is reached from other machines, and the store has no token yet; make one with
  sojourn token create --name admin --verb admin --for 720h
or start with --insecure-no-auth, if everybody who reaches the port may do everything`, f.addr)
}

func (a *app) serve(ctx context.Context, c *sojourn.Client, f serveFlags) error {
	log := a.logger(f.logs)
	var err error
	if f.limits.Open, err = f.open(ctx, c); err != nil {
		return err
	}
	f.limits.Logger, f.limits.AnyHost = log, f.insecure
	if f.limits.MaxQueues = f.queues; f.queues == 0 {
		f.limits.MaxQueues = -1
	}
	s, err := server.New(ctx, c.Store(), f.limits)
	if err != nil {
		return err
	}
	h := s.HTTP(f.conns)
	if f.cert != "" {
		files := &certificate{cert: f.cert, key: f.key}
		if _, err := files.get(nil); err != nil {
			return sojourn.Invalid("tls-cert", "cannot be used: %v", err)
		}
		h.TLSConfig = &tls.Config{GetCertificate: files.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: err.Error(), Err: err}
	}
	if err := profiles(ctx, f.profile, log); err != nil {
		return err
	}
	sweeping, stopSweep := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { s.Sweep(sweeping) })
	beside.Go(func() { warn(sweeping, log, f) })
	defer beside.Wait()
	defer stopSweep()
	fmt.Fprintf(a.out, "sojourn serves %s on %s\n", a.shown(), listening(l, f.cert != ""))
	log.Info("serving", "addr", l.Addr().String(), "open", f.limits.Open, "version", thisBuild().Version)
	ended := make(chan error, 1)
	go func() {
		if f.cert != "" {
			ended <- h.ServeTLS(l, "", "")
		} else {
			ended <- h.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	log.Info("draining", "notice", f.notice.String(), "grace", f.grace.String())
	s.Drain()
	select { // the port stays open, for /readyz and the reports of workers
	case err := <-ended:
		return err
	case <-time.After(f.notice):
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.grace)
	defer cancel()
	if err := h.Shutdown(grace); err != nil {
		_ = h.Close()
		log.Warn("requests were cut at the end of the grace")
	}
	log.Info("stopped")
	return nil
}

func listening(l net.Listener, secure bool) string {
	if secure {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

func (a *app) logger(form string) *slog.Logger {
	if form == "json" {
		return slog.New(slog.NewJSONHandler(a.err, nil))
	}
	return slog.New(slog.NewTextHandler(a.err, nil))
}

// warn repeats that everybody may do everything, where that was asked for.
func warn(ctx context.Context, log *slog.Logger, f serveFlags) {
	if !f.insecure {
		return
	}
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	for {
		log.Warn("no token is asked for: whoever reaches the address may do everything", "addr", f.addr)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// profiles serves /debug/pprof on an address of its own until ctx ends.
func profiles(ctx context.Context, addr string, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: err.Error(), Err: err}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	h := &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience}
	context.AfterFunc(ctx, func() { _ = h.Close() })
	go func() { _ = h.Serve(l) }()
	log.Info("profiles", "addr", l.Addr().String())
	return nil
}
