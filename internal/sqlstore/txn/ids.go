package txn

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	// One row counts the ids, so that they are without gaps and in blocks of any size. Both texts
	// return the first number.
	QNextIDs = `insert into sj_meta (name, value) values ('next_id', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint)`
	// Numbers of responses: the first one, and how many in a row.
	QNextResponses = `insert into sj_meta (name, value) values ('next_response', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint), cast($1 as bigint)`

	QAddBlock  = `insert into sj_block (first, size, leased_us, owner) values ($1, $2, $3, $4)`
	QFindBlock = `select first, size, leased_us, owner from sj_block where first <= $1 order by first desc limit 1`
)

// TextNextResponses names the statement that numbers responses, for Dialect.Over.
const TextNextResponses = QNextResponses

// NextID is the first id that was never allocated.
func (t *Tx) NextID() (int64, error) {
	next := int64(1)
	err := t.Read(QMeta, func(r sqldb.Row) (err error) {
		next, err = strconv.ParseInt(r.Text(0), 10, 64)
		return err
	}, "next_id")
	return next, err
}

// Block is a range of ids with the time of its lease and its owner: the id of the caller's access
// token, "" without one; see driver.IDOwner.
type Block struct {
	First, Size, Leased int64
	Owner               string
}

func (b Block) Holds(id int64) bool { return id >= b.First && id < b.First+b.Size }

func (b *Block) Scan(r sqldb.Row) error {
	*b = Block{r.Int(0), r.Int(1), r.Int(2), r.Text(3)}
	return nil
}

// CheckID refuses an id that its owner has not leased, or whose block is older than IDLife: an id
// is inserted once, and its job may have been pruned since. Whether a job has the id makes no
// difference. last is the block found before; the ids of a batch mostly share one.
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

func notLeased(id sojourn.ID) error {
	return sojourn.Invalid("id", "%d is not in a block of ids that this caller has leased; lease ids with Store.IDs (POST /v1/ids), or leave it out", id)
}
