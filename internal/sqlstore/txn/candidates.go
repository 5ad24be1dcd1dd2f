package txn

import (
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const QPickErrored = `select id, r1, r2, 0 from sj_live where queue = $1 and kind = $2 and state = 6 order by r1, r2, id limit $3 /*lock*/`

const qReserves = `select id from sj_live where id = $1 and run_at_us <= $2`

// ReserveBefore is the latest run_at of a ready job that a claim must not skip for its weight; 0
// without a reserve.
func ReserveBefore(now int64, r driver.ClaimRequest) int64 {
	if r.Reserve <= 0 {
		return 0
	}
	return now - r.Reserve.Microseconds()
}

// Reserves reports whether a claim must not skip a candidate that does not fit into the room left.
func (t *Tx) Reserves(r driver.ClaimRequest, id int64) (yes bool, err error) {
	if r.Reserve <= 0 {
		return false, nil
	}
	err = t.Read(qReserves, func(sqldb.Row) error { yes = true; return nil }, id, ReserveBefore(t.Now, r))
	return yes, err
}
