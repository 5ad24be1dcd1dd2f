// Package servecmd has the command "serve", which serves a store over HTTP.
package servecmd

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
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/monitor"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/webpage"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/internal/version"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "serve".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const serveHelp = `Serves a store over HTTP. Go programs use the URL http://HOST:PORT as their store, other programs send HTTP requests. The web page
is at /ui/: people sign in with a token. The API is documented at /docs; health checks are at /livez and /readyz, metrics at /metrics. docs/guides/server.md explains how to run a server.

  sojourn serve                                        sqlite:sojourn.db on 127.0.0.1:7575
  sojourn serve --store postgres://… --addr :7575 --tls-cert cert.pem --tls-key key.pem

On loopback, while the store has no token, every client that reaches the port may do everything. Once "sojourn token create" has
created a token, every request needs one; restart a server that was already running. On any other address the server does not start
if the store has no token.

SIGTERM shuts down gracefully: /readyz fails, new work is refused, long polls are answered, and running requests finish. A second signal
ends it at once.`

// Times of the server.
const (
	headerPatience = 5 * time.Second // of the port for profiles
	maxRate        = 1_000_000       // requests a second
	warnEvery      = time.Minute
)

// serveFlags are the flags of serve.
type serveFlags struct {
	addr, cert, key, profile   string
	log                        monitor.Log
	insecure, require, migrate bool
	grace, notice              time.Duration
	limits                     server.Options
	conns, queues              int
	declared                   bool
	lowSpace                   int64
}

func (a *app) command() *cobra.Command {
	f := serveFlags{}
	cmd := &cobra.Command{Use: "serve", Short: "serve the store over HTTP", Long: serveHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&f.addr, "addr", "127.0.0.1:7575", "`HOST:PORT` to listen on; other addresses than loopback need a token in the store")
	fl.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate and its chain; reloaded within a second after it changes")
	fl.StringVar(&f.key, "tls-key", "", "`FILE` with the private key")
	fl.BoolVar(&f.insecure, "insecure-no-auth", false, "require no token, on any address; the log warns about it every minute")
	fl.BoolVar(&f.require, "require-token", false, "require a token on loopback too, and start although the store has no token yet; requests are refused until one is created")
	fl.BoolVar(&f.migrate, "migrate", false, "migrate a PostgreSQL database to the newest schema first; SQLite files are always migrated")
	f.log.Register(fl)
	fl.StringVar(&f.profile, "pprof", "", "`HOST:PORT` on loopback for /debug/pprof (default none)")
	fl.DurationVar(&f.grace, "grace", 30*time.Second, "how long running requests may take after SIGTERM")
	fl.DurationVar(&f.notice, "notice", time.Second, "how long /readyz fails after SIGTERM before the port is closed, so that load balancers stop sending requests; set it longer than their check interval")
	fl.Int64Var(&f.limits.MaxBody, "max-body", 0, "maximum bytes of a request body (default 4 MiB, more if the store allows larger values)")
	fl.IntVar(&f.limits.MaxRequests, "max-requests", server.DefaultMaxRequests, "maximum concurrent requests; more are refused with 503")
	fl.IntVar(&f.limits.MaxWaiting, "max-waiting", server.DefaultMaxWaiting, "maximum concurrent long polls")
	fl.Float64Var(&f.limits.Rate, "rate", 0, "requests per second per token (4x for worker reports); more are refused with 429 (default no limit)")
	fl.StringSliceVar(&f.limits.Redact, "redact", nil, "`PATHS` such as args.card.number,result.token: the HTTP API and the web page hide their values, except from workers and tokens with the verb read:redacted")
	fl.IntVar(&f.queues, "max-queues-per-token", server.DefaultMaxQueues, "maximum queues that the jobs of one token may create, then 422 queue_limit; 0 = no limit")
	fl.IntVar(&f.conns, "max-conns", server.DefaultMaxConns, "maximum connections, a quarter of them reserved for clients with a valid token; when full, the oldest connection without a token is closed")
	fl.BoolVar(&f.declared, "declared-queues", false, `accept jobs only for queues created by "sojourn queue set"`)
	fl.Int64Var(&f.lowSpace, "low-space", 64<<20, "refuse new jobs with 507 low_space if fewer bytes are free on the disk of an SQLite file; 0 = no limit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(a.URL()); err != nil {
			return err
		}
		var options []store.Option
		if f.migrate {
			options = append(options, store.Migrate())
		}
		if f.declared {
			options = append(options, store.DeclaredQueues())
		}
		c, err := store.Open(a.URL(), append(options, store.LowSpace(f.lowSpace), store.Rules(rule.Throttlers()))...)
		if err != nil {
			return cli.Unusable(err)
		}
		return errors.Join(a.serve(cmd.Context(), c, f), c.Close())
	}
	return cmd
}

func (f serveFlags) validate(url string) error {
	if store.IsServer(url) {
		return sojourn.Invalid("store", "%s is a server already; name the database with --store", store.Redact(url))
	}
	if (f.cert == "") != (f.key == "") {
		return sojourn.Invalid("tls-cert", "give --tls-cert and --tls-key together")
	}
	if f.insecure && f.require {
		return sojourn.Invalid("require-token", "--require-token and --insecure-no-auth contradict each other; give one of them")
	}
	if f.conns < 1 || f.limits.Rate < 0 || f.limits.Rate > maxRate {
		return sojourn.Invalid("max-conns", "out of range: --max-conns must be 1 or more, and --rate 0 to %d", maxRate)
	}
	if f.queues < 0 {
		return sojourn.Invalid("max-queues-per-token", "%d is negative; use 0 for no limit", f.queues)
	}
	if f.notice < 0 || f.grace < 0 {
		return sojourn.Invalid("grace", "a time is negative: --grace and --notice must be 0 or more")
	}
	if err := f.log.Validate(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(f.addr); err != nil {
		return sojourn.Invalid("addr", "%.64q is not of the form HOST:PORT", f.addr)
	}
	if f.profile != "" && !loopback(f.profile) {
		return sojourn.Invalid("pprof", "%.64q is not on loopback; profiles show memory contents, so use a loopback address", f.profile)
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
	keeper, ok := c.Store().(access.Keeper)
	if !ok {
		return false, sojourn.Invalid("store", "this store cannot hold tokens; use another store, or --insecure-no-auth")
	}
	tokens, err := keeper.AccessTokens(ctx)
	switch {
	case err != nil:
		return false, err
	case len(tokens) > 0 || f.require:
		return false, nil
	case loopback(f.addr):
		return true, nil
	}
	return false, sojourn.Invalid("addr", `other machines can reach %s, and the store has no token yet; create one with
  sojourn token create --name admin --verb admin --for 720h
or start with --require-token and create one then, or with --insecure-no-auth, if every client that reaches the port may do everything`, f.addr)
}

func (a *app) serve(ctx context.Context, c *sojourn.Client, f serveFlags) error {
	log := f.log.Logger(a.App)
	var err error
	if f.limits.Open, err = f.open(ctx, c); err != nil {
		return err
	}
	f.limits.Logger, f.limits.AnyHost = log, f.insecure
	if f.limits.MaxQueues = f.queues; f.queues == 0 {
		f.limits.MaxQueues = -1
	}
	s, err := server.New(ctx, driver.Of(c), f.limits)
	if err != nil {
		return err
	}
	h := s.HTTP(f.conns)
	h.Handler = webpage.Beside(s, c, f.limits, log)
	if f.cert != "" {
		files := &certificate{cert: f.cert, key: f.key}
		if _, err := files.get(nil); err != nil {
			return sojourn.Invalid("tls-cert", "cannot load the certificate: %v", err)
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
	if err := a.declare(ctx, c); err != nil {
		return err
	}
	sweeping, stopSweep := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { s.Sweep(sweeping) })
	beside.Go(func() { warn(sweeping, log, f) })
	manager := supervised(a.Env)
	beside.Go(func() { manager.watch(sweeping, func(err error) { log.Warn(err.Error()) }) })
	defer beside.Wait()
	defer stopSweep()
	fmt.Fprintf(a.Out, "sojourn serves %s on %s\nweb page: %[2]s%s\n", a.Shown(), listening(l, f.cert != ""), webpage.Path)
	log.Info("serving", "addr", l.Addr().String(), "open", f.limits.Open, "version", version.Current().Version)
	return f.run(ctx, s, h, l, manager)
}

// run serves until ctx ends, then drains. The service manager is told when the port accepts
// requests and when the drain begins.
func (f serveFlags) run(ctx context.Context, s *server.Server, h *http.Server, l net.Listener, manager supervisor) error {
	log := f.limits.Logger
	tell := func(state string) {
		if err := manager.notify(context.WithoutCancel(ctx), state); err != nil {
			log.Warn(err.Error())
		}
	}
	ended := make(chan error, 1)
	go func() {
		if f.cert != "" {
			ended <- h.ServeTLS(l, "", "")
		} else {
			ended <- h.Serve(l)
		}
	}()
	tell("READY=1")
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	tell("STOPPING=1")
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
		log.Warn("grace period over, requests were aborted")
	}
	log.Info("stopped")
	return nil
}

// declare declares the schedules of the settings file.
func (a *app) declare(ctx context.Context, c *sojourn.Client) error {
	for _, d := range a.Schedules {
		if _, err := schedule.Of(c).Declare(ctx, d); err != nil {
			return fmt.Errorf("the schedule %s of the settings file: %w", d.Name, err)
		}
	}
	return nil
}

func listening(l net.Listener, secure bool) string {
	if secure {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// warn repeats that everybody may do everything, where that was asked for.
func warn(ctx context.Context, log *slog.Logger, f serveFlags) {
	if !f.insecure {
		return
	}
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	for {
		log.Warn("authentication is off: every client that reaches the address may do everything", "addr", f.addr)
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
