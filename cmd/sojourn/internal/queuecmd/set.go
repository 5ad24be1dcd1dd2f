package queuecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/internal/layers"
)

// queueFlags are the settings of queue set.
type queueFlags struct {
	paused                      bool
	priority, weight            int32
	policy                      sojourn.Policy
	retentionAge, failedAge     time.Duration
	retentionCount, failedCount int64
	flow                        flowFlags
	windows, reset              []string
	revision                    int64
}

const queueSetHelp = `Changes settings of a queue for an operator and creates the queue if it does not exist. Settings without a flag stay
unchanged. What is set here stays in force whatever programs declare later, until --reset gives it back to them.
"queue get" shows where each setting comes from. Pauses are not settings: no declaration and no --reset ends one.
Defaults apply to jobs enqueued from now on that set no value. 0 removes a default (not for --priority and
--weight). Retention deletes completed and cancelled jobs above an age or a count, and failed jobs only if you
set --failed-age or --failed-count; none removes a limit, and with both limits none nothing is deleted. Defaults and retention are one setting each, as a rate and a
breaker are with their details. The queue "*" stands for all queues; it accepts only --paused and --pause-kind.`

func (f *queueFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.paused, "paused", false, "hand out no jobs; --paused=false hands them out again")
	fl.Int32Var(&f.priority, "priority", 0, "default priority; the lower number starts first")
	fl.Int32Var(&f.weight, "weight", 0, "default weight")
	fl.Int32Var(&f.policy.MaxAttempts, "max-attempts", 0, "default number of errors and timeouts until a job fails; -1 = no limit")
	fl.Int32Var(&f.policy.MaxCrashes, "max-crashes", 0, "default number of lost leases until a job fails; -1 = no limit")
	fl.DurationVar(&f.policy.RunTimeout, "run-timeout", 0, "default time limit of one execution of the handler")
	fl.DurationVar(&f.policy.Timeout, "timeout", 0, "default time limit of one attempt, its waits included")
	fl.DurationVar(&f.policy.Deadline, "deadline", 0, "default time limit of the job's whole life")
	fl.DurationVar(&f.policy.KeepKey, "keep-key", 0, "default time to keep a key reserved after the job ends")
	fl.Var(parse.DurationOrNone(&f.retentionAge), "retention-age", "keep completed and cancelled jobs this long (default 168h); none = of any age")
	fl.Var(parse.CountOrNone(&f.retentionCount), "retention-count", "keep this many completed and this many cancelled jobs (default 50000); none = any number")
	fl.Var(parse.DurationOrNone(&f.failedAge), "failed-age", "keep failed jobs this long (default forever); none = of any age")
	fl.Var(parse.CountOrNone(&f.failedCount), "failed-count", "keep this many failed jobs (default all); none = any number")
	f.flow.register(fl)
	fl.StringArrayVar(&f.windows, "window", nil, "start jobs only in this `WINDOW` (see \"window preview\"); may be repeated, at least one must be open; replaces all windows, none = always")
	fl.StringSliceVar(&f.reset, "reset", nil, "give a setting back to what programs declare, by its name in JSON such as group_limit; may be repeated, \"*\" = all")
	fl.Int64Var(&f.revision, "if-revision", 0, "change the settings only if their revision is this, as queue get shows it")
}

func (a *app) setCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{Use: "set QUEUE", Short: "change the settings of a queue", Long: queueSetHelp, Args: cobra.ExactArgs(1)}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed
		var windows sojourn.Windows
		if len(f.windows) != 1 || f.windows[0] != "none" {
			var err error
			if windows, err = parse.Windows(f.windows); err != nil {
				return err
			}
		}
		return a.Creating(func(c *sojourn.Client) error {
			if err := a.update(cmd.Context(), c, args[0], f, given, windows); err != nil {
				return err
			}
			return a.showSettings(cmd.Context(), c, args[0])
		})
	}
	return cmd
}

// retries bounds how often a change that depends on the settings in force is repeated because they
// have changed meanwhile.
const retries = 5

// update changes the settings that the flags name, and then the pauses.
func (a *app) update(ctx context.Context, c *sojourn.Client, name string, f queueFlags, given func(string) bool, windows sojourn.Windows) error {
	for try := 1; ; try++ {
		was, err := known(ctx, c, name)
		if err != nil {
			return err
		}
		patch, err := f.patch(given, was, windows)
		if err != nil {
			return err
		}
		if name == sojourn.AllQueues && len(patch.Fields()) == 0 && len(patch.Reset) == 0 {
			return f.pause(ctx, c, name, given, was.Settings.PausedKinds)
		}
		_, err = c.Queues().Update(ctx, name, patch)
		if errors.Is(err, sojourn.ErrConflict) && !given("if-revision") && try < retries {
			continue
		}
		return cli.OrElse(err, func() error { return f.pause(ctx, c, name, given, was.Settings.PausedKinds) })
	}
}

// known is a queue as it is, or without settings if it does not exist.
func known(ctx context.Context, c *sojourn.Client, name string) (sojourn.QueueStatus, error) {
	queues, err := c.Store().Queues(ctx, name)
	if errors.Is(err, sojourn.ErrNotFound) || err == nil && len(queues) == 0 {
		return sojourn.QueueStatus{Name: name}, nil
	}
	if err != nil {
		return sojourn.QueueStatus{}, err
	}
	return queues[0], nil
}

// patch is the change that the flags ask for. Several flags may be parts of one setting; then the
// other parts are those in force, and the change holds only for the revision that they are of.
func (f queueFlags) patch(given func(string) bool, was sojourn.QueueStatus, windows sojourn.Windows) (p sojourn.QueuePatch, err error) {
	s := was.Settings
	f.apply(given, &s)
	if err := f.flow.apply(given, &s); err != nil {
		return p, err
	}
	parse.Set(given("window"), &s.Windows, windows)
	fields := changedFields(given)
	p = layers.Pick[sojourn.QueuePatch](s, fields)
	p.Revision, p.Reset = was.Revision, f.reset
	parse.Set(given("if-revision"), &p.Revision, f.revision)
	if given("if-revision") && f.revision < 1 {
		return p, sojourn.Invalid("if-revision", "%d is not a revision; \"sojourn queue get\" shows it", f.revision)
	}
	return p, nil
}

// changedFields are the settings of which a flag was given.
func changedFields(given func(string) bool) (fields []string) {
	all := layers.Known[sojourn.QueuePatch]()
	var f queueFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		if field := fieldOf(flag.Name); given(flag.Name) && slices.Contains(all, field) {
			fields = append(fields, field)
		}
	})
	return fields
}

// fieldOf is the setting that a flag is a part of.
func fieldOf(flag string) string {
	switch flag {
	case "priority", "weight", "max-attempts", "max-crashes", "run-timeout", "timeout", "deadline", "keep-key":
		return "defaults"
	case "retention-age", "retention-count", "failed-age", "failed-count":
		return "retention"
	case "window", "share":
		return flag + "s"
	}
	field := strings.TrimSuffix(flag, "-burst")
	if strings.HasPrefix(flag, "breaker-") {
		field = "breaker"
	}
	return strings.ReplaceAll(field, "-", "_")
}

// pause pauses and resumes what the flags say.
func (f queueFlags) pause(ctx context.Context, c *sojourn.Client, name string, given func(string) bool, kinds []string) error {
	change := func(given bool, on bool, kinds ...string) error {
		switch {
		case !given:
			return nil
		case on:
			return c.Queues().Pause(ctx, name, kinds...)
		}
		return c.Queues().Resume(ctx, name, kinds...)
	}
	wanted := named(f.flow.pausedKinds)
	ended := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return slices.Contains(wanted, k) })
	return errors.Join(change(given("paused"), f.paused),
		change(given("pause-kind") && len(ended) > 0, false, ended...), change(given("pause-kind") && len(wanted) > 0, true, wanted...))
}

// layerLines says which settings an operator has set, and which a program has declared that no
// operator has changed.
func layerLines(q sojourn.QueueStatus) (lines [][2]string) {
	var operator, program []string
	declared := layers.Diff[sojourn.QueuePatch](sojourn.QueueSettings{}, q.Declared)
	for _, field := range layers.Known[sojourn.QueuePatch]() {
		value := oneField(declared, field)
		switch own := oneField(q.Overrides, field); {
		case own != "" && value != "":
			operator = append(operator, fmt.Sprintf("%s %s (declared: %s)", field, own, value))
		case own != "":
			operator = append(operator, field+" "+own)
		case value != "":
			program = append(program, field+" "+value)
		}
	}
	if len(operator) > 0 {
		lines = append(lines, [2]string{"by operator", strings.Join(operator, ", ")})
	}
	if len(program) > 0 {
		lines = append(lines, [2]string{"declared", strings.Join(program, ", ")})
	}
	if q.Revision > 0 {
		lines = append(lines, [2]string{"revision", fmt.Sprint(q.Revision)})
	}
	return lines
}

// oneField is what a patch says about one setting, in JSON; "" if it says nothing.
func oneField(p sojourn.QueuePatch, field string) string {
	b, err := jsonform.Marshal(p)
	var all map[string]json.RawMessage
	if err != nil || json.Unmarshal(b, &all) != nil {
		return ""
	}
	return terminal.Clean(string(all[field]))
}
