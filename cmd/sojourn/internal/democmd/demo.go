// Package democmd has the command "demo", which runs a shop and checks that nothing is lost.
package democmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/webpage"
	"github.com/sojourn-queue/sojourn/internal/demo"
	"github.com/sojourn-queue/sojourn/store"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "demo".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const demoHelp = `Runs a small shop. It enqueues orders. A worker sends a payment request for each to a gateway over HTTP on loopback, and
the gateway answers later by webhook: late, early, twice, with errors, or never. A web page shows it, at the address that the demo
prints. At the end the demo compares the store
with its own ledger of acknowledged operations; exit code 1 if anything is lost.

` + demoBrokersHelp + `

  sojourn demo                                   watch it
  sojourn demo --db shop.db                      keep the store: kill -9 the demo, and start it again
  sojourn demo --store postgres://…              the same on PostgreSQL
  sojourn demo --headless --for 10s -o json      check the result, and print one JSON object

It runs in a temporary folder unless --db, --store or SOJOURN_URL names a store. In a named store it creates missing tables, turns off
retention for the queues "payments", "exports" and "parcels", and leaves its orders there. A store from SOJOURN_URL that has other jobs is refused.

docs/demo.md explains the numbers.`

// demoFlags are the flags of demo.
type demoFlags struct {
	db, ledger, fault string
	addr              string
	headless, brokers bool
	length            time.Duration
	rate              float64
	seed              uint64
}

func (a *app) command() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{Use: "demo", Short: "watch jobs wait for answers and survive crashes", Long: demoHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&f.db, "db", "", "keep the store in this `file`, or continue with it; short for --store sqlite:FILE")
	fl.StringVar(&f.ledger, "ledger", "", "keep the demo's own records in `PATH`.ledger and PATH.gateway, and the files of its brokers in PATH.nats and PATH.kafka (default next to the store's file; for a server, in the user's cache folder, named by the instance)")
	fl.StringVar(&f.addr, "addr", "127.0.0.1:7575", "`HOST:PORT` of the web page, on loopback; a free port if another program has it. With --headless there is none")
	fl.BoolVar(&f.brokers, "brokers", demoWires != nil, "use a NATS server and a Kafka broker inside the demo (needs a build with -tags brokers: make demo-brokers)")
	fl.BoolVar(&f.headless, "headless", false, "show nothing and end automatically")
	fl.DurationVar(&f.length, "for", 0, "end after this `duration` (default 10s with --headless, else Ctrl-C)")
	fl.Float64Var(&f.rate, "rate", 0, "orders per second (default 25, with --headless 250)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random numbers (default a random seed, which is shown)")
	fl.StringVar(&f.fault, "fault", "", "inject a `fault`, so that the check fails: drop-ack acknowledges some orders and answers without storing them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.config(cmd.Flags().Changed)
		if err != nil {
			return err
		}
		url, err := a.store(f.db)
		if err != nil {
			return err
		}
		if url == "" {
			folder, err := os.MkdirTemp("", "sojourn-demo-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			url = "sqlite:" + filepath.Join(folder, "demo.db")
		}
		switch {
		case f.headless:
			f.addr = ""
		case !loopback(f.addr):
			return sojourn.Invalid("addr", "%.64q is not an address of loopback such as 127.0.0.1:7575; the page of the demo needs no sign-in", f.addr)
		}
		return a.demo(cmd.Context(), url, f.ledger, cfg, f.addr)
	}
	return cmd
}

// loopback reports whether only this machine reaches an address.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	ip, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && ip.IsLoopback())
}

// store is the URL of the store that the flags or the environment name; "" means a temporary
// one.
func (a *app) store(db string) (url string, err error) {
	switch {
	case db != "" && a.Store != "":
		return "", sojourn.Invalid("db", "give --db or --store, not both")
	case db != "":
		url = "sqlite:" + strings.TrimPrefix(db, "sqlite:")
	case a.Store != "":
		url = a.Store
	default:
		url = a.Fallback()
	}
	if url == "" {
		return "", nil
	}
	path, err := store.Path(url)
	if err == nil && path == ":memory:" {
		err = sojourn.Invalid("store", "%s is not a file; leave --store out for a temporary store", path)
	}
	return url, err
}

// config turns the flags into the demo's own. The path of the ledgers is not among them: the store
// decides it.
func (f demoFlags) config(given func(string) bool) (demo.Config, error) {
	cfg := demo.Defaults()
	if f.headless {
		if !given("for") {
			f.length = 10 * time.Second
		}
		if f.length <= 0 {
			return cfg, sojourn.Invalid("for", "%v is out of range; with --headless use a duration above 0", f.length)
		}
		cfg = demo.Headless(f.length)
	}
	if f.brokers && demoWires == nil {
		return cfg, sojourn.Invalid("brokers", "this build has no brokers; run \"make demo-brokers\", or build the command with -tags brokers")
	}
	if given("rate") {
		cfg = cfg.AtRate(f.rate)
	}
	cfg.Seed = f.seed
	if !given("seed") {
		cfg.Seed = demo.RandomSeed()
	}
	cfg.For, cfg.Fault = f.length, demo.Fault(f.fault)
	if f.brokers {
		cfg.Wires = demoWires
	}
	probe := cfg
	probe.Path = "demo.db"
	return cfg, probe.Validate()
}

// demo runs on a fresh client of the store. An answer for an order that nobody placed waits as long
// as a job awaits its answer.
func (a *app) demo(ctx context.Context, url, ledger string, cfg demo.Config, addr string) error {
	c, err := store.Open(url, store.ServerToken(a.Token), store.Migrate(), store.InboxTTL(max(cfg.Within, time.Second)))
	if err != nil {
		return cli.Unusable(err)
	}
	report, err := a.on(ctx, c, url, ledger, cfg, addr)
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	if err := a.printReport(report); err != nil {
		return err
	}
	for _, p := range report.Problems {
		fmt.Fprintln(a.Err, p)
	}
	if !report.OK() {
		sum := report.Completed + report.Failed + report.Cancelled + report.Live
		return fmt.Errorf("%d acknowledged, %d in the store, %d lost", report.Enqueued, sum, report.Lost)
	}
	return nil
}

// on runs the demo, with the web page unless addr is empty.
func (a *app) on(ctx context.Context, c *sojourn.Client, url, ledger string, cfg demo.Config, addr string) (demo.Report, error) {
	if a.Store == "" && url == a.Fallback() {
		if err := demo.Alone(ctx, c); err != nil {
			return demo.Report{}, err
		}
	}
	if demoWires == nil && addr != "" {
		fmt.Fprintln(a.Err, `this build has no brokers; run "make demo-brokers" to see answers over NATS and Kafka too`)
	}
	var err error
	if cfg.Path, err = ledgerPath(ctx, c, url, ledger); err != nil {
		return demo.Report{}, err
	}
	view := a.view(&cfg, addr == "")
	if addr != "" {
		page, end, err := webpage.Serve(ctx, c, addr)
		if err != nil {
			return demo.Report{}, err
		}
		defer end()
		shown := view
		view = func(s demo.Snapshot) {
			s.Page = page
			shown(s)
		}
	}
	return demo.Run(ctx, c, cfg, view)
}

// ledgerPath is where the demo keeps its books: where it is told to, or beside the store's file.
// Those of a server lie in the user's cache folder under the instance's name, which is new when the
// tables are made anew: books about other tables would accuse these of losing jobs. For the same
// reason the name is added to the file's if the file may hold several instances.
func ledgerPath(ctx context.Context, c *sojourn.Client, url, ledger string) (string, error) {
	if ledger != "" {
		return ledger, nil
	}
	path, err := store.Path(url)
	if err != nil || path != "" && !strings.Contains(url, "?") {
		return path, err
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return "", err
	}
	if path != "" {
		return path + "-" + status.Instance, nil
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for the demo's records; name one with --ledger PATH: %w", err)
	}
	folder = filepath.Join(folder, "sojourn")
	return filepath.Join(folder, "demo-"+status.Instance), os.MkdirAll(folder, 0o700)
}

// view draws on a terminal, and writes lines elsewhere. What the worker complains about goes to
// stderr, except below a screen.
func (a *app) view(cfg *demo.Config, headless bool) func(demo.Snapshot) {
	out := a.Out
	if a.AsJSON() { // stdout is for the report
		out = a.Err
	}
	if !headless && terminal.IsTerminal(out) {
		return demo.Screen(out)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelError}))
	if headless {
		return nil
	}
	fmt.Fprintf(out, "sojourn demo: %s, seed %d\n", cfg.Path, cfg.Seed)
	return demo.Lines(out)
}

func (a *app) printReport(r demo.Report) error {
	if a.AsJSON() {
		return a.JSON(r)
	}
	t := terminal.NewTable(a.Out)
	w, g := r.Responses, r.Gateway
	for _, row := range [][2]string{
		{"enqueued", fmt.Sprint(r.Enqueued)},
		{"completed", fmt.Sprint(r.Completed)}, {"failed", fmt.Sprint(r.Failed)},
		{"cancelled", fmt.Sprint(r.Cancelled)}, {"live", fmt.Sprint(r.Live)},
		{"lost", fmt.Sprint(r.Lost)},
		{"responses", fmt.Sprintf("%d applied, %d early, %d duplicate, %d late, %d unmatched, %d parked",
			w.Applied, w.Early, w.Duplicate, w.Late, w.Unmatched, w.Parked)},
		{"gateway", fmt.Sprintf("%d orders charged, %d twice; %d requests, %d repeated; %d never answered",
			g.Charged, g.ChargedTwice, g.Requests, g.Repeated, g.Unanswered)},
		{"enqueue", fmt.Sprintf("p50 %v ms, p99 %v ms", r.EnqueueMS.P50, r.EnqueueMS.P99)},
		{"wait", fmt.Sprintf("p50 %v ms, p99 %v ms", r.WaitMS.P50, r.WaitMS.P99)},
		{"store", r.Store}, {"seed", fmt.Sprint(r.Seed)},
	} {
		t.Row(row[0], row[1])
	}
	if len(r.Partners) == 0 {
		t.Row("brokers", demo.NoBrokers)
	}
	for _, p := range r.Partners {
		t.Row(p.Broker, fmt.Sprintf("%d jobs of %s; %d answers applied, %d duplicate, %d unreadable, %d early or late",
			p.Jobs, p.Kind, p.Answered, p.Duplicate, p.Parked, p.Other))
	}
	return t.Flush()
}

// HasBrokers reports whether this build has the brokers of the demo: the build tag brokers.
func HasBrokers() bool { return demoWires != nil }
