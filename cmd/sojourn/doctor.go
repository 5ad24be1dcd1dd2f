package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
)

// diagnosis is the output of doctor.
type diagnosis struct {
	Healthy bool    `json:"healthy"`
	Checks  []check `json:"checks"`
}

type check struct {
	Check      string   `json:"check"`
	Violations []string `json:"violations"` // at most 20
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "check the store's own invariants", Args: cobra.NoArgs,
		Long: "Checks what must always hold in a store, while it is in use or not. It changes nothing. Exit code 1 if anything is broken."}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(func(c *sojourn.Client) error {
			checker, ok := c.Store().(sojourn.Checker)
			if !ok {
				return fmt.Errorf("this store cannot check itself")
			}
			violations, err := checker.Check(cmd.Context())
			if err != nil {
				return err
			}
			return a.printDiagnosis(diagnose(checker.Checks(), violations))
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
