// Package workercmd has the command "worker", which lists, shows, drains and removes workers.
package workercmd

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/jobcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/workers"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "worker".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

func (a *app) command() *cobra.Command {
	return cli.Group("worker", "list, show, drain and remove workers", a.lsCommand(), a.getCommand(), a.drainCommand(), a.forgetCommand())
}

func (a *app) lsCommand() *cobra.Command {
	var (
		after string
		limit int
	)
	cmd := &cobra.Command{Use: "ls", Short: "list workers in the order of their ids", Args: cobra.NoArgs}
	cmd.Flags().IntVar(&limit, "limit", 100, "workers per page, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "continue after this `id`, the last one of the previous page")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 || limit > sojourn.MaxFind {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, sojourn.MaxFind)
		}
		return a.With(func(c *sojourn.Client) error { return a.ls(cmd, c, after, limit) })
	}
	return a.Watchable(cmd)
}

func (a *app) ls(cmd *cobra.Command, c *sojourn.Client, after string, limit int) error {
	found, err := c.Store().Workers(cmd.Context(), after, limit)
	if err != nil {
		return err
	}
	if err := a.printWorkers(cmd.Context(), c, found); err != nil || len(found) < limit {
		return err
	}
	last := found[len(found)-1].Worker
	if rest, err := c.Store().Workers(cmd.Context(), last, 1); err != nil || len(rest) == 0 {
		return err
	}
	a.NextPage(cmd, nil, "after", last)
	return nil
}

// listed is a worker as the JSON shows it.
type listed struct {
	sojourn.WorkerStatus
	State workers.State `json:"state"`
}

func (a *app) printWorkers(ctx context.Context, c *sojourn.Client, found []sojourn.WorkerStatus) error {
	status, err := c.Store().Status(ctx)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		all := make([]listed, len(found))
		for i, w := range found {
			all[i] = listed{w, workers.StateOf(w, status.Now)}
		}
		return cli.JSONLines(a.App, all)
	}
	t := terminal.NewTable(a.Out, "WORKER", "NAME", "STATE", "RUNNING", "STALLED", "SEEN", "QUEUES", "KINDS")
	for _, w := range found {
		t.Row(w.Worker, terminal.Short(w.Name, 32), string(workers.StateOf(w, status.Now)), strconv.FormatInt(w.Running, 10), strconv.FormatInt(w.Stalled, 10), terminal.Ago(w.SeenAt, status.Now),
			terminal.Short(strings.Join(w.Queues, ", "), 40), terminal.Short(strings.Join(w.Kinds, ", "), 60))
	}
	return t.Flush()
}

// workersNamed are the workers that an argument names: the one with this id, or all with this name.
func workersNamed(ctx context.Context, c *sojourn.Client, arg string) ([]sojourn.WorkerStatus, error) {
	if sojourn.ValidName("worker", arg) == nil {
		found, err := c.Store().Workers(ctx, "", 0, arg)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	var ids []string
	for after := ""; ; {
		page, err := c.Store().Workers(ctx, after, sojourn.MaxFind)
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			if w.Name == arg {
				ids = append(ids, w.Worker)
			}
		}
		if len(page) < sojourn.MaxFind {
			break
		}
		after = page[len(page)-1].Worker
	}
	if len(ids) == 0 {
		return nil, sojourn.NotFound("no worker has the id or the name %.64q; \"sojourn worker ls\" lists them", arg)
	}
	return c.Store().Workers(ctx, "", min(len(ids), sojourn.MaxFind), ids...)
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get WORKER", Short: "show a worker and its running jobs, by id or name", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			found, err := workersNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := a.printWorkers(cmd.Context(), c, found); err != nil || a.AsJSON() {
				return err
			}
			var ids []sojourn.ID
			for _, w := range found {
				ids = append(ids, w.Jobs...)
			}
			if len(ids) == 0 {
				return nil
			}
			jobs, err := c.Store().Find(cmd.Context(), sojourn.Filter{IDs: ids[:min(len(ids), sojourn.MaxFind)], Limit: sojourn.MaxFind})
			if err != nil {
				return err
			}
			return cli.OrElse(a.Printf("\n"), func() error { return jobcmd.Print(cmd.Context(), a.App, c, jobs) })
		})
	}
	return cmd
}

const workerDrainHelp = `Stops giving jobs to the worker with this id, or to all workers with this name. Running jobs finish. A worker of "sojourn work" or of the libraries for Go, Python and
TypeScript then ends without an error; others get the error worker_drained. A drain cannot be undone: restart the worker, which gives it a new id.`

func (a *app) drainCommand() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{Use: "drain WORKER", Short: "stop giving jobs to a worker", Long: workerDrainHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm for more than one worker")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count the workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			found, err := workersNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return a.Result(map[string]any{"dry_run": true, "matched": len(found)}, "%s would be drained\n", terminal.Plural(len(found), "worker"))
			}
			if len(found) > 1 && !yes {
				return cli.Unconfirmed("drain", terminal.Plural(len(found), "worker"))
			}
			var jobs int64
			for _, w := range found {
				if err := c.Workers().Drain(cmd.Context(), w.Worker); err != nil {
					return err
				}
				jobs += w.Running
			}
			return a.Result(map[string]any{"drained": len(found), "running": jobs}, "%s drained, running %s\n", terminal.Plural(len(found), "worker"), terminal.Plural(int(jobs), "job"))
		})
	}
	return cmd
}

const workerForgetHelp = `Removes the worker with this id, or all workers with this name, from the list, and ends its leases: its jobs go on as after the death
of a worker. A worker with a lease that has not expired, or that waits for jobs, may live; it is refused without --force. With
--force it is told so with its next extend, and its reports are refused. A worker that lives and claims again is listed again,
without the drain that it had: end its process first.`

func (a *app) forgetCommand() *cobra.Command {
	var yes, dryRun bool
	var o workers.Forget
	cmd := &cobra.Command{Use: "forget WORKER", Short: "remove a worker and end its leases", Long: workerForgetHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&o.Force, "force", false, "also a worker that may live")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm for more than one worker")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count the workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			found, err := workersNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return a.Result(map[string]any{"dry_run": true, "matched": len(found)}, "%s would be removed\n", terminal.Plural(len(found), "worker"))
			}
			if len(found) > 1 && !yes {
				return cli.Unconfirmed("remove", terminal.Plural(len(found), "worker"))
			}
			jobs := 0
			for _, w := range found {
				f, err := workers.Of(c).Forget(cmd.Context(), w.Worker, o)
				if err != nil {
					return err
				}
				jobs += f.Jobs
			}
			return a.Result(map[string]any{"removed": len(found), "jobs": jobs}, "%s removed, leases of %s ended\n", terminal.Plural(len(found), "worker"), terminal.Plural(jobs, "job"))
		})
	}
	return cmd
}
