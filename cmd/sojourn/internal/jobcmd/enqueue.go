package jobcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
)

// enqueueFlags are the options of a job.
type enqueueFlags struct {
	args, contentType, key, queue, group, runAt, onConflict string
	priority, weight, maxAttempts, maxCrashes               int32
	delay, timeout, runTimeout, deadline, keepKey           time.Duration
	tags, meta, windows                                     []string
	stopAtWindowEnd                                         bool
	depends                                                 dependFlags
}

const enqueueHelp = `Stores one job of KIND and returns when it is durable.

With --key, the command can be repeated safely: if a live job of the kind has the key, no job is created, and the
output names the existing job (see --on-conflict).

  sojourn enqueue mail --args '{"to":"ada@example.com"}' --key welcome-ada
  sojourn enqueue resize --args @photo.json --delay 10m
  cat big.json | sojourn enqueue import --args -
  sojourn enqueue close --depends-on 7,8 --on-failure cancel`

func (a *app) enqueueCommand() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{Use: "enqueue KIND", Short: "store a job", Long: enqueueHelp, Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.StringVar(&f.args, "args", "{}", "the input: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&f.contentType, "content-type", "application/json", "content type of the input; JSON is validated")
	fl.StringVar(&f.key, "key", "", "the application's own name for the job, unique per kind while it is live")
	fl.StringVar(&f.queue, "queue", sojourn.DefaultQueue, "queue")
	fl.StringVar(&f.group, "group", "", "label inside the queue")
	fl.Int32Var(&f.priority, "priority", sojourn.DefaultPriority, "priority; the lower number starts first")
	fl.Int32Var(&f.weight, "weight", sojourn.DefaultWeight, "how much of a limit the job uses")
	fl.DurationVar(&f.delay, "delay", 0, "start no earlier than after this `duration`, such as 90s or 2h")
	fl.StringVar(&f.runAt, "run-at", "", "start no earlier than at this `time`, such as 2026-01-31T18:00:00Z")
	fl.StringArrayVar(&f.windows, "window", nil, "start only in this `WINDOW` (see \"window preview\"); may be repeated, at least one must be open")
	fl.BoolVar(&f.stopAtWindowEnd, "stop-at-window-end", false, "cancel the handler's context when the windows close")
	fl.StringArrayVar(&f.tags, "tag", nil, "label for searches; may be repeated")
	fl.StringArrayVar(&f.meta, "meta", nil, "`NAME=VALUE` stored with the job; may be repeated")
	fl.Int32Var(&f.maxAttempts, "max-attempts", 0, "errors and timeouts until the job fails; -1 = no limit (default 5)")
	fl.Int32Var(&f.maxCrashes, "max-crashes", 0, "lost leases until the job fails; -1 = no limit (default 3)")
	fl.DurationVar(&f.runTimeout, "run-timeout", 0, "time limit of one execution of the handler (default none)")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit of one attempt, its waits included (default 24h)")
	fl.DurationVar(&f.deadline, "deadline", 0, "time limit of the job's whole life (default none)")
	fl.StringVar(&f.onConflict, "on-conflict", "return", "if a live job has the key: return it, error (exit code 4), or replace it if it was never claimed")
	fl.DurationVar(&f.keepKey, "keep-key", 0, "keep the key reserved this long after the job ends")
	f.depends.bind(fl, "depends-on", "start only when the jobs with these `ids` have completed; separated by commas")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := a.newJob(cmd, args[0], f)
		if err != nil {
			return err
		}
		return a.Creating(func(c *sojourn.Client) error { return a.enqueue(cmd.Context(), c, job) })
	}
	return cmd
}

func (a *app) newJob(cmd *cobra.Command, kind string, f enqueueFlags) (*sojourn.Job, error) {
	input, err := a.BytesFrom("args", f.args)
	if err != nil {
		return nil, err
	}
	if err := parse.CheckJSON("args", f.contentType, input); err != nil {
		return nil, err
	}
	options, err := parse.Meta(f.meta)
	if err != nil {
		return nil, err
	}
	conflicts := map[string]sojourn.OnConflict{"return": sojourn.ReturnExisting, "error": sojourn.ReturnError, "replace": sojourn.Replace}
	conflict, ok := conflicts[f.onConflict]
	if !ok {
		return nil, sojourn.Invalid("on-conflict", "%.64q is not a value for --on-conflict; use return, error or replace", f.onConflict)
	}
	given := cmd.Flags().Changed
	policy := sojourn.Policy{MaxAttempts: f.maxAttempts, MaxCrashes: f.maxCrashes, RunTimeout: parse.OrNone(given("run-timeout"), f.runTimeout), Timeout: f.timeout,
		Deadline: parse.OrNone(given("deadline"), f.deadline), KeepKey: parse.OrNone(given("keep-key"), f.keepKey)}
	parse.SetPointer(given("stop-at-window-end"), &policy.StopAtWindowEnd, f.stopAtWindowEnd)
	options = append(options, sojourn.OnKeyConflict(conflict), sojourn.Key(f.key), sojourn.Group(f.group), sojourn.Tags(f.tags...),
		sojourn.Delay(f.delay), sojourn.WithPolicy(policy))
	windows, err := parse.Windows(f.windows)
	if err != nil {
		return nil, err
	}
	if len(windows) > 0 {
		options = append(options, sojourn.In(windows...))
	}
	if f.key == "" && cmd.Flags().Changed("key") { // a script's variable without a value would make many jobs
		return nil, sojourn.Invalid("key", "the key is empty; give a key, or leave --key out")
	}
	if on, err := f.depends.dependency(cmd.Flags(), "depends-on"); err != nil {
		return nil, err
	} else if on != nil {
		options = append(options, sojourn.WithDependency(*on))
	}
	if f.runAt != "" {
		if f.delay != 0 {
			return nil, sojourn.Invalid("run-at", "give --run-at or --delay, not both")
		}
		t, err := parse.Time("run-at", f.runAt)
		if err != nil {
			return nil, err
		}
		options = append(options, sojourn.RunAt(t))
	}
	for name, option := range map[string]sojourn.Option{
		"queue": sojourn.Queue(f.queue), "priority": sojourn.Priority(f.priority), "weight": sojourn.Weight(f.weight),
	} {
		if cmd.Flags().Changed(name) { // else the queue's default counts
			options = append(options, option)
		}
	}
	job := sojourn.NewJob(kind, input, options...)
	job.ContentType = f.contentType
	return job, job.Validate(sojourn.MaxMaxBytes)
}

func (a *app) enqueue(ctx context.Context, c *sojourn.Client, job *sojourn.Job) error {
	var err error
	if job.ID, err = c.Store().IDs(ctx, 1); err != nil { // the client itself would lease a block of 1,000
		return err
	}
	e, err := c.Enqueue(ctx, job)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(e)
	}
	note := ""
	switch {
	case e.Replaced:
		note = ", replaced"
	case e.Duplicate:
		note = ", already existed"
	}
	return a.Printf("job %d is %s%s\n", e.ID, e.State, note)
}
