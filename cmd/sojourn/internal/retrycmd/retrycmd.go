// Package retrycmd has the command "retry", which tries a retry policy on jobs that have failed.
package retrycmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/store/retry"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "retry".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("retry", "try a retry policy on jobs that have failed", (&app{a}).testCommand())
}

const testHelp = `Shows what a retry policy would have done with the jobs that failed within --since, by failure group. It only reads. RETRIED would
have been retried after their last failure, SAME would have failed at the same attempt, EARLIER at an earlier one, and OTHER were
ended by something that asks no policy (Abort, a retry policy in code, the deadline, an operator). EXTRA are the further attempts
that the policy would have allowed, SAVED the failures that would not have happened, DELAY is the wait before the first further
attempt. A field that is not given stays that of each job.`

func (a *app) testCommand() *cobra.Command {
	var (
		q        retry.Query
		text     string
		attempts int32
		crashes  int32
		since    time.Duration
		detail   bool
	)
	cmd := &cobra.Command{Use: "test", Short: "show what a retry policy would have done with failed jobs", Long: testHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&text, "policy", "", "the policy as `JSON`, such as {\"max_attempts\": 8, \"backoff\": {\"first\": \"30s\"}}; it takes max_attempts, max_crashes, backoff, on_lost and on_panic")
	fl.Int32Var(&attempts, "max-attempts", 0, "errors and timeouts until a job fails; -1 = no limit")
	fl.Int32Var(&crashes, "max-crashes", 0, "lost leases until a job fails; -1 = no limit")
	fl.StringVar(&q.Queue, "queue", "", "only jobs of this queue")
	fl.StringVar(&q.Kind, "kind", "", "only jobs of this kind")
	fl.StringVar(&q.Reason, "reason", "", "only jobs with this reason")
	fl.StringVar(&q.Failure, "failure", "", "only jobs of this failure group")
	fl.DurationVar(&since, "since", retry.DefaultSince, "only jobs that failed within this `duration`, by the store's clock")
	fl.IntVar(&q.Groups, "groups", retry.DefaultGroups, "look at so many failure groups, those with the latest failures first")
	fl.IntVar(&q.Jobs, "jobs", retry.DefaultJobs, "look at so many failed jobs of each group, the newest first")
	fl.BoolVar(&detail, "detail", false, "also one line for each job")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if text != "" {
			if err := jsonform.ReadStrict([]byte(text), &q.Policy); err != nil {
				return sojourn.Invalid("policy", "--policy is not the JSON of a policy: %v", err)
			}
		}
		if fl.Changed("max-attempts") {
			q.Policy.MaxAttempts = attempts
		}
		if fl.Changed("max-crashes") {
			q.Policy.MaxCrashes = crashes
		}
		if since <= 0 || since > sojourn.MaxHorizon {
			return sojourn.Invalid("since", "%v is out of range: more than 0, up to 10 years", since)
		}
		if err := q.Validate(); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error {
			status, err := c.Store().Status(cmd.Context())
			if err != nil {
				return err
			}
			q.Since = status.Now.Add(-since)
			report, err := retry.Test(cmd.Context(), c, q)
			if err != nil {
				return err
			}
			if !detail {
				for i := range report.Groups {
					report.Groups[i].Trials = nil
				}
			}
			return a.print(report)
		})
	}
	return cmd
}

func (a *app) print(r retry.Report) error {
	if a.AsJSON() {
		return a.JSON(r)
	}
	t := terminal.NewTable(a.Out, "FAILURE", "JOBS", "RETRIED", "SAME", "EARLIER", "OTHER", "EXTRA", "SAVED", "DELAY", "QUEUE", "KIND", "REASON", "CAUSE")
	for _, g := range r.Groups {
		t.Row(row(g.Failure, g.Counts, g.More, g.Queue, g.Kind, g.Reason, cause(g))...)
	}
	t.Row(row("total", r.Total, false, "", "", "", "")...)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, g := range r.Groups {
		for _, trial := range g.Trials {
			if err := a.Printf("%s\n", line(trial)); err != nil {
				return err
			}
		}
	}
	return a.Printf("%s", looked(r))
}

// row is a row of the table.
func row(name string, c retry.Counts, more bool, rest ...string) []string {
	jobs := fmt.Sprint(c.Jobs)
	if more {
		jobs += "+"
	}
	extra := fmt.Sprint(c.Extra)
	if c.Unlimited > 0 {
		extra = "no limit"
	}
	delay := "-"
	if c.Retried > 0 {
		delay = terminal.Human(c.MinDelay)
		if c.MaxDelay != c.MinDelay {
			delay += " to " + terminal.Human(c.MaxDelay)
		}
	}
	return append([]string{name, jobs, fmt.Sprint(c.Retried), fmt.Sprint(c.Same), fmt.Sprint(c.Earlier), fmt.Sprint(c.Other), extra, fmt.Sprint(c.Saved), delay}, rest...)
}

func cause(g retry.Group) string {
	switch {
	case g.Other:
		return "(all other causes)"
	case g.Pattern == "":
		return "(no error text)"
	}
	return terminal.Clean(sojourn.Cut(g.Pattern, 120))
}

// line describes the result for one job.
func line(t retry.Trial) string {
	text := fmt.Sprintf("job %d: %s", t.Job, t.Result)
	switch {
	case t.Result == retry.Earlier:
		text += fmt.Sprintf(", %s saved", terminal.Plural(int(t.Saved), "attempt"))
	case t.Result == retry.Retried:
		delays := make([]string, len(t.Delays))
		for i, d := range t.Delays {
			delays[i] = terminal.Human(d)
		}
		if t.Extra < 0 || t.Extra > int64(len(delays)) {
			delays = append(delays, "…")
		}
		text += " after " + strings.Join(delays, ", ")
	}
	if t.Why != "" {
		text += " (" + terminal.Clean(t.Why) + ")"
	}
	return text
}

// looked returns the sentence about how many jobs were looked at and which were not.
func looked(r retry.Report) string {
	text := fmt.Sprintf("looked at %s of %s that failed since %s\n", terminal.Plural(r.Total.Jobs, "job"), terminal.Plural(len(r.Groups), "group"), r.Since.UTC().Format(time.RFC3339))
	for _, g := range r.Groups {
		if g.More {
			text += "groups marked with + have more failed jobs: raise --jobs\n"
			break
		}
	}
	if r.MoreGroups {
		text += "there are more failure groups: raise --groups\n"
	}
	return text
}
