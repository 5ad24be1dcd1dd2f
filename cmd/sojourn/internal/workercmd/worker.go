// Package workercmd has the command "worker", which lists, shows and drains workers.
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
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "worker".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

func (a *app) command() *cobra.Command {
	return cli.Group("worker", "list, show and drain workers", a.lsCommand(), a.getCommand(), a.drainCommand())
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
	workers, err := c.Store().Workers(cmd.Context(), after, limit)
	if err != nil {
		return err
	}
	if err := a.printWorkers(cmd.Context(), c, workers); err != nil || len(workers) < limit {
		return err
	}
	last := workers[len(workers)-1].Worker
	if rest, err := c.Store().Workers(cmd.Context(), last, 1); err != nil || len(rest) == 0 {
		return err
	}
	a.NextPage(cmd, nil, "after", last)
	return nil
}

func (a *app) printWorkers(ctx context.Context, c *sojourn.Client, workers []sojourn.WorkerStatus) error {
	if a.AsJSON() {
		return cli.JSONLines(a.App, workers)
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return err
	}
	t := terminal.NewTable(a.Out, "WORKER", "NAME", "STATE", "RUNNING", "STALLED", "SEEN", "QUEUES", "KINDS")
	for _, w := range workers {
		t.Row(w.Worker, terminal.Short(w.Name, 32), State(w), strconv.FormatInt(w.Running, 10), strconv.FormatInt(w.Stalled, 10), terminal.Ago(w.SeenAt, status.Now),
			terminal.Short(strings.Join(w.Queues, ", "), 40), terminal.Short(strings.Join(w.Kinds, ", "), 60))
	}
	return t.Flush()
}

// State returns the state of a worker, or "" if it is unknown. A worker that neither runs a
// job nor waits in the answering process is idle, gone, or polls another process.
func State(w sojourn.WorkerStatus) string {
	switch {
	case w.Drained && w.Running > 0:
		return "draining"
	case w.Drained:
		return "drained"
	case w.Running > 0:
		return "running"
	case w.Waiting:
		return "waiting"
	}
	return ""
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
			workers, err := workersNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := a.printWorkers(cmd.Context(), c, workers); err != nil || a.AsJSON() {
				return err
			}
			var ids []sojourn.ID
			for _, w := range workers {
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
			workers, err := workersNamed(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return a.Result(map[string]any{"dry_run": true, "matched": len(workers)}, "%s would be drained\n", terminal.Plural(len(workers), "worker"))
			}
			if len(workers) > 1 && !yes {
				return cli.Unconfirmed("drain", terminal.Plural(len(workers), "worker"))
			}
			var jobs int64
			for _, w := range workers {
				if err := c.Workers().Drain(cmd.Context(), w.Worker); err != nil {
					return err
				}
				jobs += w.Running
			}
			return a.Result(map[string]any{"drained": len(workers), "running": jobs}, "%s drained, running %s\n", terminal.Plural(len(workers), "worker"), terminal.Plural(int(jobs), "job"))
		})
	}
	return cmd
}
