package sqlstore

import (
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// recentRows bounds what recent remembers: 10,000 rows are some 10 MB.
const recentRows = 10_000

// recent are the rows of running jobs as this process's last transactions have left them, so that
// the end of a step need not read what its claim has just written. They hold as long as nobody else
// writes: another connection's commit changes the version, and all are forgotten. So only a
// connection that is Versioned uses them, which is one that writes alone. They belong to its
// transaction.
type recent struct {
	version int64
	rows    map[sojourn.ID]*live
	unused  unused
}

// open gives the transaction the rows if they still hold.
func (k *recent) open(t *tx) error {
	c, ok := t.Conn.(sqldb.Versioned)
	if !ok {
		return nil
	}
	version, err := c.Version()
	if err != nil {
		return err
	}
	if version != k.version {
		k.unused = nil
	}
	if version != k.version || k.rows == nil || len(k.rows) > recentRows {
		k.version, k.rows = version, map[sojourn.ID]*live{}
	}
	t.recent = k.rows
	c.Ended(func(failed error) { k.keep(t, failed) })
	return nil
}

// keep remembers what a transaction has written. If it has failed, or has changed rows in another
// way, nothing is remembered.
func (k *recent) keep(t *tx, failed error) {
	if failed == nil {
		k.unused.add(t.blocks)
	}
	if failed != nil || t.altered {
		k.rows = nil
		return
	}
	for _, l := range t.changed {
		if l.State == sojourn.Running {
			k.rows[l.ID] = l
		} else {
			delete(k.rows, l.ID)
		}
	}
}

// alters reports whether a statement changes rows beside those that a transaction saves.
func alters(q string) bool {
	return strings.HasPrefix(q, "update sj_live") || strings.HasPrefix(q, "update sj_job")
}

// unused is unused.take, if nobody else can have used it.
func (t *tx) unused(id sojourn.ID, owner string) (block, bool) {
	if t.recent == nil {
		return block{}, false
	}
	return t.s.recent.unused.take(int64(id), owner)
}

// recently is the row of a lease as it was left, if it is known and this transaction has written
// nothing yet.
func (t *tx) recently(lease sojourn.Lease) *live {
	if t.wrote || t.altered || !t.pending.empty() {
		return nil
	}
	return t.recent[lease.ID]
}
