package txn

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// TestGrace: inv:K3. A lease from before a step is valid for as long as the step may have shortened
// it, up to one lease, and a minute at most.
func TestGrace(t *testing.T) {
	const second = int64(1_000_000)
	row := func(until, lease, updated int64) *jobrow.Row {
		l := &jobrow.Row{LeaseUntil: until, LeaseUs: lease, UpdatedAt: updated}
		l.State = sojourn.Running
		return l
	}
	at := &Tx{Reading: clock.Reading{Now: 1000 * second, Since: 990 * second, Gap: 100 * second}}
	for name, c := range map[string]struct {
		row   *jobrow.Row
		until int64
		grace bool
	}{
		"ended by the step":          {row(970*second, 30*second, 960*second), 1020 * second, true},
		"written after it":           {row(970*second, 30*second, 990*second), 0, false},
		"had ended long before":      {row(890*second, 30*second, 880*second), 990 * second, false},
		"a long lease":               {row(970*second, 3600*second, 960*second), 1050 * second, true},
		"a short lease, a while ago": {row(985*second, 5*second, 980*second), 995 * second, false},
	} {
		if until, grace := at.InGrace(c.row); until != c.until || grace != c.grace {
			t.Errorf("%s: until %d, %v; want %d, %v", name, until/second, grace, c.until/second, c.grace)
		}
	}
}
