package txn

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Statements of ids and numbers. One row of sj_meta counts the ids, and one the numbers of
// responses, so that they are without gaps and in blocks of any size.
const (
	// QNextIDs allocates $1 ids and returns the first.
	QNextIDs = `insert into sj_meta (name, value) values ('next_id', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint)`
	// QNextResponses allocates $1 numbers of responses, and returns the first one and how many
	// follow each other.
	QNextResponses = `insert into sj_meta (name, value) values ('next_response', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint), cast($1 as bigint)`

	// QAddBlock stores a Block.
	QAddBlock = `insert into sj_block (first, size, leased_us, owner) values ($1, $2, $3, $4)`
	// QFindBlock finds the block that may have an id.
	QFindBlock = `select first, size, leased_us, owner from sj_block where first <= $1 order by first desc limit 1`
)

// TextNextResponses is QNextResponses, for Dialect.Over.
const TextNextResponses = QNextResponses

// Block is a range of ids that a caller has leased. A block never changes.
type Block struct {
	First, Size int64
	Leased      int64  // when, microseconds
	Owner       string // the id of the caller's access token, "" without one; see driver.IDOwner
}

// Holds reports whether an id is in the block.
func (b Block) Holds(id int64) bool { return id >= b.First && id < b.First+b.Size }

// Scan reads the columns of QFindBlock.
func (b *Block) Scan(r sqldb.Row) error {
	*b = Block{r.Int(0), r.Int(1), r.Int(2), r.Text(3)}
	return nil
}

// CheckID refuses an id that its owner has not leased, or whose block is older than sojourn.IDLife:
// an id is inserted once, and its job may have been pruned since. It does not look for a job with
// the id. last is the block of the id before, and becomes that of this one; the ids of a call
// mostly share one.
func (t *Tx) CheckID(id sojourn.ID, owner string, last *Block) error {
	if b, ok := t.cachedBlock(id); ok {
		*last = b
	}
	if !last.Holds(int64(id)) {
		*last = Block{}
		if err := t.Read(QFindBlock, last.Scan, int64(id)); err != nil {
			return err
		}
	}
	switch {
	case last.Holds(int64(id)) && t.Now-last.Leased > sojourn.IDLife.Microseconds():
	case last.Holds(int64(id)) && last.Owner == owner:
		return nil
	case last.Holds(int64(id)):
		return notLeased(id)
	default:
		next, err := t.NextID()
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

// NextID returns the first id that was never allocated.
func (t *Tx) NextID() (int64, error) {
	next := int64(1)
	err := t.Read(QMeta, func(r sqldb.Row) (err error) {
		next, err = strconv.ParseInt(r.Text(0), 10, 64)
		return err
	}, "next_id")
	return next, err
}

func notLeased(id sojourn.ID) error {
	return sojourn.Invalid("id", "%d is not in a block of ids that this caller has leased; lease ids with Store.IDs (POST /v1/ids), or leave it out", id)
}
