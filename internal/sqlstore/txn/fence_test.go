package txn

import (
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// TestWritesRepeatWhatTheyHaveRead: inv:F2. Rows are locked, or there is no other writer, so no
// test from outside can tell whether a write of live rows repeats state and epoch.
func TestWritesRepeatWhatTheyHaveRead(t *testing.T) {
	for _, q := range []string{jobrow.Updates[jobrow.ByAny].Text, jobrow.Updates[jobrow.ByClaim].Text, jobrow.Updates[jobrow.ByAnswer].Text, qDeleteLive} {
		if !strings.Contains(q, "where id = each($1 bigint) and state = each($2 bigint) and epoch = each($3 bigint) /*hit id*/") {
			t.Error(q)
		}
	}
}
