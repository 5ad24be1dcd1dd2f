// Package queuecmd has the command "queue", which lists, shows and configures queues.
package queuecmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "queue".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

func (a *app) command() *cobra.Command {
	return cli.Group("queue", "list, show and configure queues",
		a.lsCommand(), a.getCommand(), a.peekCommand(), a.pauseCommand("pause", "hand out no jobs; running jobs, responses and timeouts continue", true),
		a.pauseCommand("resume", "hand out jobs again", false), a.setCommand(), a.holdCommand(), a.unholdCommand(), a.forgetCommand())
}

func (a *app) lsCommand() *cobra.Command {
	limit, after := 100, ""
	cmd := &cobra.Command{Use: "ls [QUEUE...]", Short: "list queues with their job counts by state"}
	cmd.Flags().IntVar(&limit, "limit", limit, "queues per page, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "continue after this `queue`, the last one of the previous page; queues are listed in the order in which they were first seen")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > sojourn.MaxFind {
			return sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, sojourn.MaxFind)
		}
		return a.With(func(c *sojourn.Client) error {
			page, more, err := queuePage(cmd.Context(), c.Store(), args, after, limit)
			if err != nil {
				return err
			}
			if a.AsJSON() {
				err = cli.JSONLines(a.App, page)
			} else {
				err = a.printQueues(page)
			}
			if err == nil && more {
				a.NextPage(cmd, args, "after", page[len(page)-1].Name)
			}
			return err
		})
	}
	return a.Watchable(cmd)
}

// queuePage lists the queues of one page, and whether there are more. Queues that are named are
// read at once.
func queuePage(ctx context.Context, st sojourn.Store, names []string, after string, limit int) (page []sojourn.QueueStatus, more bool, err error) {
	if len(names) == 0 {
		p, err := st.ListQueues(ctx, after, limit)
		return p.Items, p.Next != "", err
	}
	all, err := st.Queues(ctx, names...)
	if err != nil {
		return nil, false, err
	}
	if after != "" {
		i := slices.IndexFunc(all, func(q sojourn.QueueStatus) bool { return q.Name == after })
		if i < 0 {
			return nil, false, sojourn.NotFound("there is no queue %.64q to continue after; \"sojourn queue ls\" lists the queues", after)
		}
		all = all[i+1:]
	}
	return all[:min(limit, len(all))], len(all) > limit, nil
}

func (a *app) printQueues(queues []sojourn.QueueStatus) error {
	t := terminal.NewTable(a.Out, "QUEUE", "PAUSED", "IN FLIGHT", "SCHEDULED", "READY", "RUNNING", "AWAITING", "ERRORED", "COMPLETED", "FAILED", "CANCELLED", "STALLED", "NO WORKER FOR")
	for _, q := range queues {
		paused := "no"
		if q.Settings.Paused {
			paused = "yes"
		}
		row := []string{q.Name, paused, InFlight(q)}
		for _, s := range []sojourn.State{sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored,
			sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			row = append(row, fmt.Sprint(q.Counts[s]))
		}
		var unhandled []string
		for _, kind := range slices.Sorted(maps.Keys(q.Unhandled)) {
			unhandled = append(unhandled, fmt.Sprintf("%s (%d)", kind, q.Unhandled[kind]))
		}
		t.Row(append(row, fmt.Sprint(q.Stalled), strings.Join(unhandled, ", "))...)
	}
	return t.Flush()
}

func (a *app) peekCommand() *cobra.Command {
	limit := 25
	cmd := &cobra.Command{Use: "peek QUEUE", Short: "list the jobs that will be claimed next, in order, without claiming them, then the next ticks of schedules", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&limit, "limit", limit, "number of jobs, 1 to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			jobs, err := c.Store().Find(cmd.Context(), sojourn.Filter{Queue: args[0], Next: true, Limit: limit})
			if err != nil || a.AsJSON() {
				return cli.OrElse(err, func() error { return cli.JSONLines(a.App, jobs) })
			}
			t := terminal.NewTable(a.Out, "ID", "KIND", "KEY", "PRIORITY", "WEIGHT", "RUN AT", "RESUMED", "SCHEDULE")
			for _, j := range jobs {
				id := fmt.Sprint(j.ID)
				if j.Virtual { // a tick that is to come: no job is stored yet
					id = "(virtual)"
				}
				t.Row(id, j.Kind, j.Key, fmt.Sprint(j.Priority), fmt.Sprint(j.Weight), j.RunAt.Format(time.RFC3339), fmt.Sprint(j.Resumed), j.Schedule)
			}
			return t.Flush()
		})
	}
	return cmd
}

// Settings gets those of a queue that exists.
func Settings(ctx context.Context, c *sojourn.Client, name string) (sojourn.QueueSettings, error) {
	q, err := queueNamed(ctx, c, name)
	return q.Settings, err
}

func (a *app) pauseCommand(use, short string, paused bool) *cobra.Command {
	cmd := &cobra.Command{Use: use + " QUEUE...", Short: short, Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			for _, name := range args {
				change := c.Queues().Resume
				if paused {
					change = c.Queues().Pause
				}
				if err := change(cmd.Context(), name); err != nil {
					return err
				}
				if err := a.showSettings(cmd.Context(), c, name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

// showSettings shows the settings of a queue after a change.
func (a *app) showSettings(ctx context.Context, c *sojourn.Client, name string) error {
	s, err := Settings(ctx, c, name)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(struct {
			Name     string                `json:"name"`
			Settings sojourn.QueueSettings `json:"settings"`
		}{name, s})
	}
	state := "handing out jobs"
	if s.Paused {
		state = "paused"
	}
	return a.Printf("queue %s is %s\n", name, state)
}

// apply copies the given flags into s.
func (f queueFlags) apply(given func(string) bool, s *sojourn.QueueSettings) {
	parse.Set(given("paused"), &s.Paused, f.paused)
	parse.SetPointer(given("priority"), &s.Defaults.Priority, f.priority)
	parse.SetPointer(given("weight"), &s.Defaults.Weight, f.weight)
	p := &s.Defaults
	parse.Set(given("max-attempts"), &p.MaxAttempts, f.policy.MaxAttempts)
	parse.Set(given("max-crashes"), &p.MaxCrashes, f.policy.MaxCrashes)
	parse.Set(given("run-timeout"), &p.RunTimeout, f.policy.RunTimeout)
	parse.Set(given("timeout"), &p.Timeout, f.policy.Timeout)
	parse.Set(given("deadline"), &p.Deadline, f.policy.Deadline)
	parse.Set(given("keep-key"), &p.KeepKey, f.policy.KeepKey)
	parse.Set(given("retention-age"), &s.Retention.Age, f.retentionAge)
	parse.Set(given("retention-count"), &s.Retention.Count, f.retentionCount)
	parse.Set(given("failed-age"), &s.Retention.FailedAge, f.failedAge)
	parse.Set(given("failed-count"), &s.Retention.FailedCount, f.failedCount)
}
