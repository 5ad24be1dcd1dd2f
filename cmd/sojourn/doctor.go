package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

// diagnosis is the output of doctor.
type diagnosis struct {
	Healthy bool `json:"healthy"`
	// Repaired is what was wrong before the checks and is right now.
	Repaired []string `json:"repaired,omitempty"`
	Checks   []check  `json:"checks"`
}

type check struct {
	Check      string   `json:"check"`
	Violations []string `json:"violations"` // at most 20
}

const doctorHelp = `Checks what must always hold in a store, while it is in use or not. Without --repair it changes nothing. Exit code 1 if anything
is broken, also after a repair.`

// repaired corrects what can be corrected, if that is wanted, and says what it was.
func repaired(ctx context.Context, c *sojourn.Client, wanted bool) (lines []string, err error) {
	if !wanted {
		return nil, nil
	}
	r, ok := c.Store().(sojourn.Repairer)
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
	cmd := &cobra.Command{Use: "doctor", Short: "check the store's own invariants", Args: cobra.NoArgs, Long: doctorHelp}
	cmd.Flags().BoolVar(&repair, "repair", false, "before, correct the sums of the weight in flight; nothing else can be derived from the jobs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(func(c *sojourn.Client) error {
			checker, ok := c.Store().(sojourn.Checker)
			if !ok {
				return fmt.Errorf("this store cannot check itself")
			}
			repaired, err := repaired(cmd.Context(), c, repair)
			if err != nil {
				return err
			}
			violations, err := checker.Check(cmd.Context())
			if err != nil {
				return err
			}
			d := diagnose(checker.Checks(), violations)
			d.Repaired = repaired
			return a.printDiagnosis(d)
		})
	}
	return cmd
}

// diagnose sorts violations by their checks. One of a check that is not in names is shown all the same.
func diagnose(names []string, violations []sojourn.Violation) diagnosis {
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

func (a *app) printDiagnosis(d diagnosis) error {
	bad := 0
	t := newTable(a.out, "CHECK", "RESULT")
	for _, line := range d.Repaired {
		t.row("repaired", line)
	}
	for _, c := range d.Checks {
		if len(c.Violations) == 0 {
			t.row(c.Check, "ok")
			continue
		}
		bad++
		t.row(c.Check, plural(len(c.Violations), "violation"))
		for _, v := range c.Violations {
			t.row("", v)
		}
	}
	show := t.flush
	if a.asJSON() {
		show = func() error { return a.json(d) }
	}
	if err := show(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%s of %d found violations", plural(bad, "check"), len(d.Checks))
	}
	return nil
}
