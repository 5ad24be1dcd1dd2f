// Package joblog writes lines of operators to the logs of jobs, in any state of a job. They stand
// between the lines of its handler, which Jobs.Log returns.
package joblog

import (
	"context"
	"fmt"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// Line is a line that an operator writes.
type Line struct {
	Text string // required, at most sojourn.MaxProgress bytes
	By   string // the name of the operator; required without an access token
}

// Validate checks the text. A line of an operator is refused where one of a handler is cut.
func (l Line) Validate() error {
	if strings.TrimSpace(l.Text) == "" {
		return sojourn.Invalid("text", "the line is empty; say what is to be in the log")
	}
	if len(l.Text) > sojourn.MaxProgress {
		return &sojourn.Error{Code: sojourn.CodeTooLarge, Field: "text", Index: -1,
			Message: fmt.Sprintf("%d bytes exceed the limit of %d for a line of a job's log; split it", len(l.Text), sojourn.MaxProgress)}
	}
	return nil
}

// Store is an optional ability of a sojourn.Store: it writes lines to the logs of jobs. Safe for
// concurrent use.
type Store interface {
	// WriteLog adds a line to the log of a job, with the level INFO, and returns it as it is
	// stored. The bound of the log is that of the handler's lines: the first and the newest 99 are
	// kept, and the line after dropped ones says how many they were. ErrNotFound if there is no
	// such job, or if the caller's token may not operate on its queue and kind. The name of a
	// caller with a token begins with the token's id.
	WriteLog(ctx context.Context, id sojourn.ID, l Line) (sojourn.LogLine, error)
}

// Log are the calls of a client that write to the logs of jobs. Safe for concurrent use.
type Log struct{ store Store }

// Of returns the calls of a client. If its store cannot write to logs, each call returns an error
// with CodeInvalid. The stores of this module can.
func Of(c *sojourn.Client) Log { return Log{StoreOf(c.Store())} }

// StoreOf is a store's ability to write to logs. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if w, ok := s.(Store); ok {
		return w
	}
	return none{}
}

// Write adds a line to the log of a job, see Store. A job that runs is not disturbed. A call whose
// answer was lost may have written the line; it is not repeated.
func (l Log) Write(ctx context.Context, id sojourn.ID, line Line) (sojourn.LogLine, error) {
	return l.store.WriteLog(ctx, id, line)
}

// none is a store that writes no lines.
type none struct{}

func (none) WriteLog(context.Context, sojourn.ID, Line) (sojourn.LogLine, error) {
	return sojourn.LogLine{}, sojourn.Invalid("store", "this store writes no lines to logs of jobs; use one of store/sqlite, store/postgres or httpapi")
}
