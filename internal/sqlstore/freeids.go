package sqlstore

import "slices"

// unused are ids that this process has leased and that are still free, so that an insert need not
// look them up first. It is a part of recent, and like it is valid while no other connection writes
// (docs/internals/engine.md#id-cache).
type unused []*unusedBlock // the newest last, at most guessedBlocks

type unusedBlock struct {
	block
	taken []uint64 // a bit for each id
}

// add adds blocks that were just leased.
func (u *unused) add(blocks []block) {
	for _, b := range blocks {
		*u = append((*u)[max(0, len(*u)-guessedBlocks+1):], &unusedBlock{b, make([]uint64, (b.size+63)/64)})
	}
}

// take marks an id as used and reports whether it was free, with the block that its owner has
// leased. For another owner it changes nothing.
func (u unused) take(id int64, owner string) (block, bool) {
	for _, b := range slices.Backward(u) {
		if b.holds(id) {
			if b.owner != owner {
				break
			}
			word, bit := &b.taken[(id-b.first)/64], uint64(1)<<((id-b.first)%64)
			free := *word&bit == 0
			*word |= bit
			return b.block, free
		}
	}
	return block{}, false
}
