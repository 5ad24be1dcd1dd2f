package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

func (a *app) inboxCommand() *cobra.Command {
	return group("inbox", "list received responses, and match, retry or discard them", a.inboxLsCommand(), a.inboxGetCommand(), a.inboxCountCommand(),
		a.inboxMatchCommand(), a.inboxEachCommand(sojourn.InboxRetry, "deliver responses again to their original address"),
		a.inboxEachCommand(sojourn.InboxDiscard, "discard responses: no job gets them any more"))
}

var responseOutcomes = []sojourn.ResponseOutcome{sojourn.Applied, sojourn.Early, sojourn.Late, sojourn.Stale, sojourn.Unmatched, sojourn.Parked,
	sojourn.Discarded, sojourn.Conflicting}

func (a *app) inboxLsCommand() *cobra.Command {
	var f sojourn.InboxFilter
	var outcomes []string
	var job int64
	cmd := &cobra.Command{Use: "ls", Short: "list responses, newest first", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringSliceVar(&outcomes, "outcome", nil, "`outcomes`: applied, early, late, stale, unmatched, parked, discarded, conflict; duplicates are counted on the first response")
	fl.StringVar(&f.Kind, "kind", "", "kind")
	fl.StringVar(&f.Key, "key", "", "key")
	fl.Int64Var(&job, "job", 0, "`id` of the job")
	fl.StringVar(&f.Source, "source", "", "source")
	fl.IntVar(&f.Limit, "limit", 100, "responses per page, 1 to 1000")
	fl.Int64Var(&f.Before, "before", 0, "continue after this `seq`, the last one of the previous page")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.Outcomes = nil // with --watch it runs again
		for _, o := range outcomes {
			if !slices.Contains(responseOutcomes, sojourn.ResponseOutcome(o)) {
				return sojourn.Invalid("outcome", "%.64q is not an outcome; use applied, early, late, stale, unmatched, parked, discarded or conflict", o)
			}
			f.Outcomes = append(f.Outcomes, sojourn.ResponseOutcome(o))
		}
		if f.Limit < 1 || f.Limit > sojourn.MaxFind {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", f.Limit, sojourn.MaxFind)
		}
		f.Job = sojourn.ID(job)
		return a.with(func(c *sojourn.Client) error { return a.inboxLs(cmd, c, f) })
	}
	return a.watchable(cmd)
}

func (a *app) inboxLs(cmd *cobra.Command, c *sojourn.Client, f sojourn.InboxFilter) error {
	ctx := cmd.Context()
	responses, err := c.Inbox(ctx, f)
	if err != nil {
		return err
	}
	if a.asJSON() {
		err = jsonLines(a, responses)
	} else {
		err = a.printInbox(cmd, c, responses)
	}
	if err != nil || len(responses) < f.Limit {
		return err
	}
	last := responses[len(responses)-1].Seq
	f.Before, f.Limit = last, 1
	if rest, err := c.Inbox(ctx, f); err != nil || len(rest) == 0 {
		return err
	}
	a.nextPage(cmd, nil, "before", fmt.Sprint(last))
	return nil
}

func (a *app) printInbox(cmd *cobra.Command, c *sojourn.Client, responses []sojourn.Response) error {
	status, err := c.Store().Status(cmd.Context())
	if err != nil {
		return err
	}
	t := newTable(a.out, "SEQ", "RECEIVED", "OUTCOME", "KIND", "KEY", "JOB", "SOURCE", "MESSAGE", "DUPLICATES", "BODY")
	for _, r := range responses {
		job := ""
		if r.Job > 0 {
			job = id(r.Job)
		}
		body := string(r.Body)
		if r.Failed || r.Outcome == sojourn.Parked {
			body = "error: " + r.Reason + " " + r.Error
		}
		t.row(fmt.Sprint(r.Seq), ago(r.ReceivedAt, status.Now), string(r.Outcome), short(r.Kind, 32), short(r.Key, 32), job,
			short(r.Source, 24), short(r.MessageID, 32), fmt.Sprint(r.Duplicates), short(body, 40))
	}
	return t.flush()
}
