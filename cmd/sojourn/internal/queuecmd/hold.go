package queuecmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

func (a *app) holdCommand() *cobra.Command {
	var d time.Duration
	var reason string
	cmd := &cobra.Command{Use: "hold QUEUE", Short: "start no jobs of a queue for a time, then ramp up; resumed jobs continue", Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&d, "for", 10*time.Minute, "duration of the hold, up to 24h; replaces a longer hold")
	cmd.Flags().StringVar(&reason, "reason", "", "reason to show")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if d <= 0 {
			return sojourn.Invalid("for", "%v is out of range: above 0; \"sojourn queue unhold\" ends a hold", d)
		}
		return a.With(func(c *sojourn.Client) error {
			err := c.Queues().Hold(cmd.Context(), args[0], d, reason)
			return cli.OrElse(err, func() error { return a.Printf("queue %s is on hold for %v\n", args[0], d) })
		})
	}
	return cmd
}

func (a *app) unholdCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "unhold QUEUE", Short: "end a hold at once, without ramping up", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error {
			err := c.Queues().Hold(cmd.Context(), args[0], 0, "")
			return cli.OrElse(err, func() error { return a.Printf("queue %s is no longer on hold\n", args[0]) })
		})
	}
	return cmd
}
