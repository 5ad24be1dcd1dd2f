package txn

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// maxCachedRows bounds the row caches: 10,000 rows are some 10 MB.
const maxCachedRows = 10_000

// localRows is a cache of the rows of running jobs as this process's last transactions left them,
// so that a finish need not read the row that its claim has just written. It is valid until another
// connection commits, which changes the version. So it is used only on a Versioned connection,
// which excludes other writers during a transaction, and it belongs to the transaction under way
// (docs/internals/engine.md#row-cache).
type localRows struct {
	version    int64 // of the database, after the last transaction
	rows       map[sojourn.ID]*jobrow.Row
	free       freeIDs
	unfollowed bool // there was no follower when it was last checked
}

// Open gives the transaction the cached rows, if they are still valid, and has the cache updated at
// its end.
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
		*k, t.Events.Foreign = localRows{version: version}, true
	}
	if k.rows == nil || len(k.rows) > maxCachedRows {
		k.rows = map[sojourn.ID]*jobrow.Row{}
	}
	t.Cache.local = k.rows
	c.Ended(func(failed error) { k.keep(t, failed) })
	return nil
}

// keep caches the rows that a transaction has written. If it has failed, or has changed rows in
// another way, no row is cached.
func (k *localRows) keep(t *Tx, failed error) {
	if failed != nil { // nobody was told of the commits that it has found: the next one finds them again
		*k = localRows{}
		return
	}
	k.unfollowed = k.unfollowed || t.Cache.unfollowed
	k.free.add(t.Cache.Blocks)
	if t.Cache.Altered {
		k.rows = nil
		return
	}
	for _, l := range t.Cache.Changed {
		if l.State == sojourn.Running {
			k.rows[l.ID] = l
		} else {
			delete(k.rows, l.ID)
		}
	}
}

// FreeID marks an id as used, and reports whether it was certainly free, with the block that owner
// has leased. If it reports false, the id must be looked up.
func (t *Tx) FreeID(id sojourn.ID, owner string) (Block, bool) {
	if t.Cache.local == nil {
		return Block{}, false
	}
	return t.Core.Caches.Local.free.take(int64(id), owner)
}

// cachedRow returns the cached row of a lease, if there is one and this transaction has written
// nothing yet.
func (t *Tx) cachedRow(lease sojourn.Lease) *jobrow.Row {
	if t.Wrote || t.Cache.Altered || !t.Writes.empty() {
		return nil
	}
	return t.Cache.local[lease.ID]
}

// freeIDs are ids that this process has leased and that are still free, so that an insert need not
// look them up first. They are part of localRows, and as valid as its rows
// (docs/internals/engine.md#id-cache).
type freeIDs []*freeBlock // the newest last, at most cachedBlocks

// freeBlock is a leased block.
type freeBlock struct {
	Block
	taken []uint64 // a bit for each id, set when it is used
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

// alters reports whether a statement changes rows by itself, and not by the write set. Such a
// statement must begin so, because it makes cached rows stale.
func alters(q string) bool {
	return strings.HasPrefix(q, "update sj_live") || strings.HasPrefix(q, "update sj_job")
}
