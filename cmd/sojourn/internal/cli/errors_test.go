package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("other"), ExitFailed},
		{sojourn.Invalid("key", "no"), ExitUsage},
		{sojourn.TooLarge("args", 2, 1), ExitUsage},
		{sojourn.NotFound("no"), ExitNotFound},
		{fmt.Errorf("wrapped: %w", sojourn.ErrNotFound), ExitNotFound},
		{sojourn.Conflict("no"), ExitConflict},
		{sojourn.ErrLeaseLost, ExitConflict},
		{sojourn.ErrClosed, ExitUnavailable},
		{&sojourn.Error{Code: sojourn.CodeUnavailable}, ExitUnavailable},
		{&sojourn.Error{Code: sojourn.CodeUnknown}, ExitUnavailable},
		{&unusableError{sojourn.Invalid("path", "no database")}, ExitUnavailable},
		{&unusableError{fs.ErrPermission}, ExitUnavailable},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
