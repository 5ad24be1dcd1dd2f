package jobcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/operationcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// bulk is one change of many jobs: those with the ids given, or those that a filter finds.
type bulk struct {
	filter sojourn.Filter
	states []sojourn.State // in which the change is possible
	usual  []sojourn.State // those taken by a filter that names none
	edit   sojourn.Edit
	done   string // what to call a job that is changed
	yes    bool
	dryRun bool
	byName bool // ids were given
	stored bool // as a stored operation
}

// summary is the output of a bulk.
type summary struct {
	Action    sojourn.EditAction `json:"action"`
	DryRun    bool               `json:"dry_run,omitempty"`
	Matched   int                `json:"matched"`
	Changed   int                `json:"changed"`
	Unchanged int                `json:"unchanged,omitempty"` // they were so already
	Refused   []refusal          `json:"refused,omitempty"`
}

type refusal struct {
	ID    sojourn.ID `json:"id"`
	Code  string     `json:"code"`
	Error string     `json:"error"`
}

// bulkFlags are those of cancel, redrive, release and purge.
type bulkFlags struct {
	filterFlags
	by, why                  string
	all, yes, dryRun, stored bool
	operation                operationcmd.Flags
}

const bulkHelp = `

Without --stored, this command changes the jobs itself, page after page. With it the store does: as an operation, which
survives the end of this command and of every process, and which "sojourn operation" shows, pauses and cancels. The flags
--rate, --limit, --canary, --wait and --id imply it.`

func (a *app) bulkCommand(use, short string, f *bulkFlags, fill func(b *bulk)) *cobra.Command {
	cmd := &cobra.Command{Use: use + " ID... | filters", Short: short, Long: strings.ToUpper(short[:1]) + short[1:] + "." + bulkHelp}
	f.bind(cmd)
	f.operation.BindPace(cmd, use == string(sojourn.EditRedrive))
	cmd.Flags().BoolVar(&f.stored, "stored", false, "let the store change the jobs, as an operation that survives the end of this command")
	cmd.Flags().StringVar(&f.by, "by", "", "user name for the history (default $USER)")
	cmd.Flags().StringVar(&f.why, "why", "", "reason for the history")
	cmd.Flags().BoolVar(&f.all, "all", false, "select every job whose state allows this, instead of filters")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "confirm a change of more than one job; without it, the command is refused and the error has the count")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count the jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b := &bulk{yes: f.yes, dryRun: f.dryRun, byName: len(args) > 0, stored: f.stored || operationcmd.Paced(cmd)}
		fill(b)
		var err error
		if b.filter, err = f.filter(); err != nil {
			return err
		}
		b.edit.By, b.edit.Reason = f.by, f.why
		if b.edit.By == "" {
			b.edit.By = a.User()
		}
		if err := b.choose(cmd, args); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			if b.stored {
				f.operation.Confirmed(b.edit.By, b.edit.Reason, b.yes, b.dryRun)
				return f.operation.Start(cmd.Context(), a.App, c, b.filter, b.edit)
			}
			return a.doBulk(cmd.Context(), c, b)
		})
	}
	return cmd
}

// choose says which jobs: by id, or by filters, but not by nothing.
func (b *bulk) choose(cmd *cobra.Command, args []string) error {
	given := slices.DeleteFunc(slices.Clone(filterNames), func(flag string) bool { return !cmd.Flags().Changed(flag) })
	for _, flag := range given { // a shell variable that is not set must not choose every job
		if v := cmd.Flags().Lookup(flag).Value.String(); v == "" || v == "[]" {
			return sojourn.Invalid(flag, "the filter is empty; leave --%s out, or give --all for every job", flag)
		}
	}
	filtered := len(given) > 0
	all, err := cmd.Flags().GetBool("all")
	switch {
	case err != nil:
		return err
	case b.byName && b.stored:
		return sojourn.Invalid("id", "a stored operation takes filters or --all; leave the ids out, or --stored, --rate, --limit, --canary, --wait and --id")
	case b.byName && filtered, b.byName && all, filtered && all:
		return sojourn.Invalid("id", "give ids, filters or --all, and only one of them")
	case b.byName:
		ids, err := parse.IDs(args)
		if err != nil {
			return err
		}
		slices.Sort(ids)
		b.filter = sojourn.Filter{IDs: slices.Compact(ids)}
		return b.filter.Validate()
	case !filtered && !all:
		return sojourn.Invalid("id", "no jobs selected; name the jobs by ids or by filters such as --state and --kind, or give --all")
	case len(b.filter.States) == 0:
		b.filter.States = b.usual
	}
	for _, s := range b.filter.States {
		if !slices.Contains(b.states, s) {
			return sojourn.Invalid("state", "%s jobs cannot be %s", s, b.done)
		}
	}
	return nil
}

func (a *app) cancelCommand() *cobra.Command {
	var f bulkFlags
	var spare bool
	var dependents string
	cmd := a.bulkCommand("cancel", "cancel live jobs, including running ones", &f, func(b *bulk) {
		b.edit, b.states, b.usual, b.done = sojourn.Edit{Action: sojourn.EditCancel, Refuse: spare, Dependents: dependents}, parse.LiveStates, parse.LiveStates, "cancelled"
	})
	bindDependents(cmd, &dependents)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return checkedDependents(cmd, dependents) }
	cmd.Flags().BoolVar(&spare, "spare-running", false, "refuse jobs that are running")
	return cmd
}

func (a *app) redriveCommand() *cobra.Command {
	var f bulkFlags
	var generation int32
	var change sojourn.Edit
	var checkpoint string
	cmd := a.bulkCommand("redrive", "run failed or cancelled jobs again", &f, func(b *bulk) {
		b.edit = change
		b.edit.Action, b.edit.Generation = sojourn.EditRedrive, generation
		b.states, b.usual, b.done = []sojourn.State{sojourn.Failed, sojourn.Cancelled}, []sojourn.State{sojourn.Failed}, "redriven"
	})
	cmd.Flags().Int32Var(&generation, "generation", 0, "only if the job is in this generation, so that the command can be repeated safely")
	cmd.Flags().BoolVar(&change.DropCheckpoint, "drop-checkpoint", false, "start without the checkpoint of earlier attempts")
	cmd.Flags().StringVar(&checkpoint, "checkpoint", "", "start with this checkpoint: `JSON`, @FILE, or - for standard input")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("checkpoint") {
			return nil
		}
		b, err := a.BytesFrom("checkpoint", checkpoint)
		change.Checkpoint = &b
		return cli.OrElse(err, func() error {
			change.Action = sojourn.EditRedrive
			return change.Validate(sojourn.MaxMaxBytes)
		})
	}
	return cmd
}

func releaseCommand(a *app) *cobra.Command {
	var f bulkFlags
	running := []sojourn.State{sojourn.Running}
	return a.bulkCommand("release", "end the leases of running jobs, whose attempts go on with the next claim", &f, func(b *bulk) {
		b.edit, b.states, b.usual, b.done = sojourn.Edit{Action: sojourn.EditRelease}, running, running, "released"
	})
}

func (a *app) cloneCommand() *cobra.Command {
	var key, queue string
	cmd := a.onJob("clone", "enqueue a copy of a job, with the same args", func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
		n := j.Clone()
		if key != "" {
			n.Key = key
		}
		if queue != "" {
			n.Queue = queue
		}
		e, err := c.Enqueue(ctx, n)
		if err != nil || a.AsJSON() {
			return cli.OrElse(err, func() error { return a.JSON(e) })
		}
		return a.Printf("job %d is a clone of job %d\n", e.ID, j.ID)
	})
	cmd.Flags().StringVar(&key, "key", "", "key of the new job (default the same key)")
	cmd.Flags().StringVar(&queue, "queue", "", "queue of the new job (default the same queue)")
	return cmd
}

func (a *app) purgeCommand() *cobra.Command {
	var f bulkFlags
	var dependents string
	cmd := a.bulkCommand("purge", "delete final jobs", &f, func(b *bulk) {
		b.edit, b.states, b.usual, b.done = sojourn.Edit{Action: sojourn.EditPurge, Dependents: dependents}, parse.FinalStates, parse.FinalStates, "purged"
	})
	bindDependents(cmd, &dependents)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return checkedDependents(cmd, dependents) }
	return cmd
}

// doBulk changes page after page, in the order of ids. A job that left its state since it was found
// is left alone.
func (a *app) doBulk(ctx context.Context, c *sojourn.Client, b *bulk) error {
	if b.dryRun || !b.yes && !(b.byName && len(b.filter.IDs) == 1) {
		return a.rehearse(ctx, c, b)
	}
	s := summary{Action: b.edit.Action}
	var first error
	refuse := func(id sojourn.ID, err error) {
		s.Refused = append(s.Refused, refusal{id, sojourn.ErrorCode(err), err.Error()})
		if first == nil {
			first = err
		}
	}
	missing := slices.Clone(b.filter.IDs)
	err := b.pages(ctx, c, func(ids []sojourn.ID) error {
		edited, err := c.Jobs().EditAll(ctx, sojourn.Filter{IDs: ids, States: b.filter.States, Limit: sojourn.MaxFind}, b.edit)
		s.Matched += len(edited.Items)
		for _, item := range edited.Items {
			missing = slices.DeleteFunc(missing, func(id sojourn.ID) bool { return id == item.ID })
			switch {
			case item.Err != nil:
				refuse(item.ID, item.Err)
			case item.Changed:
				s.Changed++
			default:
				s.Unchanged++
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range missing {
		refuse(id, sojourn.NotFound("no job has the id %d", id))
	}
	return a.printBulk(b, s, first)
}

func (a *app) printBulk(b *bulk, s summary, first error) error {
	if b.byName && len(b.filter.IDs) == 1 && first != nil {
		return first
	}
	if a.AsJSON() {
		if err := a.JSON(s); err != nil {
			return err
		}
	} else {
		for _, r := range s.Refused {
			if err := a.Printf("job %d: %s\n", r.ID, terminal.Clean(r.Error)); err != nil {
				return err
			}
		}
		already := ""
		if s.Unchanged > 0 {
			already = fmt.Sprintf(", %d unchanged", s.Unchanged)
		}
		if err := a.Printf("%s %s%s\n", terminal.Plural(s.Changed, "job"), b.done, already); err != nil {
			return err
		}
	}
	if first != nil {
		return fmt.Errorf("%s refused; the first error: %w", terminal.Plural(len(s.Refused), "job"), first)
	}
	return nil
}

// rehearse counts the jobs, and asks for --yes unless that was all.
func (a *app) rehearse(ctx context.Context, c *sojourn.Client, b *bulk) error {
	e := b.edit
	e.DryRun = true
	edited, err := c.Jobs().EditAll(ctx, b.filter, e)
	if err != nil {
		return err
	}
	n := edited.Total
	if !b.dryRun {
		return cli.Unconfirmed(b.verb(), terminal.Plural(n, "job"))
	}
	if a.AsJSON() {
		return a.JSON(summary{Action: b.edit.Action, DryRun: true, Matched: n})
	}
	return a.Printf("%s would be %s\n", terminal.Plural(n, "job"), b.done)
}

// verb names the change: the name of the command.
func (b *bulk) verb() string {
	if b.edit.Action == sojourn.EditChange {
		return "edit"
	}
	return string(b.edit.Action)
}

// pages calls fn with the ids of the jobs, at most MaxFind at a time.
func (b *bulk) pages(ctx context.Context, c *sojourn.Client, fn func(ids []sojourn.ID) error) error {
	f := b.filter
	f.Limit = sojourn.MaxFind
	for {
		jobs, err := c.Store().Find(ctx, f)
		if err != nil || len(jobs) == 0 {
			return err
		}
		var ids []sojourn.ID
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		if err := fn(ids); err != nil || len(jobs) < f.Limit {
			return err
		}
		f.After = ids[len(ids)-1].String()
	}
}

// changeFlags are the new values of job edit.
type changeFlags struct {
	args, queue, group, runAt     string
	priority, weight, maxAttempts int32
	delay, timeout, deadline      time.Duration
	tags, addTags, removeTags     []string
	noTags                        bool
}

const editHelp = `Changes values of jobs. Blocked, scheduled, ready and errored jobs accept all values, but args only before the
first claim. Awaiting jobs accept a priority and tags, all other jobs only tags. With --redrive, failed and
cancelled jobs get the new values and run again, in one step.`

func (a *app) editCommand() *cobra.Command {
	var f changeFlags
	var yes, dryRun, redrive bool
	var by string
	cmd := &cobra.Command{Use: "edit ID...", Short: "change values of jobs", Long: editHelp, Args: cobra.MinimumNArgs(1)}
	fl := cmd.Flags()
	fl.StringVar(&f.args, "args", "", "a new input: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&f.queue, "queue", "", "move to this queue")
	fl.StringVar(&f.group, "group", "", "label inside the queue; empty for none")
	fl.Int32Var(&f.priority, "priority", 0, "priority; the lower number starts first")
	fl.Int32Var(&f.weight, "weight", 0, "how much of a limit the job uses")
	fl.DurationVar(&f.delay, "delay", 0, "start no earlier than after this `duration`")
	fl.StringVar(&f.runAt, "run-at", "", "start no earlier than at this `time`, such as 2026-01-31T18:00:00Z")
	fl.StringArrayVar(&f.tags, "tag", nil, "replace the labels; may be repeated")
	fl.BoolVar(&f.noTags, "no-tags", false, "remove the labels")
	fl.StringArrayVar(&f.addTags, "add-tag", nil, "add a label; may be repeated")
	fl.StringArrayVar(&f.removeTags, "remove-tag", nil, "remove a label; may be repeated")
	fl.Int32Var(&f.maxAttempts, "max-attempts", 0, "errors and timeouts until the job fails; -1 = no limit")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit of one attempt, its waits included")
	fl.DurationVar(&f.deadline, "deadline", 0, "time limit of the job's whole life")
	fl.StringVar(&by, "by", "", "user name for the history (default $USER)")
	fl.BoolVar(&yes, "yes", false, "confirm a change of more than one job")
	fl.BoolVar(&dryRun, "dry-run", false, "only count the jobs")
	fl.BoolVar(&redrive, "redrive", false, "run failed or cancelled jobs again with the new values")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change, err := a.change(cmd, f)
		if err != nil {
			return err
		}
		if by == "" {
			by = a.User()
		}
		change.Action, change.By = sojourn.EditChange, by
		b := &bulk{edit: change, done: "edited", yes: yes, dryRun: dryRun, byName: true}
		if redrive {
			b.edit.Action, b.done = sojourn.EditRedrive, "redriven"
		}
		if err := b.edit.Validate(sojourn.MaxMaxBytes); err != nil {
			return err
		}
		ids, err := parse.IDs(args)
		if err != nil {
			return err
		}
		slices.Sort(ids)
		b.filter.IDs = slices.Compact(ids)
		return a.With(func(c *sojourn.Client) error { return a.doBulk(cmd.Context(), c, b) })
	}
	return cmd
}

// change takes over the flags that were given.
func (a *app) change(cmd *cobra.Command, f changeFlags) (sojourn.Edit, error) {
	var c sojourn.Edit
	given := cmd.Flags().Changed
	parse.SetPointer(given("queue"), &c.Queue, f.queue)
	parse.SetPointer(given("group"), &c.Group, f.group)
	parse.SetPointer(given("priority"), &c.Priority, f.priority)
	parse.SetPointer(given("weight"), &c.Weight, f.weight)
	parse.SetPointer(given("delay"), &c.Delay, f.delay)
	parse.SetPointer(given("tag") || f.noTags, &c.Tags, append([]string{}, f.tags...))
	parse.SetPointer(given("add-tag"), &c.AddTags, f.addTags)
	parse.SetPointer(given("remove-tag"), &c.RemoveTags, f.removeTags)
	parse.SetPointer(given("max-attempts") || given("timeout") || given("deadline"), &c.Policy,
		sojourn.Policy{MaxAttempts: f.maxAttempts, Timeout: f.timeout, Deadline: parse.OrNone(given("deadline"), f.deadline)})
	if f.noTags && given("tag") || given("delay") && given("run-at") {
		return c, sojourn.Invalid("change", "give --tag or --no-tags, and --delay or --run-at, not both")
	}
	if given("run-at") {
		t, err := parse.Time("run-at", f.runAt)
		if err != nil {
			return c, err
		}
		c.RunAt = &t
	}
	if given("args") {
		b, err := a.BytesFrom("args", f.args)
		if err != nil {
			return c, err
		}
		c.Args = &b
	}
	return c, nil
}
