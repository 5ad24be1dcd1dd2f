package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

func (a *app) whyCommand() *cobra.Command {
	var queue string
	cmd := &cobra.Command{Use: "why [ID | KIND/KEY]", Short: "explain why a job does not run, or why a queue starts no jobs", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&queue, "queue", "", "explain the first 1,000 ready jobs of this `queue`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (queue == "") == (len(args) == 0) {
			return sojourn.Invalid("queue", "give either a job or, with --queue, a queue")
		}
		return a.with(func(c *sojourn.Client) error {
			status, err := c.Store().Status(cmd.Context())
			if err != nil {
				return err
			}
			if queue != "" {
				w, err := c.WhyQueue(cmd.Context(), queue)
				return orElse(err, func() error { return a.printQueueWhy(w, status.Now) })
			}
			j, err := find(cmd.Context(), c, "", args[0])
			if err != nil {
				return err
			}
			w, err := c.Why(cmd.Context(), j.ID)
			if err != nil {
				return err
			}
			near, err := nearAwaited(cmd.Context(), c, w)
			return orElse(err, func() error { return a.printWhy(w, near, status.Now) })
		})
	}
	return cmd
}

// nearAwaited finds responses that lie under nearly a key that the job waits for.
func nearAwaited(ctx context.Context, c *sojourn.Client, w sojourn.Why) (near []sojourn.NearMiss, err error) {
	for _, key := range w.Keys[:min(len(w.Keys), 10)] {
		found, err := c.NearMisses(ctx, w.Kind, key)
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
	if a.asJSON() {
		return a.json(struct {
			sojourn.Why
			Near []sojourn.NearMiss `json:"near,omitempty"`
		}{w, near})
	}
	t := newTable(a.out)
	t.row("job", fmt.Sprintf("%d, %s in queue %s, %s", w.ID, w.Kind, w.Queue, w.State))
	t.row("waits", w.Waits)
	for _, line := range [][2]string{{"gate", w.Gate}, {"until", stamp(w.Until, now)}, {"worker", w.Worker}, {"keys", strings.Join(w.Keys, ", ")}} {
		if line[1] != "" {
			t.row(line[0], line[1])
		}
	}
	for _, n := range near {
		t.row("near", fmt.Sprintf("response %d came under %s: sojourn inbox match %d --job %d", n.Seq, n.Key, n.Seq, w.ID))
	}
	if len(w.Gates) > 0 {
		ahead := strconv.FormatInt(w.Ahead, 10)
		if w.Ahead == sojourn.MaxAhead {
			ahead += " or more"
		}
		t.row("ahead", ahead)
	}
	if w.Unhandled {
		t.row("worker", "no worker has polled for this kind in this queue within the last day")
	}
	if err := t.flush(); err != nil || len(w.Gates) == 0 {
		return err
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	t = newTable(a.out, "GATE", "STATE", "USED", "OF", "OPENS", "WHY")
	for _, g := range w.Gates {
		t.row(gateRow(g, now)...)
	}
	return t.flush()
}

func gateRow(g sojourn.Gate, now time.Time) []string {
	state, used, of := "pass", "", ""
	if !g.Open {
		state = "hold"
	}
	if g.Of > 0 {
		used, of = fmt.Sprint(g.Used), fmt.Sprint(g.Of)
	}
	return []string{g.Name, state, used, of, stamp(g.Until, now), g.Text}
}

func (a *app) printQueueWhy(w sojourn.QueueWhy, now time.Time) error {
	if a.asJSON() {
		return a.json(w)
	}
	if err := a.printf("%s checked, %d of them could start\n", plural(int(w.Asked), "job"), w.Open); err != nil {
		return err
	}
	if w.Trouble.Count > 0 {
		if err := a.printf("the throttler has failed %d times, last %s: %s\n", w.Trouble.Count, ago(w.Trouble.At, now), clean(w.Trouble.Text)); err != nil {
			return err
		}
	}
	if len(w.Held) == 0 {
		return nil
	}
	t := newTable(a.out, "JOBS", "FIRST", "GATE", "STATE", "USED", "OF", "OPENS", "WHY")
	for _, h := range w.Held {
		t.row(append([]string{fmt.Sprint(h.Jobs), fmt.Sprint(h.ID)}, gateRow(h.Gate, now)...)...)
	}
	return t.flush()
}

func (a *app) queueHoldCommand() *cobra.Command {
	var d time.Duration
	var reason string
	cmd := &cobra.Command{Use: "hold QUEUE", Short: "start no jobs of a queue for a time, then ramp up; resumed jobs continue", Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&d, "for", 10*time.Minute, "duration of the hold, up to 24h")
	cmd.Flags().StringVar(&reason, "reason", "", "reason to show")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if d <= 0 {
			return sojourn.Invalid("for", "%v is out of range: above 0; \"sojourn queue unhold\" ends a hold", d)
		}
		return a.with(func(c *sojourn.Client) error {
			err := c.HoldQueue(cmd.Context(), args[0], d, reason)
			return orElse(err, func() error { return a.printf("queue %s is on hold for %v\n", args[0], d) })
		})
	}
	return cmd
}

func (a *app) queueUnholdCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "unhold QUEUE", Short: "end a hold at once, without ramping up", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(func(c *sojourn.Client) error {
			err := c.HoldQueue(cmd.Context(), args[0], 0, "")
			return orElse(err, func() error { return a.printf("queue %s is no longer on hold\n", args[0]) })
		})
	}
	return cmd
}
