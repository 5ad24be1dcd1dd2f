package inboxcmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/rules"
)

// responsePage is all that the store knows of a response.
type responsePage struct {
	sojourn.Response
	Near []sojourn.NearMiss `json:"near"` // jobs and responses with a similar key, if no job took it
}

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get SEQ", Short: "show a response in full, and jobs with a similar key if no job has it", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seqs, err := parseSeqs(args)
		if err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error { return a.get(cmd.Context(), c, seqs[0]) })
	}
	return cmd
}

func (a *app) get(ctx context.Context, c *sojourn.Client, seq int64) error {
	found, err := c.Store().Inbox(ctx, sojourn.InboxFilter{After: strconv.FormatInt(seq+1, 10), Limit: 1})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].Seq != seq {
		return sojourn.NotFound("no response has the number %d", seq)
	}
	page := responsePage{found[0], []sojourn.NearMiss{}}
	if lies(page.Response) && page.Replay == 0 && page.Key != "" {
		near, err := c.Inbox().NearMisses(ctx, page.Kind, page.Key)
		if err != nil {
			return err
		}
		page.Near = append(page.Near, near...)
	}
	if a.AsJSON() {
		return a.JSON(page)
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return err
	}
	return a.printResponsePage(page, status.Now)
}

// lies reports whether nobody has a response.
func lies(r sojourn.Response) bool {
	return r.Outcome == sojourn.Unmatched || r.Outcome == sojourn.Early && r.Job == 0
}

func (a *app) printResponsePage(p responsePage, now time.Time) error {
	job, replay := "", ""
	if p.Job > 0 {
		job = fmt.Sprint(p.Job)
	}
	if p.Replay > 0 {
		replay = fmt.Sprintf("response %d", p.Replay)
	}
	t := terminal.NewTable(a.Out)
	for _, line := range [][2]string{{"response", fmt.Sprint(p.Seq)}, {"outcome", string(p.Outcome)}, {"kind", p.Kind}, {"key", p.Key}, {"job", job},
		{"source", p.Source}, {"message id", p.MessageID}, {"duplicates", fmt.Sprint(p.Duplicates)}, {"reason", p.Reason},
		{"received", terminal.Stamp(p.ReceivedAt, now)}, {"expires", terminal.Stamp(p.ExpiresAt, now)}, {"by", p.By}, {"sent again as", replay}} {
		if line[1] != "" {
			t.Row(line[0], line[1])
		}
	}
	for _, n := range p.Near {
		t.Row("near", nearText(n, p.Seq))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := a.PrintBlock("error", "", []byte(p.Error)); err != nil {
		return err
	}
	return a.PrintBlock("body", p.ContentType, p.Body)
}

// nearText shows a near miss of response seq, with the command that mends it.
func nearText(n sojourn.NearMiss, seq int64) string {
	if n.Job > 0 {
		return fmt.Sprintf("%s, job %d: sojourn inbox match %d --job %d", n.Key, n.Job, seq, n.Job)
	}
	return fmt.Sprintf("%s, response %d", n.Key, n.Seq)
}

const inboxMatchHelp = `Delivers a response that no job took to a job, or to the job that has or awaits a key. The content is stored as a new response, and its
outcome is printed. The old response stays and refers to the new one. If you repeat the command, the outcome is duplicate.

  sojourn inbox match 17 --job 4711
  sojourn inbox match 17 charge_card inv-43`

func (a *app) matchCommand() *cobra.Command {
	var job int64
	cmd := &cobra.Command{Use: "match SEQ (KIND KEY | --job ID)", Short: "deliver a response to a job", Long: inboxMatchHelp, Args: cobra.RangeArgs(1, 3)}
	cmd.Flags().Int64Var(&job, "job", 0, "the job's `id`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seqs, err := parseSeqs(args[:1])
		if err != nil {
			return err
		}
		e := rules.InboxEdit{Seq: seqs[0], Action: sojourn.InboxMatch, Job: sojourn.ID(job), By: a.User()}
		to := sojourn.Response{Job: e.Job}
		if err := address(&to, args[1:], "--job"); err != nil {
			return err
		}
		e.Kind, e.Key = to.Kind, to.Key
		if err := e.Validate(); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error { return a.editInbox(cmd.Context(), c, e) })
	}
	return cmd
}

// eachCommand does the same with each of several responses; the first failure ends it.
func (a *app) eachCommand(action string, short string) *cobra.Command {
	cmd := &cobra.Command{Use: action + " SEQ...", Short: short, Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seqs, err := parseSeqs(args)
		if err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			for _, seq := range seqs {
				if err := a.editInbox(cmd.Context(), c, rules.InboxEdit{Seq: seq, Action: action, By: a.User()}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) editInbox(ctx context.Context, c *sojourn.Client, e rules.InboxEdit) error {
	answer, err := c.Store().EditInbox(ctx, e.Seq, e.Action, e.To())
	if err != nil {
		return err
	}
	return a.printResponded(answer)
}

func (a *app) countCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "count", Short: "count responses by outcome and source", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			counts, err := c.Inbox().Counts(cmd.Context())
			if err != nil {
				return err
			}
			if a.AsJSON() {
				return a.JSON(counts)
			}
			status, err := c.Store().Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.printCounts(counts, status.Now)
		})
	}
	return cmd
}

func (a *app) printCounts(counts sojourn.InboxCounts, now time.Time) error {
	t := terminal.NewTable(a.Out, "LIES", "RESPONSES")
	for _, o := range Outcomes {
		if n, ok := counts.Lying[o]; ok {
			text := fmt.Sprint(n)
			if n >= sojourn.MaxInboxCount {
				text += " or more"
			}
			t.Row(string(o), text)
		}
	}
	if err := t.Flush(); err != nil || len(counts.BySource) == 0 {
		return err
	}
	if err := a.Printf("\nthe newest, since %s\n", terminal.Stamp(counts.Since, now)); err != nil {
		return err
	}
	t = terminal.NewTable(a.Out, "SOURCE", "OUTCOME", "RESPONSES")
	for _, source := range slices.Sorted(maps.Keys(counts.BySource)) {
		for _, outcome := range slices.Sorted(maps.Keys(counts.BySource[source])) {
			t.Row(terminal.Short(source, 32), string(outcome), fmt.Sprint(counts.BySource[source][outcome]))
		}
	}
	return t.Flush()
}

// parseSeqs reads the numbers of responses, each once.
func parseSeqs(args []string) ([]int64, error) {
	var seqs []int64
	for _, arg := range args {
		seq, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || seq < 1 {
			return nil, sojourn.Invalid("seq", "%.64q is not the number of a response; use a SEQ of \"sojourn inbox ls\"", arg)
		}
		if !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}
