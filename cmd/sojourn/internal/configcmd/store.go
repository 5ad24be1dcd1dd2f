package configcmd

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/config"
)

const storeSettingsHelp = `
The settings of a store stand in its database and are the same for all processes that use it; "sojourn config" without a sub-command shows
those of this program instead. Known settings: worker_life (how long a worker is listed after its last sign of life, such as 24h),
statistics_days and histogram_days (how many days of statistics and of their histograms are kept). Names that begin with x- are free: the
store keeps up to 100 of them, with values of up to 4,096 bytes. At a server they need the verb admin for all queues and kinds.`

// storeCommands are the commands about the settings of a store.
func storeCommands(a *app) []*cobra.Command {
	return []*cobra.Command{getCommand(a), setCommand(a), unsetCommand(a)}
}

func getCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "get [NAME]", Short: "show the settings of the store, or the value of one", Long: "Shows the settings of the store, or the value of one.\n" + storeSettingsHelp, Args: cobra.MaximumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			if len(args) == 0 {
				return a.listStore(cmd.Context(), c)
			}
			s, err := config.Of(c).Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Result(s, "%s\n", terminal.Clean(s.Value))
		})
	}
	return cmd
}

func (a *app) listStore(ctx context.Context, c *sojourn.Client) error {
	all, err := config.Of(c).All(ctx)
	if err != nil || a.AsJSON() {
		return cli.OrElse(err, func() error { return cli.JSONLines(a.App, all) })
	}
	t := terminal.NewTable(a.Out, "NAME", "VALUE", "SET", "BY")
	for _, s := range all {
		set := "default"
		if s.Set {
			set = s.At.Format(time.RFC3339)
		}
		t.Row(s.Name, terminal.Short(s.Value, 64), set, terminal.Short(s.By, 32))
	}
	return t.Flush()
}

func setCommand(a *app) *cobra.Command {
	var by string
	cmd := &cobra.Command{Use: "set NAME VALUE", Short: "change a setting of the store", Long: "Changes a setting of the store for all processes that use it, within 2 s.\n" + storeSettingsHelp, Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVar(&by, "by", "", "user name that is shown with the setting (default $USER)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := config.Parse(args[0], args[1]); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			s, err := config.Of(c).Set(cmd.Context(), args[0], args[1], cmp.Or(by, a.User()))
			if err != nil {
				return err
			}
			return a.Result(s, "%s is %s\n", s.Name, terminal.Clean(s.Value))
		})
	}
	return cmd
}

func unsetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "unset NAME", Short: "take back a setting of the store", Long: "Takes back a setting of the store: a known one has its default again, a free one is gone.\n" + storeSettingsHelp, Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.ValidName(args[0]); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			if err := config.Of(c).Unset(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.Result(map[string]string{"unset": args[0]}, "%s is not set\n", args[0])
		})
	}
	return cmd
}
