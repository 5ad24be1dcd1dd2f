package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "look after the tables of a store", a.migrateStatusCommand(), a.migrateUpCommand(), a.migrateDownCommand(),
		a.migratePrintCommand(), a.migrateCheckCommand())
}

// schema is the output of status, up, down and check.
type schema struct {
	sojourn.Schema
	Steps []string `json:"steps,omitempty"` // that were taken
	Drift []string `json:"drift,omitempty"`
}

func (s schema) String() string {
	return fmt.Sprintf("schema %d, the newest is %d", s.Found, s.Newest)
}

// migrating opens the tables of a store for fn, whatever version they have.
func (a *app) migrating(fn func(m sojourn.Migrator) error, options ...store.Option) error {
	if err := store.Valid(a.url()); err != nil {
		return err
	}
	if store.IsServer(a.url()) {
		return sojourn.Invalid("store", "%s is a server, which looks after its own tables: name the database, where the server runs", a.shown())
	}
	m, err := store.OpenMigrator(a.url(), options...)
	if err != nil {
		return &unusableError{err}
	}
	return errors.Join(fn(m), m.Close())
}

// show prints the schema, what was done about it and what is wrong with it.
func (a *app) show(s schema) error {
	if a.asJSON() {
		return a.json(s)
	}
	for _, line := range append(s.Steps, s.Drift...) {
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	return a.printf("%s\n", s)
}

func (a *app) migrateStatusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "show the schema's version; exit code 1 if this program cannot work with it", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m sojourn.Migrator) error {
			found, err := m.Schema(cmd.Context())
			if err == nil {
				err = a.show(schema{Schema: found})
			}
			if err == nil {
				err = usable(found)
			}
			return err
		}, store.MustExist())
	}
	return cmd
}

// usable says what to do about a schema that this program cannot work with.
func usable(s sojourn.Schema) error {
	switch {
	case s.Found < s.Newest:
		return errors.New(`the schema is not the newest: run "sojourn migrate up"`)
	case s.Needs > s.Newest:
		return fmt.Errorf("the tables need version %d of the schema: use a newer program", s.Needs)
	}
	return nil
}

func (a *app) migrateUpCommand() *cobra.Command {
	to := -1
	cmd := &cobra.Command{Use: "up", Short: "bring the schema to the newest version, creating a missing store", Args: cobra.NoArgs}
	cmd.Flags().IntVar(&to, "to", -1, "stop at this `version` (default the newest)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m sojourn.Migrator) error {
			s, err := m.Schema(cmd.Context())
			if err != nil {
				return err
			}
			goal := s.Newest
			if cmd.Flags().Changed("to") {
				goal = to
			}
			if goal < s.Found && goal >= 0 && s.Found <= s.Newest {
				return sojourn.Invalid("to", `%d is below the version found, %d: use "sojourn migrate down"`, goal, s.Found)
			}
			return a.migrate(cmd.Context(), m, goal)
		})
	}
	return cmd
}

// migrate goes to a version and shows the steps.
func (a *app) migrate(ctx context.Context, m sojourn.Migrator, to int) error {
	steps, err := m.Migrate(ctx, to)
	s := schema{}
	for _, step := range steps {
		s.Steps = append(s.Steps, stepName(step))
	}
	if err != nil && len(steps) > 0 {
		return fmt.Errorf("%w (after %s)", err, strings.Join(s.Steps, ", "))
	}
	if err == nil {
		s.Schema, err = m.Schema(ctx)
	}
	if err == nil {
		err = a.show(s)
	}
	return err
}

func stepName(m sojourn.Migration) string {
	if m.Down {
		return fmt.Sprintf("%04d_%s down", m.Version, m.Name)
	}
	return fmt.Sprintf("%04d_%s", m.Version, m.Name)
}

const downHelp = `Takes back the newest steps of the schema, and with them everything that only these steps know. It says what goes;
if rows go, it wants --yes. "sojourn migrate print --down" shows the statements. Stop all programs that use the store first:
on SQLite that is checked. The next program that opens an SQLite store migrates it up again.`

func (a *app) migrateDownCommand() *cobra.Command {
	var steps, to int
	var yes bool
	cmd := &cobra.Command{Use: "down", Short: "take back the newest steps of the schema", Long: downHelp, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&steps, "steps", 1, "take back so `many`")
	cmd.Flags().IntVar(&to, "to", 0, "go back to this `version` (0: no tables at all), instead of --steps")
	cmd.Flags().BoolVar(&yes, "yes", false, "take away the rows that the steps hold")
	cmd.MarkFlagsMutuallyExclusive("steps", "to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m sojourn.Migrator) error {
			goal, err := downGoal(cmd, m, steps, to)
			if err != nil {
				return err
			}
			plan, err := m.Plan(cmd.Context(), goal)
			if err != nil {
				return err
			}
			if goes := loses(plan); len(goes) > 0 && !yes {
				return sojourn.Invalid("yes", "is missing, and these would be gone: %s", strings.Join(goes, ", "))
			} else if len(goes) > 0 {
				fmt.Fprintln(a.err, "taking away "+strings.Join(goes, ", "))
			}
			return a.migrate(cmd.Context(), m, goal)
		}, store.MustExist())
	}
	return cmd
}

// downGoal is the version that --steps or --to mean.
func downGoal(cmd *cobra.Command, m sojourn.Migrator, steps, to int) (int, error) {
	s, err := m.Schema(cmd.Context())
	switch {
	case err != nil:
		return 0, err
	case s.Found == 0:
		return 0, sojourn.Invalid("store", "has no tables to take away")
	case cmd.Flags().Changed("to") && (to < 0 || to >= s.Found):
		return 0, sojourn.Invalid("to", "%d is not below the version found, %d", to, s.Found)
	case cmd.Flags().Changed("to"):
		return to, nil
	case steps < 1 || steps > s.Found:
		return 0, sojourn.Invalid("steps", "%d is out of range: 1 to %d", steps, s.Found)
	}
	return s.Found - steps, nil
}

// loses lists what a plan takes away that holds rows.
func loses(plan []sojourn.Migration) (out []string) {
	for _, step := range plan {
		for _, l := range step.Loses {
			switch {
			case l.Rows == 0:
			case l.Column != "":
				out = append(out, fmt.Sprintf("column %s of %s (%s)", l.Column, l.Table, plural(int(l.Rows), "row")))
			default:
				out = append(out, fmt.Sprintf("table %s (%s)", l.Table, plural(int(l.Rows), "row")))
			}
		}
	}
	return out
}

func (a *app) migratePrintCommand() *cobra.Command {
	var steps, to int
	var down bool
	cmd := &cobra.Command{Use: "print", Short: "print the statements of migrate up, or down, and run none", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&down, "down", false, "those of migrate down")
	cmd.Flags().IntVar(&steps, "steps", 1, "with --down: so `many`")
	cmd.Flags().IntVar(&to, "to", 0, "those that lead to this `version`, up or down")
	cmd.MarkFlagsMutuallyExclusive("steps", "to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		show := func(m sojourn.Migrator) error {
			s, err := m.Schema(cmd.Context())
			goal := s.Newest
			switch {
			case err != nil:
			case cmd.Flags().Changed("to"):
				goal = to
			case down:
				goal, err = downGoal(cmd, m, steps, to)
			}
			var plan []sojourn.Migration
			if err == nil {
				plan, err = m.Plan(cmd.Context(), goal)
			}
			if err == nil {
				err = a.printPlan(plan)
			}
			return err
		}
		err := a.migrating(show, store.MustExist())
		if errors.Is(err, fs.ErrNotExist) { // what migrate up would do, without making the file
			a.store = "sqlite::memory:"
			err = a.migrating(show)
		}
		return err
	}
	return cmd
}

func (a *app) printPlan(plan []sojourn.Migration) error {
	for _, step := range plan {
		if a.asJSON() {
			if err := a.json(step); err != nil {
				return err
			}
			continue
		}
		text := "-- " + stepName(step) + "\n"
		for _, l := range loses([]sojourn.Migration{step}) {
			text += "-- takes away " + l + "\n"
		}
		text += "begin;\n" + strings.Join(step.SQL, ";\n") + ";\ncommit;\n"
		if err := a.printf("%s", text); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) migrateCheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "compare the tables with what the migrations make; exit code 1 if they differ", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m sojourn.Migrator) error {
			found, err := m.Schema(cmd.Context())
			if err != nil {
				return err
			}
			s := schema{Schema: found}
			if s.Found > 0 && s.Found <= s.Newest {
				if s.Drift, err = m.Drift(cmd.Context()); err != nil {
					return err
				}
			}
			if err := a.show(s); err != nil {
				return err
			}
			switch err := usable(found); {
			case err != nil:
				return err
			case len(s.Drift) > 0:
				return fmt.Errorf("the tables differ from what the migrations make in %s", plural(len(s.Drift), "place"))
			case found.Found > found.Newest:
				return errors.New("the schema is newer than this program: check it with the program that made it")
			}
			return nil
		}, store.MustExist())
	}
	return cmd
}
