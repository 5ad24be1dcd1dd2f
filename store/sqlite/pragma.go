package sqlite

import (
	"context"
	"fmt"
	"strings"
)

// A pragma is a setting of a connection that is read back after it is set, because SQLite silently
// ignores unknown settings and values.
type pragma struct{ name, value, reads string }

// writerPragmas are measured: a cache from 32 MiB and a checkpoint each 4,000 pages cost nothing
// that shows, a checkpoint each 100 pages a tenth; a page size other than the default brings
// nothing.
func writerPragmas() []pragma {
	return []pragma{
		{"journal_mode", "wal", "wal"},
		{"synchronous", "normal", "1"}, // no fsync with a commit, only before a checkpoint: never corrupt. See walLog
		{"fullfsync", "1", "1"},        // on macOS fsync alone does not reach the disk
		{"checkpoint_fullfsync", "1", "1"},
		{"temp_store", "memory", "2"}, // statement journals of multi-row updates in files cost half of the speed
		{"cache_size", "-65536", "-65536"},
		{"wal_autocheckpoint", "4000", "4000"},
		{"journal_size_limit", fmt.Sprint(walLimit), fmt.Sprint(walLimit)},
	}
}

func readerPragmas() []pragma {
	return []pragma{
		{"journal_mode", "", "wal"},
		{"query_only", "1", "1"},
		{"temp_store", "memory", "2"},
		{"cache_size", "-16384", "-16384"},
	}
}

func memoryPragmas() []pragma {
	return []pragma{
		{"journal_mode", "memory", "memory"},
		{"temp_store", "memory", "2"},
	}
}

// set applies the pragmas and reads them back.
func (c *conn) set(pragmas []pragma) error {
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	for _, p := range pragmas {
		var found string
		err := c.patiently(ctx, func() (err error) {
			if p.value != "" {
				if err = run(c.raw, "pragma "+p.name+"="+p.value); err != nil {
					return err
				}
			}
			found, err = ask(c.raw, "pragma "+p.name)
			return err
		})
		if err != nil {
			return fmt.Errorf("pragma %s: %w", p.name, err)
		}
		if !strings.EqualFold(found, p.reads) {
			return fmt.Errorf("pragma %s=%s was not accepted: it reads %q, not %q", p.name, p.value, found, p.reads)
		}
	}
	return nil
}
