// Package tagcmd has the command "tag", which lists tags and the jobs of a tag.
package tagcmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/tags"
)

// Command makes the command "tag".
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{Use: "tag", Short: "tags and the jobs that have them", Long: `Lists the tags of jobs, and the jobs of a tag in the order in which they got it.
"sojourn job edit --add-tag" and "--remove-tag" change the tags of a job; "sojourn job ls --tag" lists the jobs of a tag with their states.`}
	cmd.AddCommand(a.Watchable(list(a)), jobs(a))
	return cmd
}

func list(a *cli.App) *cobra.Command {
	var q tags.Query
	cmd := &cobra.Command{Use: "ls", Short: "tags with the number of jobs, the most frequent first", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&q.Queue, "queue", "", "only jobs of this queue")
	fl.StringVar(&q.Kind, "kind", "", "only jobs of this kind")
	fl.IntVar(&q.Min, "min", 1, "only tags that so many jobs have")
	fl.IntVar(&q.Limit, "limit", 100, "tags, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			found, err := tags.Of(c).Counts(cmd.Context(), q)
			switch {
			case err != nil:
				return err
			case a.AsJSON():
				return cli.JSONLines(a, found)
			}
			t := terminal.NewTable(a.Out, "TAG", "JOBS")
			for _, f := range found {
				t.Row(f.Tag, fmt.Sprint(f.Jobs))
			}
			return t.Flush()
		})
	}
	return cmd
}

func jobs(a *cli.App) *cobra.Command {
	var q tags.JobsQuery
	cmd := &cobra.Command{Use: "jobs TAG", Short: "the jobs of a tag, in the order in which they got it", Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.BoolVar(&q.Newest, "newest", false, "the latest tagging first")
	fl.StringVar(&q.After, "after", "", "the cursor that the page before printed")
	fl.IntVar(&q.Limit, "limit", 100, "jobs of a page, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.Tag = args[0]
		return a.With(func(c *sojourn.Client) error {
			page, err := tags.Of(c).Jobs(cmd.Context(), q)
			switch {
			case err != nil:
				return err
			case a.AsJSON():
				return cli.JSONLines(a, page.Items)
			}
			t := terminal.NewTable(a.Out, "JOB", "QUEUE", "KIND", "TAGGED")
			for _, e := range page.Items {
				t.Row(e.Job.String(), e.Queue, e.Kind, e.At.UTC().Format(time.RFC3339))
			}
			if err := t.Flush(); err != nil || page.Next == "" {
				return err
			}
			_, err = fmt.Fprintf(a.Err, "There may be more: --after %s\n", page.Next)
			return err
		})
	}
	return cmd
}
