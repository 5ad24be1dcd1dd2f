package jobcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

func (a *app) whyCommand() *cobra.Command {
	var queue string
	cmd := &cobra.Command{Use: "why [ID | KEY | KIND/KEY]", Short: "explain why a job does not run, or why a queue starts no jobs", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&queue, "queue", "", "explain the first 1,000 ready jobs of this `queue`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (queue == "") == (len(args) == 0) {
			return sojourn.Invalid("queue", "give either a job or, with --queue, a queue")
		}
		return a.With(func(c *sojourn.Client) error {
			status, err := c.Store().Status(cmd.Context())
			if err != nil {
				return err
			}
			if queue != "" {
				w, err := c.Queues().Why(cmd.Context(), queue)
				return cli.OrElse(err, func() error { return a.printQueueWhy(w, status.Now) })
			}
			j, err := find(cmd.Context(), c, "", args[0])
			if err != nil {
				return err
			}
			w, err := c.Jobs().Why(cmd.Context(), j.ID)
			if err != nil {
				return err
			}
			near, err := nearAwaited(cmd.Context(), c, w)
			return cli.OrElse(err, func() error { return a.printWhy(w, near, status.Now) })
		})
	}
	return cmd
}

// nearAwaited finds stored responses whose key is similar to one that the job waits for.
func nearAwaited(ctx context.Context, c *sojourn.Client, w sojourn.Why) (near []sojourn.NearMiss, err error) {
	for _, key := range w.Keys[:min(len(w.Keys), 10)] {
		found, err := c.Inbox().NearMisses(ctx, w.Kind, key)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			if n.Seq > 0 {
				near = append(near, n)
			}
		}
	}
	return near, nil
}

func (a *app) printWhy(w sojourn.Why, near []sojourn.NearMiss, now time.Time) error {
	if a.AsJSON() {
		return a.JSON(struct {
			sojourn.Why
			Near []sojourn.NearMiss `json:"near,omitempty"`
		}{w, near})
	}
	t := terminal.NewTable(a.Out)
	t.Row("job", fmt.Sprintf("%d, %s in queue %s, %s", w.ID, w.Kind, w.Queue, w.State))
	t.Row("waits", w.Waits)
	for _, line := range [][2]string{{"gate", w.Gate}, {"until", terminal.Stamp(w.Until, now)}, {"worker", w.Worker}, {"keys", strings.Join(w.Keys, ", ")}} {
		if line[1] != "" {
			t.Row(line[0], line[1])
		}
	}
	for _, n := range near {
		t.Row("near", fmt.Sprintf("response %d came under %s: sojourn inbox match %d --job %d", n.Seq, n.Key, n.Seq, w.ID))
	}
	if len(w.Gates) > 0 {
		ahead := strconv.FormatInt(w.Ahead, 10)
		if w.Ahead == sojourn.MaxAhead {
			ahead += " or more"
		}
		t.Row("ahead", ahead)
	}
	if w.Unhandled {
		t.Row("worker", "no worker has polled for this kind in this queue within the last day")
	}
	if err := t.Flush(); err != nil || len(w.Gates) == 0 {
		return err
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	t = terminal.NewTable(a.Out, "GATE", "STATE", "USED", "OF", "OPENS", "WHY")
	for _, g := range w.Gates {
		t.Row(gateRow(g, now)...)
	}
	return t.Flush()
}

func gateRow(g sojourn.Gate, now time.Time) []string {
	state, used, of := "pass", "", ""
	if !g.Open {
		state = "hold"
	}
	if g.Of > 0 {
		used, of = fmt.Sprint(g.Used), fmt.Sprint(g.Of)
	}
	return []string{g.Name, state, used, of, terminal.Stamp(g.Until, now), g.Text}
}

func (a *app) printQueueWhy(w sojourn.QueueWhy, now time.Time) error {
	if a.AsJSON() {
		return a.JSON(w)
	}
	if err := a.Printf("%s checked, %d of them could start\n", terminal.Plural(int(w.Asked), "job"), w.Open); err != nil {
		return err
	}
	if w.ThrottleErrors > 0 {
		if err := a.Printf("the throttler has failed %d times, last %s: %s\n", w.ThrottleErrors, terminal.Ago(w.ThrottleErrorAt, now), terminal.Clean(w.ThrottleError)); err != nil {
			return err
		}
	}
	if len(w.Held) == 0 {
		return nil
	}
	t := terminal.NewTable(a.Out, "JOBS", "FIRST", "GATE", "STATE", "USED", "OF", "OPENS", "WHY")
	for _, h := range w.Held {
		t.Row(append([]string{fmt.Sprint(h.Jobs), fmt.Sprint(h.First)}, gateRow(h, now)...)...)
	}
	return t.Flush()
}
