// Package failurecmd has the command "failure", which lists failures by their cause and redrives,
// cancels or mutes those of one cause.
package failurecmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/operationcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/failure"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "failure".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("failure", "failures of jobs, grouped by their cause", s.lsCommand(), s.getCommand(), s.muteCommand(),
		s.startCommand("redrive", "run the failed jobs of a group again, by a stored operation", sojourn.EditRedrive, []sojourn.State{sojourn.Failed}),
		s.startCommand("cancel", "cancel the live jobs whose last step failed with this cause, by a stored operation", sojourn.EditCancel, nil))
}

const lsHelp = `Lists failure groups, those with the latest failures first. A group has the failures of one queue, kind and reason whose
error texts differ only in numbers, ids, quoted strings, addresses and paths. Muted groups are left out.`

func (a *app) lsCommand() *cobra.Command {
	var q failure.Query
	cmd := &cobra.Command{Use: "ls", Short: "list failure groups, those with the latest failures first", Long: lsHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&q.Queue, "queue", "", "only groups of this queue")
	fl.StringVar(&q.Kind, "kind", "", "only groups of this kind")
	fl.StringVar(&q.Reason, "reason", "", "only groups with this reason")
	fl.BoolVar(&q.Open, "open", false, "only groups with failed jobs that were neither redriven nor deleted")
	fl.BoolVar(&q.Muted, "muted", false, "also muted groups")
	limit := fl.Int("limit", 100, "list at most so many groups")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			var all []failure.Group
			for g, err := range failure.Of(c).All(cmd.Context(), q) {
				if err != nil {
					return err
				}
				if all = append(all, g); len(all) >= *limit {
					break
				}
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "FAILURE", "OPEN", "FAILED", "ATTEMPTS", "LAST", "QUEUE", "KIND", "REASON", "CAUSE")
			for _, g := range all {
				open := fmt.Sprint(g.Open)
				if g.Open == failure.MaxOpen {
					open += "+"
				}
				t.Row(g.ID, open, fmt.Sprint(g.Failed), fmt.Sprint(g.Attempts), g.LastAt.UTC().Format(time.RFC3339), g.Queue, g.Kind, g.Reason, cause(g))
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

// cause is a short text for a group.
func cause(g failure.Group) string {
	switch {
	case g.Other:
		return "(all other causes)"
	case g.Pattern == "":
		return "(no error text)"
	}
	return terminal.Clean(sojourn.Cut(g.Pattern, 120))
}

func (a *app) print(g failure.Group) error {
	if a.AsJSON() {
		return a.JSON(g)
	}
	lines := []string{
		fmt.Sprintf("%s  queue %s, kind %s, reason %s", g.ID, g.Queue, g.Kind, g.Reason),
		"  cause: " + cause(g),
		fmt.Sprintf("  open %d, failed %d, attempts %d, retrying %d", g.Open, g.Failed, g.Attempts, g.Retrying),
		fmt.Sprintf("  first %s, last %s", g.FirstAt.UTC().Format(time.RFC3339), g.LastAt.UTC().Format(time.RFC3339)),
		fmt.Sprintf("  job %d: %s", g.Job, terminal.Clean(g.Error)),
	}
	if len(g.ErrorDetail) > 0 {
		lines = append(lines, "  detail: "+terminal.Clean(string(g.ErrorDetail)))
	}
	if g.Muted {
		until := "until it is unmuted"
		if !g.MutedUntil.IsZero() {
			until = "until " + g.MutedUntil.UTC().Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("  muted %s by %s: %s", until, terminal.Clean(g.MutedBy), terminal.Clean(g.MuteReason)))
	}
	return a.Printf("%s\n", strings.Join(lines, "\n"))
}

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{Use: "get ID", Short: "show a failure group with exact counts", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			g, err := failure.Of(c).Get(cmd.Context(), args[0])
			return cli.OrElse(err, func() error { return a.print(g) })
		})
	}}
}

func (a *app) muteCommand() *cobra.Command {
	var m failure.Mute
	cmd := &cobra.Command{Use: "mute ID", Short: "leave a failure group out of lists; it counts on", Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.DurationVar(&m.For, "for", 0, "how long; 0 = until --off")
	fl.BoolVar(&m.Off, "off", false, "end the mute")
	fl.StringVar(&m.By, "by", "", "user name (default $USER)")
	fl.StringVar(&m.Reason, "why", "", "reason")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if m.By == "" {
			m.By = a.User()
		}
		return a.With(func(c *sojourn.Client) error {
			g, err := failure.Of(c).Mute(cmd.Context(), args[0], m)
			return cli.OrElse(err, func() error { return a.print(g) })
		})
	}
	return cmd
}

// startCommand makes a command that starts an operation on the jobs of a group.
func (a *app) startCommand(use, short string, action sojourn.EditAction, states []sojourn.State) *cobra.Command {
	var f operationcmd.Flags
	cmd := &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1)}
	f.Bind(cmd, action == sojourn.EditRedrive)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			return f.Start(cmd.Context(), a.App, c, sojourn.Filter{Failure: args[0], States: states}, sojourn.Edit{Action: action})
		})
	}
	return cmd
}
