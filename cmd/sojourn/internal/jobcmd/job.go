// Package jobcmd has the commands about jobs: "job", "enqueue", "tail" and "why".
package jobcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/filter"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "job".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// EnqueueCommand makes the command "enqueue".
func EnqueueCommand(a *cli.App) *cobra.Command { return (&app{a}).enqueueCommand() }

// TailCommand makes the command "tail".
func TailCommand(a *cli.App) *cobra.Command { return (&app{a}).tailCommand() }

// WhyCommand makes the command "why".
func WhyCommand(a *cli.App) *cobra.Command { return (&app{a}).whyCommand() }

// Print lists jobs, as a table or as JSON.
func Print(ctx context.Context, a *cli.App, c *sojourn.Client, jobs []sojourn.Job) error {
	return (&app{a}).printJobs(ctx, c, jobs)
}

func (a *app) command() *cobra.Command {
	return cli.Group("job", "list, show and change jobs",
		a.lsCommand(), a.getCommand(), a.historyCommand(), a.logCommand(), a.cancelCommand(), a.redriveCommand(), releaseCommand(a),
		a.cloneCommand(), a.purgeCommand(), a.editCommand(), a.dependsCommand())
}

// filterFlags choose jobs.
type filterFlags struct {
	kind, key, queue, group, tag, reason string
	failure, endedAfter, endedBefore     string
	where                                string
	states                               []string
}

func (f *filterFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.states, "state", nil, "`states`: blocked, scheduled, ready, running, awaiting, errored, completed, failed, cancelled; live and final select all live or all final states")
	fl.StringVar(&f.kind, "kind", "", "only jobs of this kind")
	fl.StringVar(&f.key, "key", "", "only jobs with this key: of each kind (or of --kind) the live one, else the newest final one")
	fl.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	fl.StringVar(&f.group, "group", "", "only jobs of this group")
	fl.StringVar(&f.tag, "tag", "", "only jobs with this tag")
	fl.StringVar(&f.reason, "reason", "", "only final jobs with this reason")
	fl.StringVar(&f.failure, "failure", "", "only jobs of this failure group: its failed jobs, and live jobs whose last step failed with this cause")
	fl.StringVar(&f.endedAfter, "ended-after", "", "only final jobs that ended after this `time`, such as 2026-01-31T18:00:00Z")
	fl.StringVar(&f.endedBefore, "ended-before", "", "only final jobs that ended before this `time`")
	fl.StringVar(&f.where, "where", "", "more conditions as one `text`, such as 'kind:charge state:awaiting age:>10m'; the fields are "+strings.Join(filter.Fields, ", ")+", and indexed paths such as args.customer")
}

// filterNames are the flags that filterFlags binds.
var filterNames = []string{"state", "kind", "key", "queue", "group", "tag", "reason", "failure", "ended-after", "ended-before", "where"}

func (f filterFlags) filter() (sojourn.Filter, error) {
	states, err := parse.States(f.states)
	if err != nil {
		return sojourn.Filter{}, err
	}
	out := sojourn.Filter{Kind: f.kind, Key: f.key, Queue: f.queue, Group: f.group, Tag: f.tag, Reason: f.reason, Failure: f.failure, States: states}
	for _, end := range []struct {
		name, text string
		to         *time.Time
	}{{"ended-after", f.endedAfter, &out.EndedAfter}, {"ended-before", f.endedBefore, &out.EndedBefore}} {
		if end.text == "" {
			continue
		}
		if *end.to, err = parse.Time(end.name, end.text); err != nil {
			return sojourn.Filter{}, err
		}
	}
	if f.where != "" {
		read, err := filter.Parse(f.where, time.Now())
		if err != nil {
			return sojourn.Filter{}, err
		}
		if out, err = filter.Join(out, read); err != nil {
			return sojourn.Filter{}, err
		}
	}
	return out, out.Validate()
}

func (a *app) lsCommand() *cobra.Command {
	var f filterFlags
	var limit int
	var after string
	var newest, full bool
	cmd := &cobra.Command{Use: "ls", Short: "list jobs in the order of their ids", Args: cobra.NoArgs}
	f.bind(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "jobs per page, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "continue after this `id`, the last one of the previous page")
	cmd.Flags().BoolVar(&newest, "newest", false, "newest first")
	cmd.Flags().BoolVar(&full, "full", false, "with -o json: include args, result, checkpoint and responses")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chosen, err := f.filter()
		if err != nil {
			return err
		}
		if limit < 1 || limit > sojourn.MaxFind {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, sojourn.MaxFind)
		}
		if cmd.Flags().Changed("where") && f.where == "" {
			return sojourn.Invalid("where", "the filter is empty; leave --where out to list every job")
		}
		chosen.Limit, chosen.After, chosen.Newest, chosen.Full = limit, after, newest, full && a.AsJSON()
		return a.With(func(c *sojourn.Client) error { return a.ls(cmd, c, chosen) })
	}
	return a.Watchable(cmd)
}

func (a *app) ls(cmd *cobra.Command, c *sojourn.Client, f sojourn.Filter) error {
	ctx := cmd.Context()
	page, err := c.Jobs().List(ctx, f)
	if err != nil {
		return err
	}
	if err := a.printJobs(ctx, c, cli.Values(page.Items)); err != nil {
		return err
	}
	if page.Next != "" && f.Key == "" {
		a.NextPage(cmd, nil, "after", page.Next)
	}
	return nil
}

func (a *app) printJobs(ctx context.Context, c *sojourn.Client, jobs []sojourn.Job) error {
	if a.AsJSON() {
		return cli.JSONLines(a.App, jobs)
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return err
	}
	t := terminal.NewTable(a.Out, "ID", "KIND", "KEY", "QUEUE", "STATE", "ATTEMPT", "CREATED", "NOTE")
	for _, j := range jobs {
		t.Row(idText(j.ID), terminal.Short(j.Kind, 32), terminal.Short(j.Key, 32), terminal.Short(j.Queue, 24), stateText(j), strconv.Itoa(int(j.Attempt)), terminal.Ago(j.CreatedAt, status.Now),
			terminal.Short(jobNote(j, status.Now), 60))
	}
	return t.Flush()
}

// jobNote is what matters most about a job in its state.
func jobNote(j sojourn.Job, now time.Time) string {
	switch {
	case j.State == sojourn.Blocked:
		return "waits for " + terminal.Plural(int(j.WaitsFor), "job")
	case j.State == sojourn.Scheduled:
		return "starts " + terminal.Ago(j.RunAt, now)
	case j.State.Final():
		return j.Reason
	case j.Progress != "":
		return j.Progress
	case j.State == sojourn.Running:
		return j.Worker
	case j.State == sojourn.Awaiting && j.WakeAt.Before(now):
		return "overdue by " + terminal.Human(now.Sub(j.WakeAt))
	case j.State == sojourn.Awaiting:
		return "ends " + terminal.Ago(j.WakeAt, now)
	}
	return ""
}

func idText(n sojourn.ID) string { return strconv.FormatInt(int64(n), 10) }

// find gets the job that an argument names: an id, a key, or KIND/KEY.
func find(ctx context.Context, c *sojourn.Client, kind, arg string) (*sojourn.Job, error) {
	if kind != "" {
		return c.GetByKey(ctx, arg, kind)
	}
	if kind, key, ok := strings.Cut(arg, "/"); ok {
		if kind == "" || key == "" {
			return nil, sojourn.Invalid("job", "%.64q is neither a job id nor a key nor KIND/KEY", arg)
		}
		return c.GetByKey(ctx, key, kind)
	}
	if strings.Trim(arg, "0123456789") != "" {
		return c.GetByKey(ctx, arg)
	}
	n, err := parse.ID(arg)
	if err != nil {
		return nil, sojourn.Invalid("job", "%.64q is neither a job id nor a key nor KIND/KEY", arg)
	}
	return c.Get(ctx, n)
}

// onJob makes a command about one job.
func (a *app) onJob(use, short string, fn func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error) *cobra.Command {
	var kind string
	cmd := &cobra.Command{Use: use + " ID | KEY | KIND/KEY", Short: short, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&kind, "kind", "", "read the argument as a key of this kind; for kinds with a / in their name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			j, err := find(cmd.Context(), c, kind, args[0])
			if err != nil {
				return err
			}
			return fn(cmd.Context(), c, j)
		})
	}
	return cmd
}

func (a *app) historyCommand() *cobra.Command {
	return a.onJob("history", "show the finished steps and changes of a job", func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
		history, err := c.Jobs().History(ctx, j.ID)
		if err != nil || a.AsJSON() {
			return cli.OrElse(err, func() error { return cli.JSONLines(a.App, history) })
		}
		t := terminal.NewTable(a.Out, "SEQ", "GEN", "ATTEMPT", "STEP", "OUTCOME", "STATE", "ENDED", "TOOK", "CHECKPOINT", "BY", "REASON", "ERROR")
		for _, h := range history {
			if h.Dropped > 0 {
				t.Row("...", "", "", "", fmt.Sprintf("%d dropped", h.Dropped))
			}
			took := ""
			if !h.BeganAt.IsZero() {
				took = terminal.Human(h.EndedAt.Sub(h.BeganAt))
			}
			by := h.By
			if by == "" {
				by = h.Worker
			}
			size := ""
			if h.CheckpointBytes > 0 {
				size = fmt.Sprintf("%d B", h.CheckpointBytes)
			}
			t.Row(fmt.Sprint(h.Seq), fmt.Sprint(h.Generation), fmt.Sprint(h.Attempt), h.Purpose.String(), h.Outcome, h.State.String(),
				h.EndedAt.Format(time.RFC3339), took, size, terminal.Short(by, 24), terminal.Short(h.Reason, 32), terminal.Short(h.Error, 80))
		}
		return t.Flush()
	})
}

// stateText names a job's state as people see it.
func stateText(j sojourn.Job) string {
	if j.Resumed {
		return j.State.String() + ", resumed"
	}
	return j.State.String()
}
