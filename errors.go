package sojourn

import (
	"errors"
	"fmt"
)

// The four sentinels. Test with errors.Is; every *Error that means one of them unwraps to it.
var (
	// ErrNotFound: there is no such job, queue or response.
	ErrNotFound = errors.New("sojourn: not found")
	// ErrLeaseLost: the lease of the step has ended; nothing the step writes is accepted any more.
	ErrLeaseLost = errors.New("sojourn: lease lost")
	// ErrConflict: the job exists with other content, another live job holds the key, or its state does not allow the change.
	ErrConflict = errors.New("sojourn: conflict")
	// ErrClosed: the store or the client is closed, or refuses work after a disk error.
	ErrClosed = errors.New("sojourn: closed")
)

// Codes of [Error], stable across versions.
const (
	CodeInvalid     = "invalid"              // a field is malformed or out of range
	CodeTooLarge    = "too_large"            // bytes above the store's limit
	CodeConflict    = "conflict"             // see ErrConflict
	CodeNotFound    = "not_found"            // see ErrNotFound
	CodeLeaseLost   = "lease_lost"           // see ErrLeaseLost
	CodeClosed      = "closed"               // see ErrClosed
	CodeIDExpired   = "id_expired"           // the id block is older than IDLife: draw a new id
	CodeOversize    = "weight_exceeds_limit" // the job is heavier than the limit of its queue, so it would never start
	CodeQueueFull   = "queue_full"           // the queue has as many ready jobs as max_depth allows: try again later
	CodeUnknown     = "unknown_outcome"      // the call may or may not have been executed: repeat it with the same jobs
	CodeUnavailable = "unavailable"          // the store could not be reached or written; nothing happened
	CodeSchema      = "schema"               // the tables are of a version that this program cannot work with; see Schema
)

// Error is a refusal with a stable code and a message that says what to do.
type Error struct {
	Code      string // one of the Code constants
	Field     string // the field at fault, such as "key"; empty if none
	Index     int    // of the job in a batch; -1 if it is not about one
	Message   string
	Retryable bool  // the same call may succeed later, unchanged
	Err       error // a sentinel or a cause; may be nil
}

func (e *Error) Error() string {
	s := "sojourn: "
	if e.Index >= 0 {
		s += fmt.Sprintf("job %d of the batch: ", e.Index)
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Message + " (" + e.Code + ")"
}

// Unwrap gives the sentinel or cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalid returns an Error with CodeInvalid about one field.
func Invalid(field, format string, a ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Index: -1, Message: fmt.Sprintf(format, a...)}
}

// TooLarge returns an Error with CodeTooLarge that names the size and the limit, both in bytes.
func TooLarge(field string, size, limit int) *Error {
	return &Error{Code: CodeTooLarge, Field: field, Index: -1,
		Message: fmt.Sprintf("%d bytes exceed the limit of %d; store them elsewhere and pass a reference, or raise the store's MaxBytes", size, limit)}
}

// Conflict returns an Error with CodeConflict that unwraps to ErrConflict.
func Conflict(format string, a ...any) *Error {
	return &Error{Code: CodeConflict, Index: -1, Message: fmt.Sprintf(format, a...), Err: ErrConflict}
}

// NotFound returns an Error with CodeNotFound that unwraps to ErrNotFound.
func NotFound(format string, a ...any) *Error {
	return &Error{Code: CodeNotFound, Index: -1, Message: fmt.Sprintf(format, a...), Err: ErrNotFound}
}

// ErrorCode returns the code of the first *Error in err's chain, or "" if there is none.
func ErrorCode(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// AtIndex names the job of a batch in an error that carries a code; any other error comes back as it is.
func AtIndex(index int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		c := *e
		c.Index = index
		return &c
	}
	return err
}
