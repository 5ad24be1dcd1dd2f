package jobcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// dependFlags are dependencies on a command line.
type dependFlags struct {
	on        []string
	onFailure string
	onStage   bool
	missingOK bool
}

func (f *dependFlags) bind(fl *pflag.FlagSet, flag, usage string) {
	fl.StringSliceVar(&f.on, flag, nil, usage)
	fl.StringVar(&f.onFailure, "on-failure", "wait", "when one of them fails or is cancelled: wait (for its redrive), cancel, fail or ignore")
	fl.BoolVar(&f.onStage, "on-stage", false, "wait only until the end of their present stage")
	fl.BoolVar(&f.missingOK, "missing-ok", false, "count a job that does not exist as completed; without it, the command is refused")
}

// dependency reads the flags. It is nil if the flag was not given.
func (f *dependFlags) dependency(fl *pflag.FlagSet, flag string) (*sojourn.Dependency, error) {
	if !fl.Changed(flag) {
		for _, of := range []string{"on-failure", "on-stage", "missing-ok"} {
			if fl.Changed(of) {
				return nil, sojourn.Invalid(of, "--%s is about the jobs of --%s, which is missing", of, flag)
			}
		}
		return nil, nil
	}
	ids, err := idsOf(flag, f.on)
	return &sojourn.Dependency{Jobs: ids, OnFailure: sojourn.OnFailure(f.onFailure), OnStage: f.onStage, MissingOK: f.missingOK}, err
}

// idsOf reads the ids of a flag. A variable of a script that is not set must not mean none.
func idsOf(flag string, texts []string) ([]sojourn.ID, error) {
	if len(texts) == 0 || slices.Contains(texts, "") {
		return nil, sojourn.Invalid(flag, "an id is empty; name the jobs by their ids, separated by commas, or leave --%s out", flag)
	}
	return parse.IDs(texts)
}

func (a *app) dependsCommand() *cobra.Command {
	var f dependFlags
	var remove []string
	var clear bool
	var cmd *cobra.Command
	cmd = a.onJob("depends", "show or change which jobs a job waits for, and which wait for it", func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
		fl := cmd.Flags()
		change := sojourn.Edit{Action: sojourn.EditChange, By: a.User()}
		add, err := f.dependency(fl, "add")
		if err != nil {
			return err
		}
		if add != nil {
			change.DependOn = &[]sojourn.Dependency{*add}
		}
		switch {
		case clear && (fl.Changed("remove") || add != nil):
			return sojourn.Invalid("clear", "give --clear alone, or --add and --remove")
		case clear:
			change.Undepend = &[]sojourn.ID{}
		case fl.Changed("remove"):
			ids, err := idsOf("remove", remove)
			if err != nil {
				return err
			}
			change.Undepend = &ids
		}
		if change.DependOn != nil || change.Undepend != nil {
			if _, err := c.Jobs().Edit(ctx, j.ID, change); err != nil {
				return err
			}
			if j, err = c.Get(ctx, j.ID); err != nil {
				return err
			}
		}
		return a.printDepends(ctx, c, j)
	})
	fl := cmd.Flags()
	f.bind(fl, "add", "`ids` of jobs that it shall wait for too; of a blocked job only")
	fl.StringSliceVar(&remove, "remove", nil, "`ids` of jobs that it shall wait for no more")
	fl.BoolVar(&clear, "clear", false, "let it wait for no job any more")
	return cmd
}

// related lists the parents or the children of a job.
func related(ctx context.Context, c *sojourn.Client, f sojourn.Filter) (out []sojourn.Job, err error) {
	f.Limit = sojourn.MaxFind
	for j, err := range c.Jobs().All(ctx, f) {
		if err != nil {
			return nil, err
		}
		out = append(out, *j)
	}
	return out, nil
}

// depends is the output of the command.
type depends struct {
	ID       sojourn.ID    `json:"id"`
	State    sojourn.State `json:"state"`
	WaitsFor int32         `json:"waits_for"`
	Parents  []sojourn.Job `json:"parents"`
	Children []sojourn.Job `json:"children"`
}

func (a *app) printDepends(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
	parents, err := related(ctx, c, sojourn.Filter{ParentsOf: j.ID})
	if err != nil {
		return err
	}
	children, err := related(ctx, c, sojourn.Filter{ChildrenOf: j.ID})
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(depends{j.ID, j.State, j.WaitsFor, append([]sojourn.Job{}, parents...), append([]sojourn.Job{}, children...)})
	}
	open := ""
	if j.State == sojourn.Blocked {
		open = fmt.Sprintf(", waits for %s", terminal.Plural(int(j.WaitsFor), "job"))
	}
	if err := a.Printf("job %d is %s%s\n", j.ID, stateText(*j), open); err != nil {
		return err
	}
	t := terminal.NewTable(a.Out, "RELATION", "ID", "KIND", "KEY", "QUEUE", "STATE", "REASON", "FINISHED")
	for _, side := range []struct {
		name string
		jobs []sojourn.Job
	}{{"parent", parents}, {"child", children}} {
		for _, r := range side.jobs {
			finished := ""
			if !r.FinishedAt.IsZero() {
				finished = r.FinishedAt.Format(time.RFC3339)
			}
			t.Row(side.name, idText(r.ID), terminal.Short(r.Kind, 32), terminal.Short(r.Key, 32), terminal.Short(r.Queue, 24), stateText(r), r.Reason, finished)
		}
	}
	return t.Flush()
}

// bindDependents adds the flag of commands that end or delete jobs for which others wait.
func bindDependents(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "dependents", "", "blocked jobs that would wait for ever: cancel or release them; without it, the job is refused with their ids")
}

// checkedDependents refuses a value that was given and is empty.
func checkedDependents(cmd *cobra.Command, v string) error {
	if v == sojourn.DependentsCancel || v == sojourn.DependentsRelease || v == "" && !cmd.Flags().Changed("dependents") {
		return nil
	}
	return sojourn.Invalid("dependents", "%.64q is not a value for --dependents; use cancel or release", v)
}

// compositionLines say where a job comes from and what it waits for.
func compositionLines(j *sojourn.Job, parents []sojourn.Job, now time.Time) (lines [][2]string) {
	if j.Stage > 0 {
		lines = append(lines, [2]string{"stage", fmt.Sprint(j.Stage)})
	}
	if j.Schedule != "" {
		lines = append(lines, [2]string{"schedule", j.Schedule}, [2]string{"tick", terminal.Stamp(j.ScheduledFor, now)})
	}
	if j.State == sojourn.Blocked {
		var names []string
		for _, p := range parents {
			names = append(names, fmt.Sprintf("%d (%s)", p.ID, stateText(p)))
		}
		lines = append(lines, [2]string{"waits for", terminal.Plural(int(j.WaitsFor), "job") + " of " + strings.Join(names, ", ")})
	}
	return lines
}
