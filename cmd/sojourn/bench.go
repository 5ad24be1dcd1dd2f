package main

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
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/rule"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	config             bench.Config
	producers, backlog string
	awaiting           string
	used               bool
}

func benchHelp() string {
	var b strings.Builder
	b.WriteString(`Measures this machine: how many jobs a second the store takes and works off, and how long a call and a start take.
Every operation is durable. Without --store it runs on an SQLite file in a temporary folder, a new one for each case;
$SOJOURN_URL does not count here. A store named by --store must be empty, and keeps the jobs that were measured:
give it a schema of its own, such as postgres://localhost/db?schema=bench, and drop that afterwards.

The scenarios, of which all are measured if none is named:
`)
	for _, s := range bench.Scenarios {
		fmt.Fprintf(&b, "  %-8s %s\n", s.Name, s.Short)
	}
	b.WriteString(`
Without $GOGC in the environment it runs with GOGC=400. A machine that does something else at the same time gives other figures: compare only what one quiet run has measured.
docs/benchmarks.md says what each column means, and how Sojourn compares with others.`)
	return b.String()
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{Use: "bench [SCENARIO...]", Short: "measure how fast this machine and a store are", Long: benchHelp(), Args: cobra.ArbitraryArgs}
	fl := cmd.Flags()
	fl.IntVar(&f.config.Jobs, "jobs", bench.DefaultJobs, "jobs of a measurement, 10 times as many in bulk")
	fl.StringVar(&f.producers, "producers", bench.DefaultProducers, "`numbers` of goroutines that enqueue, separated by commas; bulk takes those up to 64")
	fl.IntVar(&f.config.Batch, "batch", bench.DefaultBatch, "jobs of a call in bulk, 1 to 1000")
	fl.StringVar(&f.backlog, "backlog", strconv.Itoa(bench.DefaultBacklog), "`numbers` of ready jobs before which claims are measured, such as 10000,1000000")
	fl.StringVar(&f.awaiting, "awaiting", bench.DefaultAwaiting, "`numbers` of jobs that await while some of them are answered, such as 100,100000")
	fl.IntVar(&f.config.Runs, "runs", bench.DefaultRuns, "runs of each case that is compared with another, in turn; the figures are their medians")
	fl.DurationVar(&f.config.Within, "within", bench.DefaultWithin, "a measurement that takes longer is cut")
	fl.BoolVar(&f.used, "used", false, "measure on a store that has jobs already")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if f.config.Producers, err = parseNumbers("producers", f.producers); err != nil {
			return err
		}
		if f.config.Backlogs, err = parseNumbers("backlog", f.backlog); err != nil {
			return err
		}
		if f.config.Awaiting, err = parseNumbers("awaiting", f.awaiting); err != nil {
			return err
		}
		b := &bench.Bench{Config: f.config, Open: newFile}
		if cmd.Flags().Changed("store") {
			return a.using(func(c *sojourn.Client) error {
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
			return nil, sojourn.Invalid(flag, "%.64q is no list of whole numbers such as 1,8,64", text)
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
				return sojourn.Conflict("the store has jobs (%d %s in the queue %s); name an empty one, or give --used", n, state, q.Name)
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
		if a.asJSON() {
			fmt.Fprintf(a.err, "%s, %s: %.0f jobs/s\n", r.Scenario, r.Case(), r.PerSecond)
			return
		}
		if !headed {
			fmt.Fprintf(a.out, line, "scenario", "case", "jobs/s", "ack p50", "ack p99", "start p50", "start p99", "heap", "rss", "B/job", "tx/job", "ratio")
			headed = true
		}
		mark := ""
		if r.Cut {
			mark = ", cut"
		}
		fmt.Fprintf(a.out, line, r.Scenario, r.Case()+mark, fmt.Sprintf("%.0f", r.PerSecond), milliseconds(r.AckP50MS), milliseconds(r.AckP99MS),
			milliseconds(r.StartP50MS), milliseconds(r.StartP99MS), mebibytes(r.HeapBytes), mebibytes(r.RSSBytes), number("%.0f", r.BytesPerJob),
			number("%.3f", r.CommitsPerJob), number("%.2f", r.Ratio))
	}
	report, err := b.Run(ctx, scenarios)
	if err != nil {
		return err
	}
	if a.asJSON() {
		return a.json(report)
	}
	return a.printf("%s %s, durability %s, %s, %d CPUs, %s\n", report.Store, report.Version, report.Durability, report.Platform, report.CPUs, report.Go)
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
