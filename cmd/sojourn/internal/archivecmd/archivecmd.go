// Package archivecmd has the command "archive", which makes, lists, exports and removes archives.
package archivecmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/archive"
	"github.com/sojourn-queue/sojourn/store/archive/export"
)

const (
	addHelp = `Makes an archive. From then on retention keeps the final jobs that it has not exported, at most for --wait after their end. Export them
with "sojourn archive run". Targets:

  file:/DIRECTORY   files with a line of JSON for each job, on the machine of "archive run"
  table:            the table sj_archive_job in the database of the store
  https://HOST/...  a webhook, signed by Standard Webhooks; --secret says where its secret is found, env:NAME or file:PATH`
	runHelp = `Exports the final jobs of an archive to its target until the command is interrupted, with --once until there are none left. One program at
a time exports an archive; others wait. Files are named ARCHIVE-000001.jsonl and so on; the last one has the suffix .part until it is complete:
when it is longer than --max-file, or at the end of its day in UTC. Each job is exactly once in the files, also if the command is killed.`
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "archive".
func Command(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("archive", "archives: export of finished jobs before retention deletes them", s.addCommand(), s.runCommand(), s.lsCommand(), s.rmCommand())
}

func (a *app) addCommand() *cobra.Command {
	var d archive.Definition
	cmd := &cobra.Command{Use: "add ARCHIVE", Short: "make an archive: from now on retention waits for it", Long: addHelp, Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.StringVar(&d.Filter.Queue, "queue", "", "only jobs in this queue")
	fl.StringVar(&d.Filter.Kind, "kind", "", "only jobs of this kind")
	states := fl.StringSlice("state", nil, "only jobs that ended in these states")
	fl.StringVar(&d.To, "to", "", "target: file:/DIRECTORY, table: or the URL of a webhook")
	fl.StringVar(&d.Secret, "secret", "", "where the secret of a webhook is found: env:NAME or file:PATH")
	fl.DurationVar(&d.Wait, "wait", archive.DefaultWait, "how long after its end a job is kept for the archive, 1m to 2160h; then it can be missed")
	_ = cmd.MarkFlagRequired("to")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		d.Name = args[0]
		if len(*states) > 0 {
			if d.Filter.States, err = parse.States(*states); err != nil {
				return err
			}
		}
		return a.With(func(c *sojourn.Client) error {
			out, err := archive.Of(c).Add(cmd.Context(), d)
			if err != nil {
				return err
			}
			return a.Result(out, "archive %s made; export it with \"sojourn archive run %s\"\n", out.Name, out.Name)
		})
	}
	return cmd
}

func (a *app) runCommand() *cobra.Command {
	var o export.Options
	cmd := &cobra.Command{Use: "run ARCHIVE", Short: "export the final jobs of an archive", Long: runHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&o.Once, "once", false, "end when there is no job left to export")
	cmd.Flags().Int64Var(&o.MaxFile, "max-file", export.DefaultMaxFile, "bytes after which a file is complete")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error { return export.Run(cmd.Context(), c, args[0], o) })
	}
	return cmd
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list archives, with the jobs that are not exported yet and those that were missed", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			all, err := archive.Of(c).List(cmd.Context())
			if err != nil {
				return err
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "ARCHIVE", "OWNER", "EXPORTED", "LAG", "BEHIND", "MISSED", "WAIT", "TO")
			for _, s := range all {
				lag := fmt.Sprint(s.Lag)
				if s.Lag == archive.MaxLag {
					lag += "+"
				}
				t.Row(s.Name, s.Owner, fmt.Sprint(s.Exported), lag, terminal.Human(time.Duration(s.Behind*float64(time.Second))), fmt.Sprint(s.Missed), terminal.Human(s.Wait), terminal.Clean(s.To))
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

func (a *app) rmCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm ARCHIVE", Short: "remove an archive; what it has exported stays", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error { return archive.Of(c).Remove(cmd.Context(), args[0]) })
	}
	return cmd
}
