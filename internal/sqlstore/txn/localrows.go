package txn

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// maxCachedRows bounds recent: 10,000 rows are some 10 MB.
const maxCachedRows = 10_000

// localRows is a cache of the rows of running jobs as this process's last transactions left them,
// so that a finish need not read the row that its claim has just written. The cache is valid while
// no other connection writes: another commit changes the version, and clears it. So only a
// Versioned connection, which writes alone, uses it. It belongs to the connection's transaction.
type localRows struct {
	version int64
	rows    map[sojourn.ID]*jobrow.Row
	unused  freeIDs
}

// Open gives the transaction the cached rows if they are still valid.
func (k *localRows) Open(t *Tx) error {
	c, ok := t.Conn.(sqldb.Versioned)
	if !ok || t.Core.Cfg.Without.LocalRows {
		return nil
	}
	version, err := c.Version()
	if err != nil {
		return err
	}
	if t.Core.Cfg.Spoils != nil {
		k.spoil(t.Core)
	}
	if version != k.version {
		k.unused = nil
	}
	if version != k.version || k.rows == nil || len(k.rows) > maxCachedRows {
		k.version, k.rows = version, map[sojourn.ID]*jobrow.Row{}
	}
	t.recent = k.rows
	c.Ended(func(failed error) { k.keep(t, failed) })
	return nil
}

// keep caches the rows that a transaction has written. If it has failed, or has changed rows in
// another way, no row is cached.
func (k *localRows) keep(t *Tx, failed error) {
	if failed == nil {
		k.unused.add(t.Blocks)
	}
	if failed != nil || t.Altered {
		k.rows = nil
		return
	}
	for _, l := range t.Changed {
		if l.State == sojourn.Running {
			k.rows[l.ID] = l
		} else {
			delete(k.rows, l.ID)
		}
	}
}

// alters reports whether a statement changes rows other than those that a transaction saves.
func alters(q string) bool {
	return strings.HasPrefix(q, "update sj_live") || strings.HasPrefix(q, "update sj_job")
}

// FreeID is freeIDs.take, if no other connection can have used the id.
func (t *Tx) FreeID(id sojourn.ID, owner string) (Block, bool) {
	if t.recent == nil {
		return Block{}, false
	}
	return t.Core.LocalRows.unused.take(int64(id), owner)
}

// cachedRow returns the cached row of a lease, if there is one and this transaction has written
// nothing yet.
func (t *Tx) cachedRow(lease sojourn.Lease) *jobrow.Row {
	if t.Wrote || t.Altered || !t.Writes.empty() {
		return nil
	}
	return t.recent[lease.ID]
}

// freeIDs are ids that this process has leased and that are still free, so that an insert need not
// look them up first. It is a part of recent, and like it is valid while no other connection writes
// (docs/internals/engine.md#id-cache).
type freeIDs []*freeBlock // the newest last, at most cachedBlocks

type freeBlock struct {
	Block
	taken []uint64 // a bit for each id
}

// add adds blocks that were just leased.
func (u *freeIDs) add(blocks []Block) {
	for _, b := range blocks {
		*u = append((*u)[max(0, len(*u)-cachedBlocks+1):], &freeBlock{b, make([]uint64, (b.Size+63)/64)})
	}
}

// take marks an id as used and reports whether it was free, with the block that its owner has
// leased. For another owner it changes nothing.
func (u freeIDs) take(id int64, owner string) (Block, bool) {
	for _, b := range slices.Backward(u) {
		if b.Holds(id) {
			if b.Owner != owner {
				break
			}
			word, bit := &b.taken[(id-b.First)/64], uint64(1)<<((id-b.First)%64)
			free := *word&bit == 0
			*word |= bit
			return b.Block, free
		}
	}
	return Block{}, false
}
