// Package schedulecmd has the command "schedule", which sets, lists and operates schedules.
package schedulecmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/schedule"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "schedule".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("schedule", "make jobs again and again",
		s.setCommand("set", "store a schedule, and show its next ticks", false), s.setCommand("test", "show the next ticks of a schedule without storing it", true),
		s.lsCommand(), s.getCommand(),
		s.changeCommand("pause", "stop the ticks of a schedule", schedule.ActionPause, "is paused"),
		s.changeCommand("resume", "end a pause; --catch-up of the schedule decides about the ticks that came meanwhile", schedule.ActionResume, "is resumed"),
		s.changeCommand("run", "make one job of a schedule now", schedule.ActionRun, "has made job "),
		s.changeCommand("rm", "remove a schedule; jobs that it has made go on", schedule.ActionDelete, "is removed"))
}

// setFlags are the settings of a schedule.
type setFlags struct {
	cron, zone, start, end, catchUp, overlap string
	every, offset, jitter                    time.Duration
	args, key, queue                         string
	priority                                 int32
	tags                                     []string
}

func (a *app) setCommand(use, short string, test bool) *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{Use: use + " NAME KIND", Short: short, Args: cobra.ExactArgs(2)}
	fl := cmd.Flags()
	fl.StringVar(&f.cron, "cron", "", "cron `EXPRESSION` of 5 or 6 fields, or a macro such as @daily")
	fl.StringVar(&f.zone, "zone", "", "time `ZONE` of the expression, such as Europe/Berlin (default UTC)")
	fl.DurationVar(&f.every, "every", 0, "interval instead of a cron expression, in whole seconds")
	fl.DurationVar(&f.offset, "offset", 0, "moves the ticks of --every")
	fl.DurationVar(&f.jitter, "jitter", 0, "delay each job by up to this, at most 24h")
	fl.StringVar(&f.start, "start", "", "no tick before this `time`, such as 2026-01-31T18:00:00Z")
	fl.StringVar(&f.end, "end", "", "no tick after this `time`")
	fl.StringVar(&f.catchUp, "catch-up", "latest", "missed ticks that become jobs: latest, none or a `number`")
	fl.StringVar(&f.overlap, "overlap", "allow", "while an earlier job lives: allow, skip, queue or cancel_previous")
	fl.StringVar(&f.args, "args", "{}", "the input of the jobs: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&f.key, "key", "", "key of the jobs: a tick that meets a live one is skipped")
	fl.StringVar(&f.queue, "queue", sojourn.DefaultQueue, "queue of the jobs")
	fl.Int32Var(&f.priority, "priority", sojourn.DefaultPriority, "priority of the jobs")
	fl.StringArrayVar(&f.tags, "tag", nil, "label of the jobs; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := a.definition(cmd, args[0], args[1], f)
		if err != nil {
			return err
		}
		run := func(c *sojourn.Client) error {
			set := schedule.Of(c).Set
			if test {
				set = schedule.Of(c).Test
			}
			out, err := set(cmd.Context(), d)
			return cli.OrElse(err, func() error { return a.print(out) })
		}
		if test {
			return a.With(run)
		}
		return a.Creating(run)
	}
	return cmd
}

// definition builds a schedule from flags.
func (a *app) definition(cmd *cobra.Command, name, kind string, f setFlags) (d schedule.Schedule, err error) {
	input, err := a.BytesFrom("args", f.args)
	if err != nil {
		return d, err
	}
	d = schedule.Schedule{Name: name, Cron: f.cron, Zone: f.zone, Every: f.every, Offset: f.offset, Jitter: f.jitter, Overlap: schedule.Overlap(f.overlap),
		Job: sojourn.NewJob(kind, input, sojourn.Key(f.key), sojourn.Queue(f.queue), sojourn.Tags(f.tags...))}
	if cmd.Flags().Changed("priority") { // else the queue's default counts
		sojourn.Priority(f.priority)(d.Job)
	}
	switch f.catchUp {
	case "latest":
	case "none":
		d.CatchUp = schedule.NoCatchUp
	default:
		if d.CatchUp, err = strconv.Atoi(f.catchUp); err != nil || d.CatchUp < 1 {
			return d, sojourn.Invalid("catch-up", "%.64q is none of latest, none and a number from 1 to %d", f.catchUp, schedule.MaxCatchUp)
		}
	}
	for flag, to := range map[string]*time.Time{"start": &d.Start, "end": &d.End} {
		text, _ := cmd.Flags().GetString(flag)
		if text == "" {
			continue
		}
		if *to, err = parse.Time(flag, text); err != nil {
			return d, err
		}
	}
	return d, d.Validate(sojourn.MaxMaxBytes)
}

// print shows one schedule.
func (a *app) print(d schedule.Schedule) error {
	if a.AsJSON() {
		return a.JSON(d)
	}
	lines := []string{fmt.Sprintf("%s: %s", d.Name, d.Text)}
	switch {
	case d.Paused:
		lines = append(lines, "paused")
	case d.Problem != "":
		lines = append(lines, "makes no jobs: "+d.Problem)
	}
	for _, t := range d.Next {
		lines = append(lines, "  "+t.UTC().Format(time.RFC3339))
	}
	return a.Printf("%s\n", strings.Join(lines, "\n"))
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get NAME", Short: "show a schedule with its next ticks", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			d, err := schedule.Of(c).Get(cmd.Context(), args[0])
			return cli.OrElse(err, func() error { return a.print(d) })
		})
	}
	return cmd
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [PREFIX]", Short: "list schedules in the order of their names", Args: cobra.MaximumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			var all []schedule.Schedule
			for d, err := range schedule.Of(c).All(cmd.Context(), strings.Join(args, "")) {
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "SCHEDULE", "QUEUE", "KIND", "WHEN", "NEXT", "RUNS", "SKIPPED", "STATE")
			for _, d := range all {
				next, state := "", "active"
				if len(d.Next) > 0 {
					next = d.Next[0].UTC().Format(time.RFC3339)
				}
				if d.Problem != "" {
					state = "stopped"
				}
				if d.Paused {
					state = "paused"
				}
				t.Row(d.Name, d.Job.Queue, d.Job.Kind, d.Text, next, fmt.Sprint(d.Runs), fmt.Sprint(d.Skipped), state)
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

func (a *app) changeCommand(use, short string, action schedule.Action, done string) *cobra.Command {
	cmd := &cobra.Command{Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			d, err := schedule.StoreOf(c.Store()).ChangeSchedule(cmd.Context(), args[0], action)
			if err != nil {
				return err
			}
			if a.AsJSON() {
				return a.JSON(d)
			}
			text := done
			if action == schedule.ActionRun {
				text += d.LastJob.String()
			}
			return a.Printf("schedule %s %s\n", args[0], text)
		})
	}
	return cmd
}
