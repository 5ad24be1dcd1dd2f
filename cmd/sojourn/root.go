package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/archivecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/auditcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/benchcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/completion"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/configcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/democmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/docscmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/failurecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/healthcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/inboxcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/jobcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/mancmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/operationcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/queuecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/retrycmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/schedulecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/servecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/sourcecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/statscmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/storecmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/tagcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/tailcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/tokencmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/topcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/versioncmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/windowcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/workcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/workercmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/workflowcmd"
)

const longHelp = `sojourn manages a store of durable jobs: jobs that send a request, wait for an answer that comes later,
and survive crashes. Try "sojourn demo".

The store is --store, else $SOJOURN_URL, else the store in sojourn.toml, else sqlite:sojourn.db ("sojourn config" shows it).
--store also takes a server URL, http://HOST:PORT; set $SOJOURN_TOKEN to authenticate.
Only demo, bench, enqueue, workflow run, schedule set, queue set, migrate up, serve, token and store restore create a missing store.

Exit codes:
  0  done
  1  failed, or doctor or demo found violations
  2  wrong usage: a flag, an argument or a value
  3  no such job, queue or response
  4  conflict: the state or the key does not allow it
  5  the store is missing, unusable, busy, full or closed
  6  tail: the job is cancelled
  7  tail: the job is not final yet`

// run executes one command line and returns its exit code.
func run(ctx context.Context, a *cli.App, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return cli.ExitOK
	}
	return a.Report(cmd, err)
}

// newRoot makes the command with all others below it.
func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use: "sojourn", Short: "a durable job queue for work that waits on the outside world", Long: longHelp,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !settingless(cmd) {
				if err := configcmd.Apply(a, cmd); err != nil {
					return err
				}
			}
			if a.Output != "table" && a.Output != "json" {
				return fmt.Errorf("-o %s is not an output format; use table or json", a.Output)
			}
			a.Started = true
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.Store, "store", "", "`URL` of the store, such as sqlite:FILE (default $SOJOURN_URL, else sqlite:sojourn.db)")
	root.PersistentFlags().StringVar(&a.Config, "config", "", "settings `FILE` (default $SOJOURN_CONFIG, else sojourn.toml if it exists)")
	root.PersistentFlags().StringVarP(&a.Output, "output", "o", "table", "table or json; a list in JSON is one object per line")
	root.AddCommand(democmd.Command(a), benchcmd.Command(a), jobcmd.EnqueueCommand(a), inboxcmd.RespondCommand(a), jobcmd.Command(a), queuecmd.Command(a), schedulecmd.Command(a), workflowcmd.Command(a), failurecmd.Command(a), operationcmd.Command(a), statscmd.Command(a), tailcmd.FollowerCommand(a), archivecmd.Command(a), tagcmd.Command(a), workercmd.Command(a), jobcmd.WhyCommand(a), windowcmd.Command(a), inboxcmd.Command(a), sourcecmd.Command(a), retrycmd.Command(a),
		sourcecmd.WebhookCommand(a), storecmd.MigrateCommand(a), storecmd.Command(a), servecmd.Command(a), workcmd.Command(a), tokencmd.Command(a), auditcmd.Command(a), topcmd.Command(a), jobcmd.TailCommand(a), storecmd.DoctorCommand(a), configcmd.Command(a), healthcmd.Command(a), docscmd.Command(a), mancmd.Command(), versioncmd.Command(a))
	completion.Add(a, root)
	return root
}

// settingless are commands that no mistake in a file may hide, or disturb a shell.
func settingless(cmd *cobra.Command) bool {
	return cmd.Name() == "version" || cmd.Name() == "man" || cmd.Name() == "docs" || cmd.Name() == "health" || strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) || cmd.HasParent() && cmd.Parent().Name() == "completion"
}
