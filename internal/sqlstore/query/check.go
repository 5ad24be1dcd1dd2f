package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// maxFindings bounds the findings of one check.
	maxFindings = 20
	// checkSlice is how many rows a check reads at a time. A read that takes too long is repeated
	// with fewer, and after checkTries with one row the check gives up.
	checkSlice = 2000
	checkTries = 20
)

// Checks names the invariants; see driver.Checker.
func (s *Reader) Checks() []string {
	var names []string
	for _, c := range checks {
		if !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// Check runs every check; see driver.Checker.
func (s *Reader) Check(ctx context.Context) ([]driver.Violation, error) {
	return s.CheckWith(ctx, func(driver.CheckProgress) {})
}

// CheckWith is Check that reports its progress; see driver.ProgressChecker.
func (s *Reader) CheckWith(ctx context.Context, report func(driver.CheckProgress)) ([]driver.Violation, error) {
	var all []driver.Violation
	names := s.Checks()
	progress := driver.CheckProgress{Of: len(names)}
	for _, c := range checks {
		if c.name == CheckCounts && s.core.Cfg.Without.Counts {
			continue
		}
		progress.Check, progress.Number = c.name, slices.Index(names, c.name)+1
		found, err := s.runCheck(ctx, c, func(rows int) {
			progress.Rows += int64(rows)
			report(progress)
		})
		all = append(all, found...)
		if err != nil {
			return all, err
		}
	}
	return s.checkFiles(ctx, all)
}

// runCheck runs one check, slice by slice, until it has found enough.
func (s *Reader) runCheck(ctx context.Context, c check, report func(rows int)) (found []driver.Violation, err error) {
	size, tries := checkSlice, 0
	after := []any{int64(math.MinInt64)}
	if c.over.texts {
		after = []any{"", ""}
	}
	for len(found) < maxFindings {
		var end []any
		var more []driver.Violation
		rows := 0
		err := s.core.View(ctx, func(t *txn.Tx) (err error) {
			end, more = nil, nil
			if c.over != whole {
				if end, rows, err = sliceEnd(t, c.over, after, size); err != nil || rows == 0 {
					return err
				}
			}
			more, err = violations(t, c, slices.Concat(after, end))
			return err
		})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && tries < checkTries { // of the read, not of the caller
			if size = max(size/4, 1); size == 1 || c.over == whole {
				tries++
			}
			continue
		}
		if err != nil {
			return found, err
		}
		found = append(found, more...)
		report(rows)
		if c.over == whole || rows < size {
			break
		}
		after, size, tries = end, min(2*size, checkSlice), 0
	}
	return found[:min(len(found), maxFindings)], nil
}

// sliceEnd returns the last key of the slice after a key, and its number of rows.
func sliceEnd(t *txn.Tx, over slicing, after []any, size int) (end []any, rows int, err error) {
	err = t.Read(over.end, func(r sqldb.Row) error {
		rows++
		if over.texts {
			end = []any{r.Text(0), r.Text(1)}
		} else {
			end = []any{r.Int(0)}
		}
		return nil
	}, append(slices.Clone(after), size)...)
	return end, rows, err
}

// violations runs a check over a slice.
func violations(t *txn.Tx, c check, bounds []any) (found []driver.Violation, err error) {
	add := func(id int64, what string) {
		if len(found) < maxFindings {
			found = append(found, driver.Violation{Check: c.name, Detail: fmt.Sprintf("%d %s (%s)", id, what, c.law)})
		}
	}
	if c.name == checkFields {
		err = field.Check(t, bounds[0].(int64), bounds[1].(int64), add)
		return found, err
	}
	if c.over == whole {
		bounds = nil
	}
	args := bounds
	if strings.Contains(c.q, fmt.Sprintf("$%d", len(args)+1)) {
		args = append(args, t.Now-60_000_000)
	}
	err = t.Read(c.q+fmt.Sprintf(" limit %d", maxFindings), func(r sqldb.Row) error {
		add(r.Int(0), r.Text(1))
		return nil
	}, args...)
	return found, err
}

// checkFiles appends the processes that use another file. It reads no table, so it is not among
// checks.
func (s *Reader) checkFiles(ctx context.Context, out []driver.Violation) ([]driver.Violation, error) {
	db, ok := s.core.DB.(sqldb.Located)
	if !ok {
		return out, nil
	}
	processes, err := db.Elsewhere(ctx)
	if err != nil {
		return out, s.core.Failed(err)
	}
	for _, p := range processes {
		out = append(out, driver.Violation{Check: "one-file", Detail: "process " + p + " still has the file open that was at this path before: " +
			"it was removed or replaced while in use; stop that process (all processes use one file)"})
	}
	return out, nil
}
