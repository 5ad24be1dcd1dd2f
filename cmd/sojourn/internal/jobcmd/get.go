package jobcmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// jobPage is all that the store knows of a job.
type jobPage struct {
	*sojourn.Job
	Inbox []sojourn.Response `json:"inbox"` // every response about it, the newest first
}

func (a *app) getCommand() *cobra.Command {
	return a.onJob("get", "show a job in full, with its responses", func(ctx context.Context, c *sojourn.Client, j *sojourn.Job) error {
		inbox, err := c.Store().Inbox(ctx, sojourn.InboxFilter{Job: j.ID, Limit: sojourn.MaxFind})
		if err != nil {
			return err
		}
		if a.AsJSON() {
			return a.JSON(jobPage{j, append([]sojourn.Response{}, inbox...)})
		}
		status, err := c.Store().Status(ctx)
		if err != nil {
			return err
		}
		var parents []sojourn.Job
		if j.State == sojourn.Blocked {
			if parents, err = c.Store().Find(ctx, sojourn.Filter{ParentsOf: j.ID, Limit: maxParents}); err != nil {
				return err
			}
		}
		return a.printJob(j, parents, inbox, status.Now)
	})
}

// maxParents bounds the jobs that "get" names of those that a job waits for.
const maxParents = 10

func (a *app) printJob(j *sojourn.Job, parents []sojourn.Job, inbox []sojourn.Response, now time.Time) error {
	t := terminal.NewTable(a.Out)
	for _, line := range slices.Concat(headLines(j, now), compositionLines(j, parents, now)) {
		if line[1] != "" {
			t.Row(line[0], line[1])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, block := range []struct {
		name, kind string
		b          []byte
	}{{"args", j.ContentType, j.Args}, {"checkpoint", "", j.Checkpoint}, {"result", j.ResultType, j.Result}, {"error", "", []byte(j.Error)}, {"error detail", "", j.ErrorDetail}} {
		if err := a.PrintBlock(block.name, block.kind, block.b); err != nil {
			return err
		}
	}
	for _, r := range slices.Backward(inbox) {
		if err := a.printResponse(r, now); err != nil {
			return err
		}
	}
	return nil
}

func headLines(j *sojourn.Job, now time.Time) [][2]string {
	lines := [][2]string{
		{"id", idText(j.ID)}, {"kind", j.Kind}, {"key", j.Key}, {"queue", j.Queue}, {"group", j.Group}, {"state", stateText(*j)}, {"reason", j.Reason},
		{"progress", j.Progress}, {"tags", strings.Join(j.Tags, ", ")},
	}
	for _, k := range slices.Sorted(maps.Keys(j.Meta)) {
		lines = append(lines, [2]string{"meta " + k, j.Meta[k]})
	}
	if j.Workflow != "" {
		lines = append(lines, [2]string{"workflow", strings.TrimSpace(j.Workflow + " " + j.Member)})
	}
	worker := ""
	if j.State == sojourn.Running {
		worker = fmt.Sprintf("%s (%s)", j.Worker, j.Purpose)
	}
	lines = append(lines,
		[2]string{"attempt", fmt.Sprintf("%d of generation %d, claimed %s", j.Attempt, j.Generation, terminal.Plural(int(j.Epoch), "time"))},
		[2]string{"failures", fmt.Sprintf("%d of %s", j.Failures, budget(j.Policy.MaxAttempts))},
		[2]string{"crashes", fmt.Sprintf("%d of %s", j.Crashes, budget(j.Policy.MaxCrashes))},
		[2]string{"priority", fmt.Sprint(j.Priority)}, [2]string{"weight", fmt.Sprint(j.Weight)}, [2]string{"worker", worker},
		[2]string{"created", terminal.Stamp(j.CreatedAt, now)}, [2]string{"updated", terminal.Stamp(j.UpdatedAt, now)}, [2]string{"finished", terminal.Stamp(j.FinishedAt, now)},
	)
	return append(lines, clocks(j, now)...)
}

// clocks are what still runs for a live job. wakes is when the store looks at it next, whatever
// else happens: at its start, at the end of a lease or a wait, or at a clock below.
func clocks(j *sojourn.Job, now time.Time) [][2]string {
	if j.State.Final() {
		return nil
	}
	lines := [][2]string{{"started", terminal.Stamp(j.StartedAt, now)}, {"lease until", terminal.Stamp(j.LeaseUntil, now)}, {"wakes", terminal.Stamp(j.WakeAt, now)}}
	if j.State == sojourn.Scheduled || j.State == sojourn.Ready {
		lines = append([][2]string{{"run at", terminal.Stamp(j.RunAt, now)}}, lines...)
	}
	for _, c := range []struct {
		name string
		d    time.Duration
		of   string
	}{{"run timeout", j.Policy.RunTimeout, "each execution"}, {"timeout", j.Policy.Timeout, "each attempt with its waiting"}} {
		if c.d > 0 {
			lines = append(lines, [2]string{c.name, terminal.Human(c.d) + " for " + c.of})
		}
	}
	if j.Policy.Deadline > 0 {
		text := terminal.Human(j.Policy.Deadline) + " for the whole life"
		if j.Generation <= 1 { // a redriven job's life counts from the redrive, which is in its history
			text += ", ends " + terminal.Ago(j.CreatedAt.Add(j.Policy.Deadline), now)
		}
		lines = append(lines, [2]string{"deadline", text})
	}
	lines = append(lines, waits(j.Waiting, now)...)
	if j.Kept > 0 {
		lines = append(lines, [2]string{"attached", terminal.Plural(int(j.Kept), "response") + " that no handler has received yet"})
	}
	return lines
}

// waits are what a job waits for, and the clocks of its wait.
func waits(a *sojourn.Waiting, now time.Time) [][2]string {
	if a == nil {
		return nil
	}
	what := "its id or a token"
	switch {
	case len(a.Keys) == 1:
		what = a.Keys[0]
	case len(a.Keys) > 1:
		what = fmt.Sprintf("%s of %s", a.Mode, strings.Join(a.Keys, ", "))
	}
	lines := [][2]string{{"awaits", what}, {"answered", strings.Join(a.Answered, ", ")}, {"within", terminal.Stamp(a.Until, now)}, {"beat", terminal.Stamp(a.Beat, now)}}
	poll := terminal.Stamp(a.Poll, now)
	if poll != "" && a.Polls > 0 {
		poll += ", after " + terminal.Plural(int(a.Polls), "poll") + " without an answer"
	}
	return append(lines, [2]string{"poll", poll})
}

func budget(n int32) string {
	if n < 0 {
		return "any number"
	}
	return fmt.Sprint(n)
}

func (a *app) printResponse(r sojourn.Response, now time.Time) error {
	name := fmt.Sprintf("response %d, %s, from %s, %s, %s", r.Seq, r.Outcome, terminal.Clean(r.Source), terminal.Clean(r.MessageID), terminal.Ago(r.ReceivedAt, now))
	if r.Duplicates > 0 {
		name += ", " + terminal.Plural(int(r.Duplicates), "duplicate")
	}
	if r.Progress {
		name += ", progress"
	}
	if r.Failed {
		name += terminal.Clean(fmt.Sprintf(", an error: %s %s", r.Reason, r.Error))
	}
	if len(r.Body) == 0 {
		return a.Printf("\n%s\n", name)
	}
	return a.PrintBlock(name, r.ContentType, r.Body)
}
