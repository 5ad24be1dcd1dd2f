package txn

import (
	"strconv"

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

// NextID returns the first id that was never allocated.
func (t *Tx) NextID() (int64, error) {
	next := int64(1)
	err := t.Read(QMeta, func(r sqldb.Row) (err error) {
		next, err = strconv.ParseInt(r.Text(0), 10, 64)
		return err
	}, "next_id")
	return next, err
}
