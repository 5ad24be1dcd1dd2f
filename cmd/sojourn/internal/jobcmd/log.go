package jobcmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/joblog"
)

const logHelp = `Shows the lines of a job's log: those of its handler, and those of operators with their names. With a text it writes a line of an operator,
in any state of the job, also after its end; a job that runs is not disturbed. Needs the verb operate at a server.`

func (a *app) logCommand() *cobra.Command {
	var text, by string
	write := false
	cmd := a.onJob("log", "show the log of a job, or write a line to it", func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
		if write {
			return writeLog(ctx, a, c, j.ID, joblog.Line{Text: text, By: cmp.Or(by, a.User())})
		}
		return showLog(ctx, a, c, j.ID)
	})
	cmd.Use, cmd.Long = cmd.Use+" [TEXT]", logHelp
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.Flags().StringVar(&by, "by", "", "user name for a line that is written (default $USER)")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if write = len(args) == 2; write {
			text = args[1]
			return joblog.Line{Text: text}.Validate()
		}
		if by != "" {
			return sojourn.Invalid("by", "there is no line to write; give its text as the second argument, or leave --by out")
		}
		return nil
	}
	return cmd
}

func writeLog(ctx context.Context, a *app, c *sojourn.Client, id sojourn.ID, l joblog.Line) error {
	line, err := joblog.Of(c).Write(ctx, id, l)
	if err != nil {
		return err
	}
	return a.Result(line, "written to the log of job %d by %s\n", id, terminal.Clean(line.By))
}

func showLog(ctx context.Context, a *app, c *sojourn.Client, id sojourn.ID) error {
	lines, err := c.Jobs().Log(ctx, id)
	if err != nil || a.AsJSON() {
		return cli.OrElse(err, func() error { return cli.JSONLines(a.App, lines) })
	}
	for _, l := range lines {
		if l.Dropped > 0 {
			if err := a.Printf("... %s dropped ...\n", terminal.Plural(int(l.Dropped), "line")); err != nil {
				return err
			}
		}
		if err := a.Printf("%s %-5s attempt %d%s  %s\n", l.At.Format(time.RFC3339), l.Level, l.Attempt, terminal.Clean(author(l)), terminal.Clean(l.Text)); err != nil {
			return err
		}
	}
	return nil
}

// author returns " by NAME" for a line of an operator, and "" for one of the handler.
func author(l sojourn.LogLine) string {
	if l.By == "" {
		return ""
	}
	return fmt.Sprintf(" by %s", l.By)
}
