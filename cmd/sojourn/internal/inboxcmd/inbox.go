// Package inboxcmd has the commands about responses: "inbox" and "respond".
package inboxcmd

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "inbox".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// RespondCommand makes the command "respond".
func RespondCommand(a *cli.App) *cobra.Command { return (&app{a}).respondCommand() }

func (a *app) command() *cobra.Command {
	return cli.Group("inbox", "list received responses, and match, retry or discard them", a.lsCommand(), a.getCommand(), a.countCommand(),
		a.matchCommand(), a.eachCommand(sojourn.InboxRetry, "deliver responses again to their original address"),
		a.eachCommand(sojourn.InboxDiscard, "discard responses: no job gets them any more"))
}

// Outcomes are the outcomes that a stored response can have.
var Outcomes = []sojourn.ResponseOutcome{sojourn.Applied, sojourn.Early, sojourn.Late, sojourn.Stale, sojourn.Unmatched, sojourn.Parked,
	sojourn.Discarded, sojourn.Conflicting}

func (a *app) lsCommand() *cobra.Command {
	var f sojourn.InboxFilter
	var outcomes []string
	var job int64
	cmd := &cobra.Command{Use: "ls", Short: "list responses, newest first", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringSliceVar(&outcomes, "outcome", nil, "`outcomes`: applied, early, late, stale, unmatched, parked, discarded, conflict; duplicates are counted on the first response")
	fl.StringVar(&f.Kind, "kind", "", "only responses for this kind")
	fl.StringVar(&f.Key, "key", "", "only responses for this key")
	fl.Int64Var(&job, "job", 0, "only responses for the job with this `id`")
	fl.StringVar(&f.Source, "source", "", "only responses from this source")
	fl.IntVar(&f.Limit, "limit", 100, "responses per page, 1 to 1000")
	fl.StringVar(&f.After, "before", "", "continue after this `seq`, the last one of the previous page")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.Outcomes = nil // with --watch it runs again
		for _, o := range outcomes {
			if !slices.Contains(Outcomes, sojourn.ResponseOutcome(o)) {
				return sojourn.Invalid("outcome", "%.64q is not an outcome; use applied, early, late, stale, unmatched, parked, discarded or conflict", o)
			}
			f.Outcomes = append(f.Outcomes, sojourn.ResponseOutcome(o))
		}
		if f.Limit < 1 || f.Limit > sojourn.MaxFind {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", f.Limit, sojourn.MaxFind)
		}
		f.Job = sojourn.ID(job)
		return a.With(func(c *sojourn.Client) error { return a.ls(cmd, c, f) })
	}
	return a.Watchable(cmd)
}

func (a *app) ls(cmd *cobra.Command, c *sojourn.Client, f sojourn.InboxFilter) error {
	ctx := cmd.Context()
	page, err := c.Inbox().List(ctx, f)
	if err != nil {
		return err
	}
	responses := cli.Values(page.Items)
	if a.AsJSON() {
		err = cli.JSONLines(a.App, responses)
	} else {
		err = a.printInbox(cmd, c, responses)
	}
	if err != nil || page.Next == "" {
		return err
	}
	a.NextPage(cmd, nil, "before", page.Next)
	return nil
}

func (a *app) printInbox(cmd *cobra.Command, c *sojourn.Client, responses []sojourn.Response) error {
	status, err := c.Store().Status(cmd.Context())
	if err != nil {
		return err
	}
	t := terminal.NewTable(a.Out, "SEQ", "RECEIVED", "OUTCOME", "KIND", "KEY", "JOB", "SOURCE", "MESSAGE", "DUPLICATES", "BODY")
	for _, r := range responses {
		job := ""
		if r.Job > 0 {
			job = fmt.Sprint(r.Job)
		}
		body := string(r.Body)
		if r.Failed || r.Outcome == sojourn.Parked {
			body = "error: " + r.Reason + " " + r.Error
		}
		t.Row(fmt.Sprint(r.Seq), terminal.Ago(r.ReceivedAt, status.Now), string(r.Outcome), terminal.Short(r.Kind, 32), terminal.Short(r.Key, 32), job,
			terminal.Short(r.Source, 24), terminal.Short(r.MessageID, 32), fmt.Sprint(r.Duplicates), terminal.Short(body, 40))
	}
	return t.Flush()
}
