package sqlstore

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	// One row counts the ids, so that they are without gaps and in blocks of any size. Both texts
	// return the first number.
	qNextIDs = `insert into sj_meta (name, value) values ('next_id', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint)`
	// Numbers of responses: the first one, and how many in a row.
	qNextResponses = `insert into sj_meta (name, value) values ('next_response', cast(1 + cast($1 as bigint) as text))
		on conflict (name) do update set value = cast(cast(sj_meta.value as bigint) + cast($1 as bigint) as text)
		returning cast(value as bigint) - cast($1 as bigint), cast($1 as bigint)`

	qAddBlock  = `insert into sj_block (first, size, leased_us, owner) values ($1, $2, $3, $4)`
	qFindBlock = `select first, size, leased_us, owner from sj_block where first <= $1 order by first desc limit 1`
)

// TextNextResponses names the statement that numbers responses, for Dialect.Over.
const TextNextResponses = qNextResponses

// nextID is the first id that was never allocated.
func (t *tx) nextID() (int64, error) {
	next := int64(1)
	err := t.query(qMeta, func(r sqldb.Row) (err error) {
		next, err = strconv.ParseInt(r.Text(0), 10, 64)
		return err
	}, "next_id")
	return next, err
}

// block is a range of ids with the time of its lease and its owner: the id of the caller's access
// token, "" without one; see driver.IDOwner.
type block struct {
	first, size, leased int64
	owner               string
}

func (b block) holds(id int64) bool { return id >= b.first && id < b.first+b.size }

func (b *block) scan(r sqldb.Row) error {
	*b = block{r.Int(0), r.Int(1), r.Int(2), r.Text(3)}
	return nil
}

// checkID refuses an id that its owner has not leased, or whose block is older than IDLife: an id
// is inserted once, and its job may have been pruned since. Whether a job has the id makes no
// difference. last is the block found before; the ids of a batch mostly share one.
func (t *tx) checkID(id sojourn.ID, owner string, last *block) error {
	if b, ok := t.guessedBlock(id); ok {
		*last = b
	}
	if !last.holds(int64(id)) {
		*last = block{}
		if err := t.query(qFindBlock, last.scan, int64(id)); err != nil {
			return err
		}
	}
	switch {
	case last.holds(int64(id)) && t.now-last.leased > sojourn.IDLife.Microseconds():
	case last.holds(int64(id)) && last.owner == owner:
		return nil
	case last.holds(int64(id)):
		return notLeased(id)
	default:
		next, err := t.nextID()
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
