package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Setup makes the systems of a comparison, ours first, and what ends their servers: single has one
// job a call, bulk has many.
type Setup func(ctx context.Context, single, bulk Load) (entries []Entry, stop func(), err error)

// SetGC sets GOGC to 400 for programs that measure, unless the environment has set it. The heap of
// a queue is a few megabytes, so that Go's default of 100 collects garbage after each 150 jobs, for
// a third of the processor time, in our store and in others. An application with a heap of its own
// does not.
func SetGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Main is the command that compares systems. Its first argument names one of the setups.
func Main(setups map[string]Setup) {
	SetGC()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, os.Args[1:], setups)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, args []string, setups map[string]Setup) error {
	names := strings.Join(slices.Sorted(maps.Keys(setups)), ", ")
	if len(args) == 0 || setups[args[0]] == nil {
		return fmt.Errorf("name a comparison first (%s), then flags, such as -runs 1", names)
	}
	fs := flag.NewFlagSet(args[0], flag.ExitOnError)
	single := Load{Batch: 1}
	output := fs.String("o", "table", "table, markdown or json")
	runs := fs.Int("runs", 3, "runs of each system, in turn; the figures are their medians")
	batch := fs.Int("bulk", 1000, "jobs of a call in the bulk figures; 0 leaves them out")
	onlyBulk := fs.Bool("only-bulk", false, "leave out the figures with one job a call")
	only := fs.String("only", "", "measure only these systems beside ours, separated by commas")
	fs.IntVar(&single.Jobs, "jobs", 10_000, "jobs of a measurement, 10 times as many in bulk")
	fs.IntVar(&single.Producers, "producers", 64, "goroutines that enqueue")
	fs.DurationVar(&single.Within, "within", 2*time.Minute, "a measurement that takes longer is cut")
	_ = fs.Parse(args[1:]) // exits if it fails
	write := writers[*output]
	if write == nil || *runs < 1 || *batch < 0 || single.Jobs < 1 || single.Producers < 1 || *onlyBulk && *batch == 0 || fs.NArg() > 0 {
		return fmt.Errorf("-o is table, markdown or json, -runs, -jobs and -producers are 1 and more, -only-bulk needs -bulk, and nothing follows the flags")
	}
	bulk := single
	bulk.Jobs, bulk.Batch = 10*single.Jobs, *batch
	if *batch == 0 {
		bulk.Jobs = 0
	}
	if *onlyBulk {
		single.Jobs = 0
	}
	single.WarmUp, bulk.WarmUp = single.Jobs/10, bulk.Jobs/10
	chosen, stop, err := setups[args[0]](ctx, single, bulk)
	if err != nil {
		return err
	}
	defer stop()
	if *only != "" {
		names := strings.Split(*only, ",")
		chosen = slices.DeleteFunc(chosen, func(e Entry) bool { return e.Name != chosen[0].Name && !slices.Contains(names, e.Name) })
	}
	found, err := Compare(ctx, chosen, *runs, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	return write(os.Stdout, chosen, found)
}

var writers = map[string]func(io.Writer, []Entry, map[string]Figures) error{"table": WriteTable, "markdown": WriteMarkdown, "json": WriteJSON}
