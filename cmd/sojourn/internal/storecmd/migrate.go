package storecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

func (a *app) migrateCommand() *cobra.Command {
	return cli.Group("migrate", "manage the schema of a store", a.migrateStatusCommand(), a.migrateUpCommand(), a.migrateDownCommand(),
		a.migratePrintCommand(), a.migrateCheckCommand())
}

// schema is the output of status, up, down and check.
type schema struct {
	migrate.Schema
	Steps []string `json:"steps,omitempty"` // that were taken
	Drift []string `json:"drift,omitempty"`
}

func (s schema) String() string {
	return fmt.Sprintf("schema %d, the newest is %d", s.Found, s.Newest)
}

// migrating opens the tables of a store for fn, whatever version they have.
func (a *app) migrating(fn func(m migrate.Migrator) error, options ...store.Option) error {
	if err := store.Valid(a.URL()); err != nil {
		return err
	}
	if store.IsServer(a.URL()) {
		return sojourn.Invalid("store", "%s is a server; run this command on the server's machine and name its database with --store", a.Shown())
	}
	m, err := store.OpenMigrator(a.URL(), options...)
	if err != nil {
		return cli.Unusable(err)
	}
	return errors.Join(fn(m), m.Close())
}

// show prints the migration steps, the differences from the expected schema, and the schema.
func (a *app) show(s schema) error {
	if a.AsJSON() {
		return a.JSON(s)
	}
	for _, line := range append(s.Steps, s.Drift...) {
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return a.Printf("%s\n", s)
}

func (a *app) migrateStatusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "show the schema version; exit code 1 if this program cannot use it", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m migrate.Migrator) error {
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
func usable(s migrate.Schema) error {
	switch {
	case s.Found < s.Newest:
		return errors.New(`the schema is out of date; run "sojourn migrate up"`)
	case s.Needs > s.Newest:
		return fmt.Errorf("the tables need schema version %d; use a newer program", s.Needs)
	}
	return nil
}

func (a *app) migrateUpCommand() *cobra.Command {
	to := -1
	cmd := &cobra.Command{Use: "up", Short: "migrate the schema to the newest version; creates a missing store", Args: cobra.NoArgs}
	cmd.Flags().IntVar(&to, "to", -1, "stop at this `version` (default the newest)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m migrate.Migrator) error {
			s, err := m.Schema(cmd.Context())
			if err != nil {
				return err
			}
			goal := s.Newest
			if cmd.Flags().Changed("to") {
				goal = to
			}
			if goal < s.Found && goal >= 0 && s.Found <= s.Newest {
				return sojourn.Invalid("to", `%d is below the current version, %d; use "sojourn migrate down"`, goal, s.Found)
			}
			return a.migrate(cmd.Context(), m, goal)
		})
	}
	return cmd
}

// migrate goes to a version and shows the steps.
func (a *app) migrate(ctx context.Context, m migrate.Migrator, to int) error {
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

func stepName(m migrate.Migration) string {
	if m.Down {
		return fmt.Sprintf("%04d_%s down", m.Version, m.Name)
	}
	return fmt.Sprintf("%04d_%s", m.Version, m.Name)
}

const downHelp = `Reverts the newest migrations of the schema and removes the tables and columns that they created. It lists tables and columns with
rows; to delete rows it requires --yes. "sojourn migrate print --down" shows the statements. Stop all programs that use the store first;
on SQLite this is checked. The next program that opens an SQLite store migrates it up again.`

func (a *app) migrateDownCommand() *cobra.Command {
	var steps, to int
	var yes bool
	cmd := &cobra.Command{Use: "down", Short: "revert the newest migrations of the schema", Long: downHelp, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&steps, "steps", 1, "`number` of migrations to revert")
	cmd.Flags().IntVar(&to, "to", 0, "revert to this `version` (0: no tables), instead of --steps")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete the rows of the removed tables and columns")
	cmd.MarkFlagsMutuallyExclusive("steps", "to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m migrate.Migrator) error {
			goal, err := downGoal(cmd, m, steps, to)
			if err != nil {
				return err
			}
			plan, err := m.Plan(cmd.Context(), goal)
			if err != nil {
				return err
			}
			if goes := loses(plan); len(goes) > 0 && !yes {
				return cli.BadUsage("this would delete %s; repeat with --yes", strings.Join(goes, ", "))
			} else if len(goes) > 0 {
				fmt.Fprintln(a.Err, "deleting "+strings.Join(goes, ", "))
			}
			return a.migrate(cmd.Context(), m, goal)
		}, store.MustExist())
	}
	return cmd
}

// downGoal is the version that --steps or --to mean.
func downGoal(cmd *cobra.Command, m migrate.Migrator, steps, to int) (int, error) {
	s, err := m.Schema(cmd.Context())
	switch {
	case err != nil:
		return 0, err
	case s.Found == 0:
		return 0, sojourn.Invalid("store", "the store has no tables to remove")
	case cmd.Flags().Changed("to") && (to < 0 || to >= s.Found):
		return 0, sojourn.Invalid("to", "%d is not below the current version, %d", to, s.Found)
	case cmd.Flags().Changed("to"):
		return to, nil
	case steps < 1 || steps > s.Found:
		return 0, sojourn.Invalid("steps", "%d is out of range: 1 to %d", steps, s.Found)
	}
	return s.Found - steps, nil
}

// loses lists what a plan takes away that holds rows.
func loses(plan []migrate.Migration) (out []string) {
	for _, step := range plan {
		for _, l := range step.Loses {
			switch {
			case l.Rows == 0:
			case l.Column != "":
				out = append(out, fmt.Sprintf("column %s of %s (%s)", l.Column, l.Table, terminal.Plural(int(l.Rows), "row")))
			default:
				out = append(out, fmt.Sprintf("table %s (%s)", l.Table, terminal.Plural(int(l.Rows), "row")))
			}
		}
	}
	return out
}

func (a *app) migratePrintCommand() *cobra.Command {
	var steps, to int
	var down bool
	cmd := &cobra.Command{Use: "print", Short: "print the statements of migrate up or down without running them", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&down, "down", false, "print the statements of migrate down")
	cmd.Flags().IntVar(&steps, "steps", 1, "with --down: `number` of migrations to revert")
	cmd.Flags().IntVar(&to, "to", 0, "print the statements that lead to this `version`, up or down")
	cmd.MarkFlagsMutuallyExclusive("steps", "to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		show := func(m migrate.Migrator) error {
			s, err := m.Schema(cmd.Context())
			goal := s.Newest
			switch {
			case err != nil:
			case cmd.Flags().Changed("to"):
				goal = to
			case down:
				goal, err = downGoal(cmd, m, steps, to)
			}
			var plan []migrate.Migration
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
			a.Store = "sqlite::memory:"
			err = a.migrating(show)
		}
		return err
	}
	return cmd
}

func (a *app) printPlan(plan []migrate.Migration) error {
	for _, step := range plan {
		if a.AsJSON() {
			if err := a.JSON(step); err != nil {
				return err
			}
			continue
		}
		text := "-- " + stepName(step) + "\n"
		for _, l := range loses([]migrate.Migration{step}) {
			text += "-- deletes " + l + "\n"
		}
		text += "begin;\n" + strings.Join(step.SQL, ";\n") + ";\ncommit;\n"
		if err := a.Printf("%s", text); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) migrateCheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "compare the tables with the migrations; exit code 1 if they differ", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.migrating(func(m migrate.Migrator) error {
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
				return fmt.Errorf("the tables differ from the migrations in %s", terminal.Plural(len(s.Drift), "place"))
			case found.Found > found.Newest:
				return errors.New("the schema is newer than this program; check it with the program that created it")
			}
			return nil
		}, store.MustExist())
	}
	return cmd
}
