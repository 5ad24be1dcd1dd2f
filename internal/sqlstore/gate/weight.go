package gate

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/throttle"
)

// The weight in flight of a queue is a ledger by lane: sj_flight has sums, and sj_landed has the
// changes since, one row each, so that concurrent transactions do not wait for one another. A claim
// that reads many changes folds them into the sums.

const (
	// qFlight returns for each lane its weight in flight, the number of its changes, and their sum.
	qFlight = `select lane, sum(held), sum(n), sum(n * held) from (select lane, held, 0 as n from sj_flight where queue = $1
		union all select lane, held, 1 from sj_landed where queue = $1) a group by lane`
	qTakeLanded = `delete from sj_landed where queue = $1 and lane in (texts($2)) returning lane, held`
	qAddHeld    = `insert into sj_flight (held, queue, lane) rows($1 bigint, $2 text, $3 text)
		on conflict (queue, lane) do update set held = sj_flight.held + excluded.held`
	qDropEmpty = `delete from sj_flight where queue = $1 and held = 0`

	qInFlight       = `select id, kind, lane, state, held, priority from sj_live where queue = $1 and held > 0 and lane <> '' limit $2`
	qInFlightTotals = `select kind, lane, state, count(*), sum(held) from sj_live where queue = $1 and held > 0 and lane <> '' group by kind, lane, state`
)

// A lane is folded if its changes cancel each other out, or if there are foldLaneFrom of them; and
// only if these lanes have foldFrom changes together.
const (
	foldFrom     = 50
	foldLaneFrom = 10
)

// MaxWeight returns the weight that may be in flight after a change of settings: the limit, or more
// if more is in flight, which then drains. 0: there is no limit.
func MaxWeight(t *txn.Tx, queue string, q sojourn.QueueSettings) (int64, error) {
	if q.Limit < 1 {
		return 0, nil
	}
	used, _, err := inFlight(t, queue)
	return max(used, q.Limit), err
}

// inFlight sums the weight in flight of a queue, by group. Under the queue's lock other
// transactions can only reduce it.
func inFlight(t *txn.Tx, queue string) (used int64, groups map[string]int64, err error) {
	t.FlushWeights()
	groups = map[string]int64{}
	rows, lanes := int64(0), sqldb.Texts{}
	err = t.Read(qFlight, func(r sqldb.Row) error {
		lane, held, landed, net := r.Text(0), r.Int(1), r.Int(2), r.Int(3)
		used += held
		if landed > 0 && net == 0 || landed >= foldLaneFrom {
			rows, lanes = rows+landed, append(lanes, lane)
		}
		if lane[:1] == jobrow.LaneGroup && held != 0 {
			groups[lane[1:]] += held
		}
		return nil
	}, queue)
	if err == nil && rows >= foldFrom && !t.ReadOnly && t.OwnsQueue(queue) {
		err = foldLanded(t, queue, lanes)
	}
	return used, groups, err
}

// foldLanded moves the changes of some lanes into the sums, including changes that other
// transactions have added since they were read.
func foldLanded(t *txn.Tx, queue string, lanes sqldb.Texts) error {
	sum := map[string]int64{}
	if err := t.Read(qTakeLanded, func(r sqldb.Row) error { sum[r.Text(0)] += r.Int(1); return nil }, queue, lanes); err != nil {
		return err
	}
	t.Wrote = true
	var held sqldb.Ints
	var queues, names sqldb.Texts
	for lane, n := range sum {
		if n != 0 {
			held, queues, names = append(held, n), append(queues, queue), append(names, lane)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := t.WriteBulk(qAddHeld, nil, held, queues, names); err != nil {
		return err
	}
	_, err := t.Write(qDropEmpty, queue)
	return err
}

// readFlight reads the jobs in flight for a throttler: the first MaxFlight of them, and totals of
// all.
func readFlight(t *txn.Tx, queue string) (*throttle.Flight, error) {
	f := &throttle.Flight{Now: jobrow.Time(t.Now)}
	seen := 0
	err := t.Read(qInFlight, func(r sqldb.Row) error {
		if seen++; seen <= sojourn.MaxFlight {
			f.List = append(f.List, throttle.FlightJob{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Group: groupOf(r.Text(2)), State: sojourn.State(r.Int(3)),
				Weight: int32(r.Int(4)), Priority: int32(r.Int(5))})
			f.Count(r.Text(1), groupOf(r.Text(2)), sojourn.State(r.Int(3)), throttle.Load{Jobs: 1, Weight: r.Int(4)})
		}
		return nil
	}, queue, sojourn.MaxFlight+1)
	if err != nil || seen <= sojourn.MaxFlight {
		return f, err
	}
	f = &throttle.Flight{Now: f.Now, List: f.List}
	return f, t.Read(qInFlightTotals, func(r sqldb.Row) error {
		f.Count(r.Text(0), groupOf(r.Text(1)), sojourn.State(r.Int(2)), throttle.Load{Jobs: r.Int(3), Weight: r.Int(4)})
		return nil
	}, queue)
}

// groupOf is the group of a lane; "" for the lanes of jobs without one.
func groupOf(lane string) string {
	if len(lane) > 0 && lane[:1] == jobrow.LaneGroup {
		return lane[1:]
	}
	return ""
}
