// Package tailcmd has the command "follower", which makes, lists and deletes followers of events,
// and prints their events as they happen.
package tailcmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store/event"
)

const longHelp = `Prints each change of a job's state, one line an event: time, job, queue, kind, key, state before and after. Without a name, from now on
until the command is interrupted. With the name of a follower it goes on where the last "tail" of that follower stopped; the follower is made
if there is none, and stays. An event is acknowledged after it was printed, so after a crash some are printed again.

A line "gap" means that events are missing: the follower had not read them for 24 hours.`

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

func (s *app) tailCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tail [FOLLOWER]", Short: "print events of jobs as they happen", Long: longHelp, Args: cobra.MaximumNArgs(1)}
	filter := filterFlags(cmd)
	once := cmd.Flags().Bool("once", false, "print the events that are there, and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		return s.With(func(c *sojourn.Client) error { return s.tail(cmd.Context(), event.Of(c), args, f, *once) })
	}
	return cmd
}

// filterFlags adds the flags of a filter.
func filterFlags(cmd *cobra.Command) func() (event.Filter, error) {
	var f event.Filter
	fl := cmd.Flags()
	fl.StringVar(&f.Queue, "queue", "", "only jobs in this queue")
	fl.StringVar(&f.Kind, "kind", "", "only jobs of this kind")
	fl.StringVar(&f.Key, "key", "", "only jobs with this key")
	fl.StringVar(&f.Tag, "tag", "", "only jobs with this tag")
	states := fl.StringSlice("state", nil, "only transitions to these states")
	return func() (event.Filter, error) {
		var err error
		if len(*states) > 0 {
			f.States, err = parse.States(*states)
		}
		return f, err
	}
}

// tail prints the events of a follower, or of one that lasts as long as the command.
func (a *app) tail(ctx context.Context, events event.Events, args []string, f event.Filter, once bool) error {
	var name string
	if len(args) > 0 {
		name = args[0]
	} else {
		name = "tail-" + strings.ToLower(rand.Text()[:12])
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = events.Unfollow(ctx, name) // else the sweep deletes it after 7 days
		}()
	}
	if _, err := events.Follow(ctx, name, f); err != nil {
		return err
	}
	if once {
		return a.once(ctx, events, name)
	}
	for e, err := range events.Tail(ctx, name) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.print(e); err != nil {
			return err
		}
	}
	return nil
}

// once prints and acknowledges the events that there are.
func (a *app) once(ctx context.Context, events event.Events, name string) error {
	for r := (event.Read{Follower: name, Limit: sojourn.MaxFind}); ; {
		page, err := events.Read(ctx, r)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := a.print(e); err != nil {
				return err
			}
		}
		if r.Ack = page.Next; len(page.Events) == 0 {
			return nil
		}
	}
}

func (a *app) print(e event.Event) error {
	switch {
	case a.AsJSON():
		return a.JSON(e)
	case e.Type == event.Gap:
		return a.Printf("gap: events up to %s are missing\n", e.Position)
	}
	from := "-"
	if e.From != 0 {
		from = e.From.String()
	}
	key := terminal.Clean(e.Key)
	if key != "" {
		key = " " + key
	}
	return a.Printf("%s %d %s %s%s %s -> %s\n", e.At.Format(time.RFC3339Nano), e.Job, e.Queue, e.Kind, key, from, e.State)
}

// FollowerCommand makes the command "follower".
func FollowerCommand(a *cli.App) *cobra.Command {
	s := &app{a}
	return cli.Group("follower", "followers of events", s.addCommand(), s.tailCommand(), s.lsCommand(), s.rmCommand())
}

func (a *app) addCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "add FOLLOWER", Short: "make a follower: from now on events are stored for it", Args: cobra.ExactArgs(1)}
	filter := filterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			out, err := event.Of(c).Follow(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			return a.Result(out, "%s follows from %s on\n", out.Name, out.Position)
		})
	}
	return cmd
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list followers and how far they are behind", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			all, err := event.Of(c).Followers(cmd.Context())
			if err != nil {
				return err
			}
			if a.AsJSON() {
				return cli.JSONLines(a.App, all)
			}
			t := terminal.NewTable(a.Out, "FOLLOWER", "OWNER", "LAG", "BEHIND", "GAP", "POSITION")
			for _, f := range all {
				t.Row(f.Name, f.Owner, fmt.Sprint(f.Lag), terminal.Human(time.Duration(f.Behind*float64(time.Second))), map[bool]string{true: "yes", false: "no"}[f.Gap], string(f.Position))
			}
			return t.Flush()
		})
	}
	return a.Watchable(cmd)
}

func (a *app) rmCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm FOLLOWER", Short: "delete a follower", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.With(func(c *sojourn.Client) error { return event.Of(c).Unfollow(cmd.Context(), args[0]) })
	}
	return cmd
}
