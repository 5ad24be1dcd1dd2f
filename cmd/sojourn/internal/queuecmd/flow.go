package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/rules"
)

// flowFlags are the settings of queue set that decide which ready jobs start, and in which order.
type flowFlags struct {
	limit, maxDepth, groupLimit   int64
	reserveAfter, bucket, ageStep time.Duration
	order                         string
	shares, pausedKinds, index    []string
	borrow, fair                  bool
	pace                          paceFlags
}

func (f *flowFlags) register(fl *pflag.FlagSet) {
	fl.Int64Var(&f.limit, "limit", 0, "maximum total weight in flight (running, awaiting and resumed jobs); 0 = no limit")
	fl.DurationVar(&f.reserveAfter, "reserve-after", 0, "if other jobs overtake a heavy job this long, reserve free weight for it (default 30s)")
	fl.Int64Var(&f.maxDepth, "max-depth", 0, "refuse to enqueue when this many jobs are ready; 0 = never")
	fl.StringVar(&f.order, "order", "", "order of the jobs: priority or time (default priority)")
	fl.DurationVar(&f.bucket, "bucket", 0, "with --order time: truncate run_at to this duration (default 1m)")
	fl.DurationVar(&f.ageStep, "age-step", 0, "with --order priority: each wait of this length counts as one priority step; 0 = never")
	fl.Int64Var(&f.groupLimit, "group-limit", 0, "maximum total weight in flight of each group; 0 = no limit")
	fl.StringSliceVar(&f.shares, "share", nil, "part of the limit for a group, such as east=40% or east=0.4; may be repeated; replaces all shares, \"\" removes them")
	fl.BoolVar(&f.borrow, "borrow", false, "let groups use the idle shares of other groups")
	fl.BoolVar(&f.fair, "fair", false, "groups take turns, even without limits and shares")
	f.pace.register(fl)
	fl.StringSliceVar(&f.index, "index", nil, "`PATH` of args, result or meta by which jobs are found, such as args.customer; up to 8; replaces the list, \"\" removes it")
	fl.StringSliceVar(&f.pausedKinds, "pause-kind", nil, "hand out no jobs of these kinds; replaces the list, \"\" ends the pause")
}

// apply copies the given flags into s.
func (f *flowFlags) apply(given func(string) bool, s *sojourn.QueueSettings) error {
	parse.Set(given("limit"), &s.Limit, f.limit)
	parse.Set(given("reserve-after"), &s.ReserveAfter, f.reserveAfter)
	parse.Set(given("max-depth"), &s.MaxDepth, f.maxDepth)
	parse.Set(given("bucket"), &s.Bucket, f.bucket)
	parse.Set(given("age-step"), &s.AgeStep, f.ageStep)
	parse.Set(given("group-limit"), &s.GroupLimit, f.groupLimit)
	parse.Set(given("borrow"), &s.Borrow, f.borrow)
	parse.Set(given("fair"), &s.Fair, f.fair)
	parse.Set(given("pause-kind"), &s.PausedKinds, named(f.pausedKinds))
	parse.Set(given("order"), &s.Order, f.order)
	parse.Set(given("index"), &s.Index, named(f.index))
	if err := f.pace.apply(given, s); err != nil || !given("share") {
		return err
	}
	s.Shares = nil
	for _, text := range named(f.shares) {
		group, part, ok := strings.Cut(text, "=")
		number, percent := strings.CutSuffix(part, "%")
		fraction, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return sojourn.Invalid("share", "%.64q is not a share; use GROUP=40%% or GROUP=0.4", text)
		}
		if percent {
			fraction /= 100
		}
		if s.Shares == nil {
			s.Shares = map[string]float64{}
		}
		s.Shares[group] = fraction
	}
	return nil
}

// named drops empty texts.
func named(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return t == "" })
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get QUEUE", Short: "show a queue: settings, job counts and weight in flight", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			q, err := queueNamed(cmd.Context(), c, args[0])
			if err != nil || a.AsJSON() {
				return cli.OrElse(err, func() error { return a.JSON(q) })
			}
			status, err := c.Store().Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.printQueue(q, status.Now)
		})
	}
	return cmd
}

// queueNamed gets a queue that exists. What holds for all queues exists always.
func queueNamed(ctx context.Context, c *sojourn.Client, name string) (sojourn.QueueStatus, error) {
	queues, err := c.Store().Queues(ctx, name)
	switch {
	case err != nil && !errors.Is(err, sojourn.ErrNotFound):
		return sojourn.QueueStatus{}, err
	case len(queues) > 0:
		return queues[0], nil
	case name == sojourn.AllQueues:
		return sojourn.QueueStatus{Name: name}, nil
	}
	return sojourn.QueueStatus{}, sojourn.NotFound("there is no queue %.64q; \"sojourn queue ls\" lists them", name)
}

// InFlight formats the load in flight, with the queue's limit if it has one.
func InFlight(q sojourn.QueueStatus) string {
	if q.Settings.Limit < 1 {
		return fmt.Sprint(q.InFlight)
	}
	return fmt.Sprintf("%d of %d", q.InFlight, q.Settings.Limit)
}

func (a *app) printQueue(q sojourn.QueueStatus, now time.Time) error {
	s := q.Settings
	t := terminal.NewTable(a.Out, "QUEUE", q.Name)
	row := func(name, value string, shown bool) {
		if shown {
			t.Row(name, value)
		}
	}
	row("in flight", InFlight(q), true)
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		row(state.String(), fmt.Sprint(q.Counts[state]), q.Counts[state] > 0)
	}
	row("paused", "yes", s.Paused)
	row("paused kinds", strings.Join(s.PausedKinds, ", "), len(s.PausedKinds) > 0)
	for _, w := range s.Windows {
		row("window", w.String(), true)
	}
	row("limit", fmt.Sprint(s.Limit), s.Limit > 0)
	row("reserve after", s.ReserveAfter.String(), s.ReserveAfter > 0)
	row("max depth", fmt.Sprint(s.MaxDepth), s.MaxDepth > 0)
	row("order", s.Order, s.Order != "")
	row("bucket", s.Bucket.String(), s.Bucket > 0)
	row("age step", s.AgeStep.String(), s.AgeStep > 0)
	row("group limit", fmt.Sprint(s.GroupLimit), s.GroupLimit > 0)
	for _, group := range slices.Sorted(maps.Keys(s.Shares)) {
		row("share of "+group, fmt.Sprintf("%g%% = %d", s.Shares[group]*100, rules.ShareOf(s, group)), true)
	}
	row("borrow", "yes", s.Borrow)
	row("fair", "yes", s.Fair)
	row("index", strings.Join(s.Index, ", "), len(s.Index) > 0)
	for _, line := range append(paceLines(q, now), layerLines(q)...) {
		row(line[0], line[1], true)
	}
	return t.Flush()
}
