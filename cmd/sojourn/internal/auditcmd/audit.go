// Package auditcmd has the command "audit", which shows what operators did through servers.
package auditcmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "audit".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const auditHelp = `Lists the operations that operators ran or tried to run through servers, newest first: changes of jobs, queues, workers and responses, and repairs. Each entry has
the token id, the client address and the result. Commands that open the database directly are not in the audit log; the job history names their user.`

func (a *app) command() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list the operations of operators through servers, newest first", Long: auditHelp, Args: cobra.NoArgs}
	f := access.AuditFilter{}
	var since string
	fl := cmd.Flags()
	fl.StringVar(&f.Who, "who", "", "only operations of the token with this `ID`")
	fl.StringVar(&since, "since", "", "only entries since this `time`, such as 2026-01-31T18:00:00Z, or of the last 90m")
	fl.IntVar(&f.Limit, "limit", 100, "entries per page, 1 to 1000")
	fl.Int64Var(&f.Before, "before", 0, "continue after this `seq`, the last one of the previous page")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", f.Limit, sojourn.MaxFind)
		}
		if err := f.Validate(); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error { return a.ls(cmd, c, f, since) })
	}
	a.Watchable(cmd)
	return cli.Group("audit", "show the operations of operators through servers", cmd)
}

func (a *app) ls(cmd *cobra.Command, c *sojourn.Client, f access.AuditFilter, since string) error {
	r, ok := c.Store().(access.AuditReader)
	if !ok {
		return fmt.Errorf("this store keeps no audit log")
	}
	status, err := c.Store().Status(cmd.Context())
	if err != nil {
		return err
	}
	if f.Since, err = parseSince(since, status.Now); err != nil {
		return err
	}
	entries, err := r.AuditLog(cmd.Context(), f)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		err = cli.JSONLines(a.App, entries)
	} else {
		t := terminal.NewTable(a.Out, "SEQ", "AT", "WHO", "ACTION", "TARGET", "RESULT", "FROM", "REQUEST", "DETAIL")
		for _, e := range entries {
			result := "done"
			if e.Code != "" {
				result = e.Code
			}
			t.Row(fmt.Sprint(e.Seq), e.At.Format(time.RFC3339), e.Who, e.Action, terminal.Short(e.Target, 40), result, e.From, terminal.Short(e.Request, 26), terminal.Short(e.Detail, 80))
		}
		err = t.Flush()
	}
	if err != nil || len(entries) < f.Limit {
		return err
	}
	last := entries[len(entries)-1].Seq
	f.Before, f.Limit = last, 1
	if rest, err := r.AuditLog(cmd.Context(), f); err != nil || len(rest) == 0 {
		return err
	}
	a.NextPage(cmd, nil, "before", fmt.Sprint(last))
	return nil
}

// parseSince reads a time, or how long ago it was.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := parse.Time("since", text)
	if err != nil {
		err = sojourn.Invalid("since", "%.64q is neither a time such as 2026-01-31T18:00:00Z nor a duration such as 90m", text)
	}
	return t, err
}
