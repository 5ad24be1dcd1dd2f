package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// app is what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string

	store   string // --store
	named   string // the store that the environment or the file names
	token   string // for a server
	output  string // -o
	config  string // --config
	keep    *kept  // of a watch
	started bool   // arguments and flags are fine; what fails from now on is not the usage
	warned  map[string]bool
}

// Exit codes, stable across versions. docs/reference/cli.md and --help list them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
)

const longHelp = `sojourn manages a store of durable jobs: jobs that send a request, wait for an answer that comes later,
and survive crashes. Try "sojourn demo".

The store is --store, else $SOJOURN_URL, else the store in sojourn.toml, else sqlite:sojourn.db ("sojourn config" shows it).
--store also takes a server URL, http://HOST:PORT; set $SOJOURN_TOKEN to authenticate.
Only demo, bench, enqueue, queue set, migrate up, serve, token and store restore create a missing store.

Exit codes:
  0  done
  1  failed, or doctor or demo found violations
  2  wrong usage: a flag, an argument or a value
  3  no such job, queue or response
  4  conflict: the state or the key does not allow it
  5  the store is missing, unusable, busy, full or closed
  6  tail: the job is cancelled
  7  tail: the job is not final yet`

// run executes one command line and returns its exit code.
func run(ctx context.Context, a *app, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	err = alone(err)
	code := exitCode(err)
	if !a.started {
		code = exitUsage
	}
	fmt.Fprintln(a.err, "sojourn: "+printable(strings.TrimPrefix(err.Error(), "sojourn: ")))
	if hint := hint(err, cmd, code); hint != "" {
		fmt.Fprintln(a.err, hint)
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "sojourn", Short: "a durable job queue for work that waits on the outside world", Long: longHelp,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !settingless(cmd) {
				if err := a.configure(cmd); err != nil {
					return err
				}
			}
			if a.output != "table" && a.output != "json" {
				return fmt.Errorf("-o %s is not an output format; use table or json", a.output)
			}
			a.started = true
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.store, "store", "", "`URL` of the store, such as sqlite:FILE (default $SOJOURN_URL, else sqlite:sojourn.db)")
	root.PersistentFlags().StringVar(&a.config, "config", "", "settings `FILE` (default $SOJOURN_CONFIG, else sojourn.toml if it exists)")
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "`table` or json; a list in JSON is one object per line")
	root.AddCommand(a.demoCommand(), a.benchCommand(), a.enqueueCommand(), a.respondCommand(), a.jobCommand(), a.queueCommand(), a.workerCommand(), a.whyCommand(), a.windowCommand(), a.inboxCommand(), a.sourceCommand(),
		a.webhookCommand(), a.migrateCommand(), a.storeCommand(), a.serveCommand(), a.workCommand(), a.tokenCommand(), a.auditCommand(), a.topCommand(), a.tailCommand(), a.doctorCommand(), a.configCommand(), a.versionCommand())
	a.completions(root)
	return root
}

// settingless are commands that no mistake in a file may hide, or disturb a shell.
func settingless(cmd *cobra.Command) bool {
	return cmd.Name() == "version" || strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) || cmd.HasParent() && cmd.Parent().Name() == "completion"
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
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

// url is the store to open.
func (a *app) url() string { return cmp.Or(a.store, a.fallback(), "sqlite:sojourn.db") }

// fallback is the store that the environment or the file names, if any.
func (a *app) fallback() string { return cmp.Or(a.named, a.env("SOJOURN_URL")) }

// shown is the store's URL without what may be a password.
func (a *app) shown() string { return store.Redact(a.url()) }

// with opens an existing store for fn and closes it.
func (a *app) with(fn func(c *sojourn.Client) error) error { return a.using(fn, store.MustExist()) }

// creating does the same, and makes the store if it is missing.
func (a *app) creating(fn func(c *sojourn.Client) error) error { return a.using(fn) }

func (a *app) using(fn func(c *sojourn.Client) error, options ...store.Option) error {
	if err := store.Valid(a.url()); err != nil {
		return err
	}
	if a.keep != nil && a.keep.c != nil {
		return fn(a.keep.c)
	}
	options = append(options, store.Rules(rule.Throttlers()), store.ServerToken(a.token))
	c, err := store.Open(a.url(), options...)
	if err != nil {
		return &unusableError{err}
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

// unusableError is about the store, whatever code its cause has.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// alone takes the place in a batch out of an error: a command line is a batch of one.
func alone(err error) error {
	if e, ok := err.(*sojourn.Error); ok && e.Index >= 0 {
		c := *e
		c.Index = -1
		return &c
	}
	return err
}

func exitCode(err error) int {
	if _, ok := errors.AsType[*unusableError](err); ok {
		return exitUnavailable
	}
	if e, ok := errors.AsType[*outcomeError](err); ok {
		return e.code
	}
	switch {
	case errors.Is(err, sojourn.ErrNotFound):
		return exitNotFound
	case errors.Is(err, sojourn.ErrConflict), errors.Is(err, sojourn.ErrLeaseLost):
		return exitConflict
	case errors.Is(err, sojourn.ErrClosed):
		return exitUnavailable
	}
	switch sojourn.ErrorCode(err) {
	case sojourn.CodeInvalid, sojourn.CodeInvalidJSON, sojourn.CodeTooLarge, sojourn.CodeOversize:
		return exitUsage
	case sojourn.CodeNotFound:
		return exitNotFound
	case sojourn.CodeConflict, sojourn.CodeLeaseLost:
		return exitConflict
	case sojourn.CodeUnavailable, sojourn.CodeUnknown, sojourn.CodeClosed, sojourn.CodeSchema, sojourn.CodeQueueFull, sojourn.CodeLowSpace:
		return exitUnavailable
	}
	return exitFailed
}

// hint says what to do about an error.
func hint(err error, cmd *cobra.Command, code int) string {
	switch {
	case errors.Is(err, fs.ErrNotExist) && code == exitUnavailable:
		return `  Create it with "sojourn migrate up" or a first "sojourn enqueue", or name another store with --store or SOJOURN_URL.`
	case sojourn.ErrorCode(err) == sojourn.CodeUnknown:
		return `  The operation may have succeeded. Check with "sojourn job ls" before you repeat it.`
	case code == exitUsage:
		return fmt.Sprintf("  See %q.", cmd.CommandPath()+" --help")
	}
	return ""
}
