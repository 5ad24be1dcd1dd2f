package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// tailEvery is how often tail looks for what happens before the end, which it learns at once.
const tailEvery = time.Second

const tailHelp = `Follows a job until it is final and shows its steps, progress and log lines. The exit code is the result: 0 completed, 1 failed, 6 cancelled,
7 not final yet (interrupted, or --for has passed). JSON: one line per event, {"at", "event", "text", …}.`

// happened is one line of tail.
type happened struct {
	At      time.Time             `json:"at"`
	Event   string                `json:"event"` // state, progress, log, history or result
	Text    string                `json:"text"`
	History *sojourn.HistoryEntry `json:"history,omitempty"`
	Log     *sojourn.LogLine      `json:"log,omitempty"`
	State   sojourn.State         `json:"state"` // of the job now
	Job     *sojourn.Job          `json:"job,omitempty"`
}

func (a *app) tailCommand() *cobra.Command {
	var kind string
	var length time.Duration
	cmd := &cobra.Command{Use: "tail ID | KEY | KIND/KEY", Short: "follow one job until it is final", Long: tailHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&kind, "kind", "", "read the argument as a key of this kind; for kinds with a / in their name")
	cmd.Flags().DurationVar(&length, "for", 0, "stop after this time (default never)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if length < 0 {
			return sojourn.Invalid("for", "%v is negative; use a duration above 0", length)
		}
		return a.With(func(c *sojourn.Client) error {
			ctx := cmd.Context()
			j, err := find(ctx, c, kind, args[0])
			if err != nil {
				return err
			}
			return a.tail(ctx, c, j.ID, length)
		})
	}
	return cmd
}

// tail shows a job until it is final, or a time above 0 has passed: how it stands is shown at least
// once.
func (a *app) tail(ctx context.Context, c *sojourn.Client, id sojourn.ID, length time.Duration) error {
	f := follower{app: a, lines: map[string]bool{}}
	for first := true; ; first = false {
		j, err := f.look(ctx, c, id)
		if first && length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, length)
			defer cancel()
		}
		if err == nil && j.State.Final() {
			return f.ended(j)
		}
		if err == nil {
			_, err = c.Store().Find(ctx, sojourn.Filter{IDs: []sojourn.ID{id}, States: parse.FinalStates, Wait: tailEvery})
		}
		if ctx.Err() != nil {
			return cli.ExitWith(cli.ExitUnended, fmt.Sprintf("job %d is not final yet", id))
		}
		if err != nil {
			return err
		}
	}
}

// follower remembers the events that it has shown.
type follower struct {
	*app
	state    sojourn.State
	begun    bool
	progress string
	entries  int32           // the Seq of the newest that was shown
	lines    map[string]bool // of the log
}

// look shows new events. It reads the job before its history and log, which are then at least as
// new. So nothing is missing when the job is final.
func (f *follower) look(ctx context.Context, c *sojourn.Client, id sojourn.ID) (*sojourn.Job, error) {
	j, err := c.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	history, err := c.Jobs().History(ctx, id)
	if err != nil {
		return nil, err
	}
	log, err := c.Jobs().Log(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, h := range history {
		if h.Seq <= f.entries {
			continue
		}
		f.entries = h.Seq
		if err := f.show(j, happened{At: h.EndedAt, Event: "history", Text: stepText(h), History: &h}); err != nil {
			return nil, err
		}
	}
	for _, l := range log {
		if key := fmt.Sprint(l.At.UnixNano(), l.Attempt, l.Level, l.By, " ", l.Text); !f.lines[key] {
			f.lines[key] = true
			if err := f.show(j, happened{At: l.At, Event: "log", Text: l.Level + author(l) + " " + l.Text, Log: &l}); err != nil {
				return nil, err
			}
		}
	}
	if j.Progress != f.progress && j.Progress != "" {
		if err := f.show(j, happened{At: j.UpdatedAt, Event: "progress", Text: j.Progress}); err != nil {
			return nil, err
		}
	}
	if !f.begun || j.State != f.state {
		if err := f.show(j, happened{At: j.UpdatedAt, Event: "state", Text: stateLine(j)}); err != nil {
			return nil, err
		}
	}
	f.begun, f.state, f.progress = true, j.State, j.Progress
	return j, nil
}

func (f *follower) show(j *sojourn.Job, h happened) error {
	h.State = j.State
	if f.AsJSON() {
		return f.JSON(h)
	}
	return f.Printf("%s %-8s %s\n", h.At.UTC().Format(time.RFC3339), h.Event, terminal.Clean(h.Text))
}

// stepText is one entry of the history in a line.
func stepText(h sojourn.HistoryEntry) string {
	text := h.Outcome
	if h.Purpose != sojourn.NoPurpose {
		text = fmt.Sprintf("attempt %d, %s: %s", h.Attempt, h.Purpose, h.Outcome)
	}
	for _, part := range []string{h.Reason, h.Error, actor(h)} {
		if part != "" {
			text += ", " + part
		}
	}
	return text
}

func actor(h sojourn.HistoryEntry) string {
	switch {
	case h.By != "":
		return "by " + h.By
	case h.Worker != "":
		return "by " + h.Worker
	}
	return ""
}

func stateLine(j *sojourn.Job) string {
	text := stateText(*j)
	switch {
	case j.State == sojourn.Running:
		text += " by " + j.Worker
	case j.State.Final() && j.Reason != "":
		text += ", " + j.Reason
	case !j.WakeAt.IsZero():
		text += ", until " + j.WakeAt.UTC().Format(time.RFC3339)
	}
	return text
}

// ended shows the result, and tells by the exit code how the job ended.
func (f *follower) ended(j *sojourn.Job) error {
	if f.AsJSON() {
		if err := f.JSON(happened{At: j.FinishedAt, Event: "result", Text: j.Reason, State: j.State, Job: j}); err != nil {
			return err
		}
	} else if err := errors.Join(f.PrintBlock("result", j.ResultType, j.Result), f.PrintBlock("error", "", []byte(j.Error)),
		f.PrintBlock("error detail", "", j.ErrorDetail)); err != nil {
		return err
	}
	switch j.State {
	case sojourn.Completed:
		return nil
	case sojourn.Cancelled:
		return cli.ExitWith(cli.ExitCancelled, fmt.Sprintf("job %d is cancelled", j.ID))
	}
	return cli.ExitWith(cli.ExitFailed, fmt.Sprintf("job %d has failed: %s", j.ID, j.Reason))
}
