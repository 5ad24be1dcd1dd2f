// Package operationcmd has the command "operation", which shows and controls stored operations, and
// starts them for other commands.
package operationcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "operation".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("operation", "changes of many jobs that the store carries out",
		s.lsCommand(), s.getCommand(),
		s.changeCommand("pause", "stop an operation until it is resumed", operation.Operations.Pause),
		s.changeCommand("resume", "go on with a paused or stopped operation, without waiting for a canary that has failed", operation.Operations.Resume),
		s.changeCommand("cancel", "end an operation; jobs that were changed stay so", operation.Operations.Cancel))
}

// Flags are the flags of a command that starts an operation.
type Flags struct {
	id, rate, by, why string
	limit             int64
	canary            int
	yes, dryRun, wait bool
}

// Bind adds the flags to a command that always starts an operation. Only a redrive has canaries.
func (f *Flags) Bind(cmd *cobra.Command, canaries bool) {
	f.BindPace(cmd, canaries)
	fl := cmd.Flags()
	fl.StringVar(&f.by, "by", "", "user name for the history (default $USER)")
	fl.StringVar(&f.why, "why", "", "reason for the history")
	fl.BoolVar(&f.yes, "yes", false, "confirm; without it, the command is refused and the error has the number of jobs")
	fl.BoolVar(&f.dryRun, "dry-run", false, "only count the jobs")
}

// BindPace adds the flags that say how an operation runs.
func (f *Flags) BindPace(cmd *cobra.Command, canaries bool) {
	fl := cmd.Flags()
	fl.StringVar(&f.id, "id", "", "id of the operation, so that the command can be repeated (default a random one)")
	fl.Int64Var(&f.limit, "limit", 0, "stop after so many changed jobs; 0 = all")
	fl.StringVar(&f.rate, "rate", "", "at most so many `jobs` a second, such as 50/s or 10/m")
	if canaries {
		fl.IntVar(&f.canary, "canary", 0, "redrive so many jobs first, up to 100; the rest follows only if all of them complete")
	}
	fl.BoolVar(&f.wait, "wait", false, "wait until the operation has ended; exit code 1 if it has stopped or a job was refused")
}

// Paced reports whether a flag of BindPace was given.
func Paced(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"id", "limit", "rate", "canary", "wait"}, cmd.Flags().Changed)
}

// Confirmed sets what Bind would have read from flags.
func (f *Flags) Confirmed(by, why string, yes, dryRun bool) {
	f.by, f.why, f.yes, f.dryRun = by, why, yes, dryRun
}

// Start starts an operation on the jobs of a filter, or counts them.
func (f *Flags) Start(ctx context.Context, a *cli.App, c *sojourn.Client, filter sojourn.Filter, e sojourn.Edit) error {
	rate, err := operation.ParseRate(f.rate)
	if err != nil {
		return err
	}
	if e.By = f.by; e.By == "" {
		e.By = a.User()
	}
	e.Reason, e.DryRun = f.why, f.dryRun || !f.yes
	spec := operation.Spec{ID: f.id, Filter: filter, Edit: e, Limit: f.limit, Rate: rate, Canary: f.canary}
	out, err := operation.Of(c).Start(ctx, spec)
	if err != nil {
		return err
	}
	s := &app{a}
	if e.DryRun {
		n := out.Total
		if f.limit > 0 {
			n = min(n, f.limit)
		}
		if !f.dryRun {
			return cli.Unconfirmed(string(e.Action), terminal.Plural(int(n), "job"))
		}
		if a.AsJSON() {
			return a.JSON(out)
		}
		return a.Printf("%d of %s would be changed\n", n, terminal.Plural(int(out.Total), "job"))
	}
	if !f.wait {
		return s.print(out)
	}
	out, err = operation.Of(c).Wait(ctx, out.ID, nil)
	switch err = cli.OrElse(err, func() error { return s.print(out) }); {
	case err != nil:
		return err
	case out.State != operation.Completed:
		return fmt.Errorf("operation %s is %s", out.ID, out.State)
	case out.Refused > 0:
		return fmt.Errorf("operation %s: %s refused", out.ID, terminal.Plural(int(out.Refused), "job"))
	}
	return nil
}

// print shows one operation.
func (a *app) print(o operation.Status) error {
	if a.AsJSON() {
		return a.JSON(o)
	}
	lines := []string{o.String()}
	if o.Unchanged+o.Refused > 0 {
		lines = append(lines, fmt.Sprintf("  changed %d, unchanged %d, refused %d", o.Changed, o.Unchanged, o.Refused))
	}
	if n := len(o.Canaries); n > 0 && !o.State.Ended() {
		lines = append(lines, fmt.Sprintf("  waits for %s to complete", terminal.Plural(n, "canary job")))
	}
	if o.Problem != "" {
		lines = append(lines, "  problem: "+terminal.Clean(o.Problem))
	}
	return a.Printf("%s\n", strings.Join(lines, "\n"))
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list operations, the newest first", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			var all []operation.Status
			for o, err := range operation.Of(c).All(cmd.Context()) {
				if err != nil {
					return err
				}
				all = append(all, o)
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "OPERATION", "ACTION", "STATE", "TOTAL", "CHANGED", "UNCHANGED", "REFUSED", "BY", "STARTED")
			for _, o := range all {
				t.Row(o.ID, string(o.Action), string(o.State), fmt.Sprint(o.Total), fmt.Sprint(o.Changed), fmt.Sprint(o.Unchanged), fmt.Sprint(o.Refused), o.By,
					o.CreatedAt.UTC().Format(time.RFC3339))
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get ID", Short: "show an operation with its progress", Args: cobra.ExactArgs(1)}
	wait := cmd.Flags().Bool("wait", false, "wait until it has ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			o, err := operation.Of(c).Get(cmd.Context(), args[0])
			if err == nil && *wait {
				o, err = operation.Of(c).Wait(cmd.Context(), args[0], nil)
			}
			return cli.OrElse(err, func() error { return a.print(o) })
		})
	}
	return cmd
}

func (a *app) changeCommand(use, short string, change func(operation.Operations, context.Context, string) (operation.Status, error)) *cobra.Command {
	return &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			o, err := change(operation.Of(c), cmd.Context(), args[0])
			return cli.OrElse(err, func() error { return a.print(o) })
		})
	}}
}
