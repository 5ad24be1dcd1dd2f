// Package benchcmd has the command "bench", which measures a store.
package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/without"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "bench".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// benchFlags are the flags of bench.
type benchFlags struct {
	config             bench.Config
	producers, backlog string
	awaiting           string
	used               bool
}

func benchHelp() string {
	var b strings.Builder
	b.WriteString(`Measures the throughput of this machine and a store in jobs per second, the latency of a call, and the time until a job starts.
Every operation is durable. Without --store it uses an SQLite file in a temporary folder, a new file for each case;
it ignores $SOJOURN_URL. A store named by --store must be empty, and the measured jobs stay in it:
use a separate schema, such as postgres://localhost/db?schema=bench, and drop it afterwards.

Scenarios (default all):
`)
	for _, s := range bench.Scenarios {
		fmt.Fprintf(&b, "  %-8s %s\n", s.Name, s.Short)
	}
	b.WriteString(`
If $GOGC is not set, it runs with GOGC=400. Other load on the machine changes the figures: compare only figures of one run on an idle machine.
docs/benchmarks.md explains the columns and compares Sojourn with other systems.`)
	return b.String()
}

func (a *app) command() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{Use: "bench [SCENARIO...]", Short: "measure the throughput and latency of this machine and a store", Long: benchHelp(), Args: cobra.ArbitraryArgs}
	fl := cmd.Flags()
	fl.IntVar(&f.config.Jobs, "jobs", bench.DefaultJobs, "jobs per measurement; bulk uses 10 times as many, the warm-up a tenth")
	fl.StringVar(&f.producers, "producers", bench.DefaultProducers, "`numbers` of enqueuing goroutines, separated by commas, each a measurement of its own; bulk uses those up to 64")
	fl.IntVar(&f.config.Batch, "batch", bench.DefaultBatch, "jobs per call in bulk, 1 to 1000")
	fl.StringVar(&f.backlog, "backlog", strconv.Itoa(bench.DefaultBacklog), "backlog sizes for claim: `numbers` of ready jobs, such as 10000,1000000")
	fl.StringVar(&f.awaiting, "awaiting", bench.DefaultAwaiting, "`numbers` of awaiting jobs, some of which get a response, 4 and 64 at a time, such as 100,100000")
	fl.IntVar(&f.config.Runs, "runs", bench.DefaultRuns, "runs of each case that is compared with another, in turn; the result is the median")
	fl.DurationVar(&f.config.Within, "within", bench.DefaultWithin, "stop a measurement after this time, and mark it as cut")
	fl.BoolVar(&f.used, "used", false, "allow a store that already has jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if isWorker() {
			return a.work(cmd.Context())
		}
		switches, err := without.Parse(os.Getenv("SOJOURN_WITHOUT")) // for developers of the engine
		if err != nil {
			return err
		}
		defer sqlstore.Tune(func(c *sqlstore.Config) { c.Without = switches })()
		if f.config.Producers, err = parseNumbers("producers", f.producers); err != nil {
			return err
		}
		if f.config.Backlogs, err = parseNumbers("backlog", f.backlog); err != nil {
			return err
		}
		if f.config.Awaiting, err = parseNumbers("awaiting", f.awaiting); err != nil {
			return err
		}
		b := &bench.Bench{Config: f.config, Open: newFile, Elsewhere: a.elsewhere(fileOf)}
		if cmd.Flags().Changed("store") {
			b.Elsewhere = a.elsewhere(func(context.Context, *sojourn.Client) (string, error) { return a.URL(), nil })
			return a.Using(func(c *sojourn.Client) error {
				if s, err := c.Store().Status(cmd.Context()); err == nil && s.Wakeups == "" {
					b.Elsewhere = nil // no other process can open a store in memory
				}
				if err := unused(cmd.Context(), c, f.used); err != nil {
					return err
				}
				b.Open = func(context.Context) (*sojourn.Client, func() error, error) {
					return c, func() error { return nil }, nil
				}
				return a.bench(cmd.Context(), b, args)
			}, store.Migrate())
		}
		return a.bench(cmd.Context(), b, args)
	}
	return cmd
}

// parseNumbers reads numbers that are separated by commas.
func parseNumbers(flag, text string) (numbers []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, sojourn.Invalid(flag, "%.64q is not a list of whole numbers such as 1,8,64", text)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// newFile opens an SQLite file that done removes.
func newFile(context.Context) (c *sojourn.Client, done func() error, err error) {
	folder, err := os.MkdirTemp("", "sojourn-bench-")
	if err != nil {
		return nil, nil, err
	}
	if c, err = sqlite.Open(filepath.Join(folder, "bench.db"), sqlite.Rules(rule.Throttlers())); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, func() error { return errors.Join(c.Close(), os.RemoveAll(folder)) }, nil
}

// unused refuses a store that has jobs: a measurement is no guest that a store in use should have.
func unused(ctx context.Context, c *sojourn.Client, allowed bool) error {
	queues, err := c.Store().Queues(ctx)
	if err != nil || allowed {
		return err
	}
	for _, q := range queues {
		for state, n := range q.Counts {
			if n > 0 {
				return sojourn.Conflict("the store has jobs (%d %s in queue %s); use an empty store, or add --used", n, state, q.Name)
			}
		}
	}
	return nil
}

// bench measures, and shows each result when it is there.
func (a *app) bench(ctx context.Context, b *bench.Bench, scenarios []string) error {
	const line = "%-8s  %-48s  %9s  %9s  %9s  %9s  %9s  %7s  %7s  %7s  %7s  %7s\n"
	bench.SetGC()
	headed := false
	b.Progress = func(r bench.Result) {
		if a.AsJSON() {
			fmt.Fprintf(a.Err, "%s, %s: %.0f jobs/s\n", r.Scenario, r.Case(), r.PerSecond)
			return
		}
		if !headed {
			fmt.Fprintf(a.Out, line, "scenario", "case", "jobs/s", "ack p50", "ack p99", "start p50", "start p99", "heap", "rss", "B/job", "tx/job", "ratio")
			headed = true
		}
		mark := ""
		if r.Cut {
			mark = ", cut"
		}
		fmt.Fprintf(a.Out, line, r.Scenario, r.Case()+mark, fmt.Sprintf("%.0f", r.PerSecond), milliseconds(r.AckP50MS), milliseconds(r.AckP99MS),
			milliseconds(r.StartP50MS), milliseconds(r.StartP99MS), mebibytes(r.HeapBytes), mebibytes(r.RSSBytes), number("%.0f", r.BytesPerJob),
			number("%.3f", r.CommitsPerJob), number("%.2f", r.Ratio))
	}
	report, err := b.Run(ctx, scenarios)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(report)
	}
	return a.Printf("%s %s, durability %s, %s, %d CPUs, %s\n", report.Store, report.Version, report.Durability, report.Platform, report.CPUs, report.Go)
}

func milliseconds(ms float64) string { return number("%.3fms", ms) }

func mebibytes(n uint64) string { return number("%.1fMiB", float64(n)/(1<<20)) }

// number writes v, and nothing where there is none.
func number(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
