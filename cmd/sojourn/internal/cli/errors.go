package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// Exit codes, stable across versions. docs/reference/cli.md and --help list them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitUnavailable = 5
	ExitCancelled   = 6 // of tail
	ExitUnended     = 7 // of tail
)

// unusableError is about the store, whatever code its cause has.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// Unusable marks an error as one about the store, for the exit code.
func Unusable(err error) error { return &unusableError{err} }

// outcomeError ends a command with a code of its own.
type outcomeError struct {
	code int
	text string
}

func (e *outcomeError) Error() string { return e.text }

// ExitWith is an error that ends the command with this exit code.
func ExitWith(code int, text string) error { return &outcomeError{code, text} }

// Report writes an error with advice about it, and returns the exit code.
func (a *App) Report(cmd *cobra.Command, err error) int {
	err = alone(err)
	code := exitCode(err)
	if !a.Started {
		code = ExitUsage
	}
	fmt.Fprintln(a.Err, "sojourn: "+terminal.Printable(strings.TrimPrefix(err.Error(), "sojourn: ")))
	if hint := advice(err, cmd, code); hint != "" {
		fmt.Fprintln(a.Err, hint)
	}
	return code
}

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
		return ExitUnavailable
	}
	if e, ok := errors.AsType[*outcomeError](err); ok {
		return e.code
	}
	switch {
	case errors.Is(err, sojourn.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, sojourn.ErrConflict), errors.Is(err, sojourn.ErrLeaseLost):
		return ExitConflict
	case errors.Is(err, sojourn.ErrClosed):
		return ExitUnavailable
	}
	switch sojourn.ErrorCode(err) {
	case sojourn.CodeInvalid, sojourn.CodeInvalidJSON, sojourn.CodeTooLarge, sojourn.CodeOversize:
		return ExitUsage
	case sojourn.CodeNotFound:
		return ExitNotFound
	case sojourn.CodeConflict, sojourn.CodeLeaseLost:
		return ExitConflict
	case sojourn.CodeUnavailable, sojourn.CodeUnknown, sojourn.CodeClosed, sojourn.CodeSchema, sojourn.CodeQueueFull, sojourn.CodeLowSpace:
		return ExitUnavailable
	}
	return ExitFailed
}

// advice says what to do about an error.
func advice(err error, cmd *cobra.Command, code int) string {
	switch {
	case errors.Is(err, fs.ErrNotExist) && code == ExitUnavailable:
		return `  Create it with "sojourn migrate up" or a first "sojourn enqueue", or name another store with --store or SOJOURN_URL.`
	case sojourn.ErrorCode(err) == sojourn.CodeUnknown:
		return `  The operation may have succeeded. Check with "sojourn job ls" before you repeat it.`
	case code == ExitUsage:
		return fmt.Sprintf("  See %q.", cmd.CommandPath()+" --help")
	}
	return ""
}

// BadUsage is an error of the command line that is not about one flag alone.
func BadUsage(format string, args ...any) *sojourn.Error {
	return &sojourn.Error{Code: sojourn.CodeInvalid, Index: -1, Message: fmt.Sprintf(format, args...)}
}

// Unconfirmed refuses a change of several things that --yes does not confirm.
func Unconfirmed(verb, things string) *sojourn.Error {
	return BadUsage("this would %s %s; repeat with --yes, or with --dry-run to only count", verb, things)
}
