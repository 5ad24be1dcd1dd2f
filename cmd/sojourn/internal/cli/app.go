// Package cli has what all commands share: the streams, opening the store, output, errors with
// exit codes, and --watch.
package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// App is one command line: its streams, and the values of the global flags.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string

	Store  string // --store
	Named  string // the store that the environment or the file names
	Token  string // for a server
	Output string // -o
	Config string // --config
	keep   *kept  // of a watch
	// Schedules are those of the settings file, for "serve" and "work".
	Schedules []schedule.Schedule
	Started   bool // arguments and flags are fine; what fails from now on is not the usage
	warned    map[string]bool
}

// Group makes a command that only holds others.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	g.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		return nil
	}
	g.AddCommand(commands...)
	return g
}

// URL is the store to open.
func (a *App) URL() string { return cmp.Or(a.Store, a.Fallback(), "sqlite:sojourn.db") }

// Fallback is the store that the environment or the file names, if any.
func (a *App) Fallback() string { return cmp.Or(a.Named, a.Env("SOJOURN_URL")) }

// Shown is the store's URL without what may be a password.
func (a *App) Shown() string { return store.Redact(a.URL()) }

// With opens an existing store for fn and closes it.
func (a *App) With(fn func(c *sojourn.Client) error) error { return a.Using(fn, store.MustExist()) }

// Creating does the same, and makes the store if it is missing.
func (a *App) Creating(fn func(c *sojourn.Client) error) error { return a.Using(fn) }

// Using opens a store with these options for fn and closes it. While a list is watched, the store
// stays open.
func (a *App) Using(fn func(c *sojourn.Client) error, options ...store.Option) error {
	if err := store.Valid(a.URL()); err != nil {
		return err
	}
	if a.keep != nil && a.keep.c != nil {
		return fn(a.keep.c)
	}
	options = append(options, store.Rules(rule.Throttlers()), store.ServerToken(a.Token))
	c, err := store.Open(a.URL(), options...)
	if err != nil {
		return Unusable(err)
	}
	if a.keep != nil {
		a.keep.c = c
		return fn(c)
	}
	if err := fn(c); err != nil {
		c.Close() // fn's error says more
		return err
	}
	return c.Close()
}

// OrElse returns err, or what fn returns.
func OrElse(err error, fn func() error) error {
	if err != nil {
		return err
	}
	return fn()
}
