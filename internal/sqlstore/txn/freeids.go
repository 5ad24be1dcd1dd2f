package txn

import "slices"

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
