package sqlstore

import (
	"context"
	"strconv"

	"github.com/sojourn-queue/sojourn"
)

// maxBlock bounds one lease of ids.
const maxBlock = 10_000

const (
	qAddBlock  = `insert into sj_block (first, size, leased_us) values ($1, $2, $3)`
	qFindBlock = `select first, size, leased_us from sj_block where first <= $1 order by first desc limit 1`
)

var stepIDs = eachStep("ids", func(t *tx, n int64) (sojourn.ID, error) {
	next, err := t.counter("next_id", n)
	if err != nil {
		return 0, err
	}
	_, err = t.exec(qAddBlock, next, n, t.now)
	return sojourn.ID(next), err
})

// IDs leases a block of n ids; see sojourn.Store.
func (s *Store) IDs(ctx context.Context, n int) (sojourn.ID, error) {
	if n < 1 || n > maxBlock {
		return 0, sojourn.Invalid("n", "%d ids are out of range: 1 to %d a call", n, maxBlock)
	}
	return do[sojourn.ID](ctx, s, classClaim, stepIDs, 1, int64(n))
}

// counter takes n numbers from a counter of the instance and returns the first; counters start at 1.
func (t *tx) counter(name string, n int64) (int64, error) {
	next, err := t.peekCounter(name)
	if err != nil {
		return 0, err
	}
	_, err = t.exec(qSetMeta, name, strconv.FormatInt(next+n, 10))
	return next, err
}

// peekCounter is the first number that a counter has not given out.
func (t *tx) peekCounter(name string) (int64, error) {
	next := int64(1)
	err := t.query(qMeta, func(r Row) (err error) {
		next, err = strconv.ParseInt(r.Text(0), 10, 64)
		return err
	}, name)
	return next, err
}

// block is a range of ids with the time of its lease.
type block struct{ first, size, leased int64 }

func (b block) holds(id int64) bool { return id >= b.first && id < b.first+b.size }

// checkID refuses an id that was not leased, or whose block is older than IDLife: the job that once had it may have been pruned since
// (rules: an id is inserted once). last is the block found before; the ids of a batch mostly share one.
func (t *tx) checkID(id sojourn.ID, last *block) error {
	if !last.holds(int64(id)) {
		*last = block{}
		err := t.query(qFindBlock, func(r Row) error {
			*last = block{r.Int(0), r.Int(1), r.Int(2)}
			return nil
		}, int64(id))
		if err != nil {
			return err
		}
	}
	if !last.holds(int64(id)) {
		next, err := t.peekCounter("next_id")
		if err == nil && int64(id) >= next {
			err = sojourn.Invalid("id", "%d was not leased from this store; draw ids with Store.IDs, or leave 0", id)
		}
		if err != nil {
			return err
		}
	}
	if !last.holds(int64(id)) || t.now-last.leased > sojourn.IDLife.Microseconds() {
		return &sojourn.Error{Code: sojourn.CodeIDExpired, Field: "id", Index: -1,
			Message: "the block of id " + strconv.FormatInt(int64(id), 10) + " is older than " + sojourn.IDLife.String() + "; draw a new id. Nothing was stored"}
	}
	return nil
}
