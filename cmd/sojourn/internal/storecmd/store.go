// Package storecmd has the commands that look after a store: "store", "migrate" and "doctor".
package storecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "store".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// MigrateCommand makes the command "migrate".
func MigrateCommand(a *cli.App) *cobra.Command { return (&app{a}).migrateCommand() }

// DoctorCommand makes the command "doctor".
func DoctorCommand(a *cli.App) *cobra.Command { return (&app{a}).doctorCommand() }

func (a *app) command() *cobra.Command {
	return cli.Group("store", "back up, restore and compact an SQLite file", a.backupCommand(), a.restoreCommand(), a.compactCommand())
}

// file is the file of the store. Other stores have tools of their own.
func (a *app) file() (string, error) {
	path, err := store.Path(a.URL())
	switch {
	case err != nil:
	case store.IsServer(a.URL()):
		err = sojourn.Invalid("store", "%s is a server; run this command on the server's machine and name its file with --store", a.Shown())
	case path == "":
		err = sojourn.Invalid("store", "the store is a PostgreSQL database; use pg_dump or base backups, see docs/guides/postgresql.md")
	case path == ":memory:":
		err = sojourn.Invalid("store", "%s is not a file; name an SQLite file with --store", path)
	}
	return path, err
}

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "backup FILE", Short: "copy the store into a new file; the store may be in use", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onFile(cmd, a, func(ctx context.Context, path string) (sqlite.Copied, error) {
			return sqlite.Backup(ctx, path, args[0])
		},
			func(c sqlite.Copied) string { return fmt.Sprintf("%s: %d bytes", c.To, c.Bytes) })
	}
	return cmd
}

const restoreHelp = `Replaces the store by a backup, after the backup has passed the checks of SQLite and of "sojourn doctor". Stop all
programs that use the store first; the command is refused while one has it open. Changes after the backup are lost: jobs that have ended
since then run again, with the same idempotency keys. New jobs get ids above all ids issued since the backup, so that neither ids nor
idempotency keys are reused. The whole file is replaced, with all instances in it, whatever prefix --store names.`

func (a *app) restoreCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{Use: "restore FILE", Short: "replace the store by a backup", Long: restoreHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&replace, "replace", false, "if a store exists already: rename it and restore the backup in its place")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onFile(cmd, a, func(ctx context.Context, path string) (sqlite.Restored, error) {
			return sqlite.Restore(ctx, args[0], path, replace)
		},
			func(r sqlite.Restored) string {
				text := fmt.Sprintf("%s is restored from %s; new jobs begin with id %d", r.To, r.From, r.NextID)
				if r.Replaced != "" {
					text += "\nthe previous store is now " + r.Replaced
				}
				return text
			})
	}
	return cmd
}

func (a *app) compactCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{Use: "compact", Short: "return the disk space of deleted jobs to the file system", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&full, "full", false, "rewrite the whole file; needs twice its size on disk, and no other process may use it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return onFile(cmd, a, func(ctx context.Context, path string) (sqlite.Compacted, error) {
			return sqlite.Compact(ctx, path, full)
		},
			func(c sqlite.Compacted) string {
				return fmt.Sprintf("%s: %d bytes freed, from %d to %d", c.Path, c.Before-c.After, c.Before, c.After)
			})
	}
	return cmd
}

// onFile runs do on the file of the store and shows the result.
func onFile[T any](cmd *cobra.Command, a *app, do func(ctx context.Context, path string) (T, error), text func(T) string) error {
	path, err := a.file()
	if err != nil {
		return err
	}
	done, err := do(cmd.Context(), path)
	if err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(done)
	}
	return a.Printf("%s\n", text(done))
}
