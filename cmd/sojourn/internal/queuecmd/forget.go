package queuecmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

const forgetHelp = `Without --force a queue with jobs or schedules is refused. With --force and --yes the schedules into it are deleted, its jobs cancelled and purged, and the
queue removed, in slices of 500 jobs; an interrupted command can be repeated. Jobs younger than 15 minutes are cancelled and stay until then,
because their enqueue may still be repeated: repeat the command at the time that it prints. Stop producers first: a new job creates the queue again.

  sojourn queue forget old-imports --force --dry-run
  sojourn queue forget old-imports --force --yes --why "moved to imports"`

func (a *app) forgetCommand() *cobra.Command {
	var o sojourn.ForgetOptions
	yes := false
	cmd := &cobra.Command{Use: "forget QUEUE...", Short: "remove queues, with --force also their jobs and schedules", Long: forgetHelp, Args: cobra.MinimumNArgs(1)}
	cmd.Flags().BoolVar(&o.Force, "force", false, "cancel and purge the jobs, and delete the schedules into the queue")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "with --force: only count")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --force: confirm it; without it, the command is refused and the error has the count")
	cmd.Flags().StringVar(&o.Dependents, "dependents", "", "what becomes of jobs of other queues that would wait for ever: `cancel` or release; default: refuse")
	cmd.Flags().StringVar(&o.By, "by", "", "user name for the history (default $USER)")
	cmd.Flags().StringVar(&o.Reason, "why", "", "reason for the history (default \"queue forgotten\")")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.By == "" {
			o.By = a.User()
		}
		return a.With(func(c *sojourn.Client) error {
			for _, name := range args {
				if err := a.forget(cmd.Context(), c, name, o, yes); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) forget(ctx context.Context, c *sojourn.Client, name string, o sojourn.ForgetOptions, yes bool) error {
	if o.Force && !yes && !o.DryRun {
		o.DryRun = true
		f, err := c.Queues().Forget(ctx, name, o)
		if err == nil && f.Purged+f.Schedules > 0 {
			err = sojourn.Invalid("yes", "this would %s of queue %s; repeat with --yes", count(f), name)
		}
		if err != nil {
			return err
		}
		o.DryRun = false // it is empty
	}
	f, err := c.Queues().Forget(ctx, name, o)
	if a.AsJSON() && (err == nil || f.Purged+f.Cancelled+f.Schedules > 0) {
		if e := a.JSON(f); err == nil {
			err = e
		}
		return err
	}
	switch {
	case err != nil && f.Purged+f.Cancelled+f.Schedules > 0:
		return fmt.Errorf("after it had cancelled %d jobs, deleted %d and %d schedules (repeat the command for the rest): %w", f.Cancelled, f.Purged, f.Schedules, err)
	case err != nil:
		return err
	case o.DryRun:
		return a.Printf("would %s of queue %s\n", count(f), name)
	case !f.Gone:
		return a.Printf("queue %s: cancelled %d jobs, deleted %d and %d schedules; %d jobs are too young to be deleted: repeat the command after %s\n",
			name, f.Cancelled, f.Purged, f.Schedules, f.Young, f.YoungUntil.Local().Format(time.RFC3339))
	}
	return a.Printf("queue %s is forgotten\n", name)
}

// count says what a forced call would do.
func count(f sojourn.Forgotten) string {
	text := fmt.Sprintf("cancel %d live jobs, delete %d jobs and %d schedules", f.Cancelled, f.Purged, f.Schedules)
	if f.Young > 0 {
		text += fmt.Sprintf(" (%d of them only after %s)", f.Young, f.YoungUntil.Local().Format(time.RFC3339))
	}
	return text
}
