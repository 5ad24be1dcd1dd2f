// Package workflowcmd has the command "workflow", which starts, lists and operates workflows.
package workflowcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/workflow"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "workflow".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("workflow", "named groups of jobs",
		s.runCommand(), s.lsCommand(), s.getCommand(), s.membersCommand(),
		s.changeCommand("close", "let an open workflow take no more members", workflow.ActionClose),
		s.changeCommand("cancel", "cancel all members that are not final", workflow.ActionCancel),
		s.changeCommand("redrive", "run all failed and cancelled members again", workflow.ActionRedrive))
}

const runHelp = `Starts the workflow that FILE (- for standard input) describes. It can be repeated: the same file again changes nothing.

  {
    "name": "order-42",
    "members": [
      {"name": "charge", "job": {"kind": "charge", "args": {"order": 42}}},
      {"name": "pack", "job": {"kind": "pack"}},
      {"name": "ship", "job": {"kind": "ship"}, "after": ["charge", "pack"], "on_failure": {"charge": "cancel"}}
    ],
    "on_end": {"kind": "mail"},
    "on_first_failure": {"kind": "refund"}
  }

A job has the fields of POST /v1/jobs of the HTTP API. A file with more than 1,000 members is stored in several calls.`

// file is the form of a workflow in a file.
type file struct {
	Name string `json:"name"`
	jsonform.NewWorkflow
}

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run FILE", Short: "start a workflow", Long: runHelp, Args: cobra.ExactArgs(1)}
	name := cmd.Flags().String("name", "", "name of the workflow instead of that in the file")
	wait := cmd.Flags().Bool("wait", false, "wait until it is final; exit code 1 unless it is completed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.Creating(func(c *sojourn.Client) error {
			w, err := a.read(args[0])
			if err != nil {
				return err
			}
			if *name != "" {
				w.Name = *name
			}
			out, err := workflow.Of(c).StartAll(cmd.Context(), &w)
			if err == nil && *wait {
				out, err = workflow.Of(c).Wait(cmd.Context(), w.Name)
			}
			if err = cli.OrElse(err, func() error { return a.print(out) }); err == nil && *wait && out.State != workflow.Completed {
				err = fmt.Errorf("workflow %s is %s", out.Name, out.State)
			}
			return err
		})
	}
	return cmd
}

// read reads the file of a workflow.
func (a *app) read(name string) (w workflow.Workflow, err error) {
	from := "@" + name
	if name == "-" {
		from = "-"
	}
	text, err := a.BytesFrom("file", from)
	if err != nil {
		return w, err
	}
	var f file
	if err := json.Unmarshal(text, &f, jsonform.Plain, json.RejectUnknownMembers(true)); err != nil {
		return w, sojourn.Invalid("file", "%s does not describe a workflow: %v", name, err)
	}
	return f.Workflow(f.Name), nil
}

// print shows one workflow.
func (a *app) print(w workflow.Status) error {
	if a.AsJSON() {
		return a.JSON(w)
	}
	lines := []string{w.String()}
	var counts []string
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		if n := w.Counts[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", state, n))
		}
	}
	if len(counts) > 0 {
		lines = append(lines, "  "+strings.Join(counts, ", "))
	}
	if w.FailureJob != 0 {
		lines = append(lines, fmt.Sprintf("  on first failure: job %d", w.FailureJob))
	}
	if w.EndJob != 0 {
		lines = append(lines, fmt.Sprintf("  on end: job %d", w.EndJob))
	}
	if w.Doing != "" {
		lines = append(lines, fmt.Sprintf("  a %s goes on", w.Doing))
	}
	if w.Problem != "" {
		lines = append(lines, "  problem: "+w.Problem)
	}
	return a.Printf("%s\n", strings.Join(lines, "\n"))
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get NAME", Short: "show a workflow with the numbers of its members by state", Args: cobra.ExactArgs(1)}
	wait := cmd.Flags().Bool("wait", false, "wait until it is final")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			get := workflow.Of(c).Get
			if *wait {
				get = workflow.Of(c).Wait
			}
			w, err := get(cmd.Context(), args[0])
			return cli.OrElse(err, func() error { return a.print(w) })
		})
	}
	return cmd
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [PREFIX]", Short: "list workflows in the order of their names", Args: cobra.MaximumNArgs(1)}
	states := cmd.Flags().StringSlice("state", nil, "only these states: open, running, completed, failed, cancelled")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var only []workflow.State
		for _, text := range *states {
			state, err := workflow.ParseState(text)
			if err != nil {
				return err
			}
			only = append(only, state)
		}
		return a.With(func(c *sojourn.Client) error {
			var all []workflow.Status
			for w, err := range workflow.Of(c).All(cmd.Context(), strings.Join(args, ""), only...) {
				if err != nil {
					return err
				}
				all = append(all, w)
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "WORKFLOW", "STATE", "MEMBERS", "COMPLETED", "FAILED", "CANCELLED", "LEFT", "STARTED")
			for _, w := range all {
				t.Row(w.Name, string(w.State), fmt.Sprint(w.Total), fmt.Sprint(w.Counts[sojourn.Completed]), fmt.Sprint(w.Counts[sojourn.Failed]),
					fmt.Sprint(w.Counts[sojourn.Cancelled]), fmt.Sprint(w.Live()), w.CreatedAt.UTC().Format(time.RFC3339))
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

func (a *app) membersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "members NAME", Short: "list the members of a workflow in the order of their names", Args: cobra.ExactArgs(1)}
	states := cmd.Flags().StringSlice("state", nil, "only members in these states, such as failed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var only []sojourn.State
		for _, text := range *states {
			state, err := sojourn.ParseState(text)
			if err != nil {
				return err
			}
			only = append(only, state)
		}
		return a.With(func(c *sojourn.Client) error {
			t := terminal.NewTable(a.Out, "MEMBER", "JOB", "STATE", "KIND", "QUEUE", "REASON")
			var all []workflow.MemberStatus
			for m, err := range workflow.Of(c).Members(cmd.Context(), args[0], only...) {
				if err != nil {
					return err
				}
				all = append(all, m)
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			for _, m := range all {
				t.Row(m.Name, m.Job.String(), m.State.String(), m.Kind, m.Queue, m.Reason)
			}
			return t.Flush()
		})
	}
	return cmd
}

func (a *app) changeCommand(use, short string, action workflow.Action) *cobra.Command {
	cmd := &cobra.Command{Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1)}
	reason := new(string)
	if action != workflow.ActionClose {
		reason = cmd.Flags().String("reason", "", "why, for the history of the jobs")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			w, err := workflow.StoreOf(c.Store()).ChangeWorkflow(cmd.Context(), args[0], action, *reason)
			return cli.OrElse(err, func() error { return a.print(w) })
		})
	}
	return cmd
}
