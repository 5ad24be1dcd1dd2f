package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "look at the schema of a store and bring it up to date", a.migrateStatusCommand(), a.migrateUpCommand())
}

// schema is the output of both commands.
type schema struct {
	Found  int      `json:"found"`
	Newest int      `json:"newest"` // that this program knows
	Steps  []string `json:"steps,omitempty"`
}

func readSchema(ctx context.Context, c *sojourn.Client) (schema, error) {
	m, ok := c.Store().(sojourn.Migrator)
	if !ok {
		return schema{}, errors.New("this store has no schema to migrate")
	}
	var s schema
	var err error
	s.Found, s.Newest, err = m.Schema(ctx)
	return s, err
}

func (a *app) migrateStatusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "show the schema's version; exit code 1 if it is not the newest", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := a.using(func(c *sojourn.Client) error { return a.migrateStatus(cmd.Context(), c) }, store.MustExist(), store.NoMigrate())
		if _, ok := errors.AsType[*unusableError](err); ok && sojourn.ErrorCode(err) == sojourn.CodeInvalid {
			return errors.New(err.Error()) // it is there, and its schema is not what it should be
		}
		return err
	}
	return cmd
}

func (a *app) migrateStatus(ctx context.Context, c *sojourn.Client) error {
	s, err := readSchema(ctx, c)
	if err != nil {
		return err
	}
	if a.asJSON() {
		err = a.json(s)
	} else {
		err = a.printf("schema %d, the newest is %d\n", s.Found, s.Newest)
	}
	if err == nil && s.Found != s.Newest {
		err = fmt.Errorf(`the schema is not the newest: run "sojourn migrate up"`)
	}
	return err
}

func (a *app) migrateUpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "bring the schema to the newest version, creating a missing store", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.using(func(c *sojourn.Client) error {
			m, ok := c.Store().(sojourn.Migrator)
			if !ok {
				return errors.New("this store has no schema to migrate")
			}
			steps, err := m.MigrateUp(cmd.Context())
			if err != nil {
				return err
			}
			s, err := readSchema(cmd.Context(), c)
			if err != nil {
				return err
			}
			s.Steps = steps
			if a.asJSON() {
				return a.json(s)
			}
			return a.printf("schema %d, the newest is %d\n", s.Found, s.Newest)
		}, store.Migrate())
	}
	return cmd
}
