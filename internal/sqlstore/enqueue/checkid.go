package enqueue

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// checkID refuses an id that its owner has not leased, or whose block is older than sojourn.IDLife:
// an id is inserted once, and its job may have been pruned since. It does not look for a job with
// the id. last is the block of the id before, and becomes that of this one; the ids of a call
// mostly share one.
func (b *Batch) checkID(id sojourn.ID, owner string, last *txn.Block) error {
	if known, ok := b.CachedBlock(id); ok {
		*last = known
	}
	if !last.Holds(int64(id)) {
		*last = txn.Block{}
		if err := b.Read(txn.QFindBlock, last.Scan, int64(id)); err != nil {
			return err
		}
	}
	switch {
	case last.Holds(int64(id)) && b.Now-last.Leased > sojourn.IDLife.Microseconds():
	case last.Holds(int64(id)) && last.Owner == owner:
		return nil
	case last.Holds(int64(id)):
		return notLeased(id)
	default:
		next, err := b.NextID()
		if err != nil {
			return err
		}
		if int64(id) >= next {
			return notLeased(id)
		}
	}
	return &sojourn.Error{Code: sojourn.CodeIDExpired, Field: "id", Index: -1,
		Message: "the block of id " + strconv.FormatInt(int64(id), 10) + " is older than " + sojourn.IDLife.String() + "; draw a new id. Nothing was stored"}
}

func notLeased(id sojourn.ID) error {
	return sojourn.Invalid("id", "%d is not in a block of ids that this caller has leased; lease ids with Store.IDs (POST /v1/ids), or leave it out", id)
}
