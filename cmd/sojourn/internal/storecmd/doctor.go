package storecmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/driver"
)

// diagnosis is the output of doctor.
type diagnosis struct {
	Healthy bool `json:"healthy"`
	// Repaired lists the violations that --repair corrected before the checks.
	Repaired []string `json:"repaired,omitempty"`
	Checks   []check  `json:"checks"`
	// Wakeups is sojourn.Status.Wakeups, as this process finds it.
	Wakeups string `json:"wakeups,omitempty"`
	// DeadLeases is sojourn.Status.DeadLeases, as this process finds it.
	DeadLeases string `json:"dead_leases,omitempty"`
	// Archives are those that are behind by more than half of their wait, or have missed jobs.
	Archives []string `json:"archives,omitempty"`
}

type check struct {
	Check      string   `json:"check"`
	Violations []string `json:"violations"` // at most 20
}

const doctorHelp = `Checks the invariants of a store. The store may be in use. Without --repair it changes nothing. Exit code 1 if an invariant
is violated, also after a repair. It reads a few thousand rows at a time and reports progress on stderr; the time grows with the store.`

// repairStore runs the store's Repair if wanted is true, and returns a line for each correction.
func repairStore(ctx context.Context, c *sojourn.Client, wanted bool) (lines []string, err error) {
	if !wanted {
		return nil, nil
	}
	r, ok := c.Store().(driver.Repairer)
	if !ok {
		return nil, fmt.Errorf("this store cannot repair itself")
	}
	found, err := r.Repair(ctx)
	for _, v := range found {
		lines = append(lines, v.Detail)
	}
	return lines, err
}

func (a *app) doctorCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{Use: "doctor", Short: "check the invariants of the store", Args: cobra.NoArgs, Long: doctorHelp}
	cmd.Flags().BoolVar(&repair, "repair", false, "recompute the in-flight counters and the counts of jobs first and report what was wrong, then check; other violations must be fixed by hand")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.With(func(c *sojourn.Client) error {
			checker, ok := c.Store().(driver.Checker)
			if !ok {
				return fmt.Errorf("this store cannot check itself")
			}
			repaired, err := repairStore(cmd.Context(), c, repair)
			if err != nil {
				return err
			}
			violations, err := a.check(cmd.Context(), checker)
			if err != nil {
				return err
			}
			d := diagnose(append(checker.Checks(), readableCheck), append(violations, unreadable(cmd.Context(), c)...))
			d.Repaired = repaired
			if status, err := c.Store().Status(cmd.Context()); err == nil { // its failure is among the violations
				d.Wakeups, d.DeadLeases = status.Wakeups, status.DeadLeases
			}
			d.Archives = lateArchives(cmd.Context(), c)
			return a.printDiagnosis(d)
		})
	}
	return cmd
}

// readableCheck names the check that the commands can read all stored rows. The invariant checks do
// not read every column.
const readableCheck = "rows-readable"

// unreadable reads everything that job ls, queue ls, worker ls, inbox ls and token ls read, and the
// args and results of all jobs.
func unreadable(ctx context.Context, c *sojourn.Client) (found []driver.Violation) {
	note := func(what string, err error) {
		if err != nil {
			found = append(found, driver.Violation{Check: readableCheck, Detail: what + " cannot be read: " + err.Error()})
		}
	}
	var after string
	for {
		jobs, err := c.Store().Find(ctx, sojourn.Filter{After: after, Limit: doctorPage, Full: true})
		note("the jobs after id "+cmp.Or(after, "0"), err)
		if err != nil || len(jobs) < doctorPage {
			break
		}
		after = jobs[len(jobs)-1].ID.String()
	}
	var seq string
	for {
		responses, err := c.Store().Inbox(ctx, sojourn.InboxFilter{After: seq, Limit: doctorPage})
		note(fmt.Sprintf("the inbox before number %s (0 is the newest)", cmp.Or(seq, "0")), err)
		if err != nil || len(responses) < doctorPage {
			break
		}
		seq = strconv.FormatInt(responses[len(responses)-1].Seq, 10)
	}
	_, err := c.Store().Queues(ctx)
	note("the queues", err)
	_, err = c.Store().Workers(ctx, "", 0)
	note("the workers", err)
	if s, ok := c.Store().(access.Keeper); ok {
		_, err := s.AccessTokens(ctx)
		note("the tokens", err)
	}
	return found
}

// doctorPage is how many rows are read at a time, with their args.
const doctorPage = 200

// progressEvery is how often doctor says how far it has come. A check of a small store is over
// before that.
const progressEvery = 5 * time.Second

// check runs the checks, and reports on stderr how far they have come.
func (a *app) check(ctx context.Context, c driver.Checker) ([]driver.Violation, error) {
	p, ok := c.(driver.ProgressChecker)
	if !ok {
		return c.Check(ctx)
	}
	return p.CheckWith(ctx, progress(a.Err, progressEvery))
}

// progress writes a line at most once in every.
func progress(out io.Writer, every time.Duration) func(driver.CheckProgress) {
	last := time.Now()
	return func(at driver.CheckProgress) {
		if time.Since(last) >= every {
			last = time.Now()
			fmt.Fprintf(out, "check %d of %d, %s: %d rows read so far\n", at.Number, at.Of, at.Check, at.Rows)
		}
	}
}

// diagnose sorts violations by their checks. One of a check that is not in names is shown all the
// same.
func diagnose(names []string, violations []driver.Violation) diagnosis {
	d := diagnosis{Healthy: len(violations) == 0}
	place := map[string]int{}
	add := func(name string) int {
		i, ok := place[name]
		if !ok {
			i = len(d.Checks)
			place[name] = i
			d.Checks = append(d.Checks, check{Check: name, Violations: []string{}})
		}
		return i
	}
	for _, n := range names {
		add(n)
	}
	for _, v := range violations {
		c := &d.Checks[add(v.Check)]
		c.Violations = append(c.Violations, v.Detail)
	}
	return d
}

// wakeupsText explains sojourn.Status.Wakeups.
func wakeupsText(way string) string {
	if way == "poll" {
		return "poll: other processes see new jobs after up to 200 ms"
	}
	return way
}

// deadLeasesText explains sojourn.Status.DeadLeases.
func deadLeasesText(end string) string {
	switch end {
	case "at_once":
		return "at once: leases of a dead process end within seconds"
	case "by_time":
		return "by time: leases of a dead process end when they expire, because connections keep no session"
	}
	return end
}

func (a *app) printDiagnosis(d diagnosis) error {
	bad := 0
	t := terminal.NewTable(a.Out, "CHECK", "RESULT")
	for _, line := range d.Repaired {
		t.Row("repaired", line)
	}
	if d.Wakeups != "" {
		t.Row("wake-ups", wakeupsText(d.Wakeups))
	}
	if d.DeadLeases != "" {
		t.Row("dead-leases", deadLeasesText(d.DeadLeases))
	}
	for _, line := range d.Archives {
		t.Row("archive", line)
	}
	for _, c := range d.Checks {
		if len(c.Violations) == 0 {
			t.Row(c.Check, "ok")
			continue
		}
		bad++
		t.Row(c.Check, terminal.Plural(len(c.Violations), "violation"))
		for _, v := range c.Violations {
			t.Row("", v)
		}
	}
	show := t.Flush
	if a.AsJSON() {
		show = func() error { return a.JSON(d) }
	}
	if err := show(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%s of %d found violations", terminal.Plural(bad, "check"), len(d.Checks))
	}
	return nil
}
