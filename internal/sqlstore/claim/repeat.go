package claim

import (
	"encoding/json"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// lastClaim is the newest claim of a worker that was executed.
type lastClaim struct {
	number  int64
	leases  string // as they are stored
	drained bool
}

// alreadyAnswered replaces the number of the worker's last claim if the request was executed
// before.
const alreadyAnswered = -1

// seenPrecision bounds by how much the stored time of a worker's last claim with jobs may be too
// early.
const seenPrecision = 10 * time.Second

const (
	// qLastClaim does not lock: a lock would be a write by each claim that finds nothing.
	// qSaveClaim compares the number instead.
	qLastClaim = `select w.worker, w.claim_no, w.claimed, w.drained from sj_worker w /*, each*/ where w.worker = each($1 text)`
	qSaveClaim = `insert into sj_worker (worker, claim_no, claimed, asks, seen_us) values ($1, $2, $3, $4, $5)
		on conflict (worker) do update set claim_no = excluded.claim_no, claimed = excluded.claimed, asks = excluded.asks, seen_us = excluded.seen_us
		where sj_worker.claim_no = $6`
	// qNextClaim: seen_us is indexed. PostgreSQL writes the row alone if no indexed column changes
	// (a HOT update), so seen_us changes only once in seenPrecision.
	qNextClaim = `update sj_worker set claim_no = $2, claimed = $3, asks = $4, seen_us = case when $5 - seen_us < $7 then seen_us else $5 end
		where worker = $1 and claim_no = $6`
	qJobColumns = `select j.id, ` + txn.JobColumnList + `, j.args from sj_job j where j.id in (ints($1))`
)

// repeatedClaim answers a request that was executed before with its jobs whose leases are still
// valid. last is the number of the worker's last claim, or alreadyAnswered.
func (c *batch) repeatedClaim(r driver.ClaimRequest) (jobs []driver.Claimed, last int64, err error) {
	if r.Number == 0 {
		return nil, 0, nil
	}
	before := c.lastClaims[r.Worker]
	last = before.number
	if r.Number > last {
		return nil, last, err
	}
	if r.Number < last {
		return nil, alreadyAnswered, nil // older than the newest: its caller does not wait for the answer any more
	}
	leases, closed, err := leasesIn(before.leases, r.Worker)
	if err != nil {
		return nil, last, err
	}
	if closed && !r.Close {
		return nil, alreadyAnswered, nil // it has arrived after the claim that closed its number
	}
	if err := c.ReadLeased(leases); err != nil {
		return nil, last, err
	}
	var rows []*jobrow.Row
	for _, lease := range leases {
		if l := c.Loaded.Leased[lease.ID]; l != nil && l.HasLease(lease) {
			rows = append(rows, l)
		}
	}
	if len(rows) == 0 {
		return nil, last, nil // no lease is valid: the request may be answered with other jobs
	}
	columns := make(map[sojourn.ID]*txn.JobColumns, len(rows))
	err = c.Peek(qJobColumns, func(row sqldb.Row) error {
		columns[sojourn.ID(row.Int(0))] = txn.ScanJobColumns(row, 1)
		return nil
	}, jobrow.IDsOf(rows))
	if err == nil && r.Close && !closed {
		err = c.saveClaim(r, last, rows)
	}
	if err == nil {
		jobs, err = c.claimed(rows, columns, r)
	}
	return jobs, alreadyAnswered, err
}

// saveClaim records the jobs of a worker's claim, so that its repeated request gets the same.
func (c *batch) saveClaim(r driver.ClaimRequest, last int64, rows []*jobrow.Row) error {
	text := leasesText(rows, r.Close)
	c.lastClaims[r.Worker] = lastClaim{number: r.Number, leases: text}
	wants, _, err := c.subscriptionOf(r)
	if err != nil {
		return err
	}
	faster := "worker " + r.Worker + " has claimed meanwhile"
	if last > 0 {
		c.Add(qNextClaim, 1, faster, r.Worker, r.Number, text, wants, c.Now, last, seenPrecision.Microseconds())
	} else {
		c.Add(qSaveClaim, 1, faster, r.Worker, r.Number, text, wants, c.Now, last)
	}
	return nil
}

// leasesText lists the jobs and epochs of a worker's leases. Each claim writes it, so it is short.
// A 0 in front says that the claim's number is closed.
func leasesText(rows []*jobrow.Row, closed bool) string {
	list := make(sqldb.Ints, 0, 2*len(rows)+1)
	if closed {
		list = append(list, 0)
	}
	for _, l := range rows {
		list = append(list, int64(l.ID), l.Epoch)
	}
	return list.JSON()
}

// leasesIn decodes leasesText.
func leasesIn(text, worker string) (leases []sojourn.Lease, closed bool, err error) {
	var list []int64
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, false, err
	}
	if closed = len(list)%2 == 1; closed {
		list = list[1:]
	}
	leases = make([]sojourn.Lease, len(list)/2)
	for i := range leases {
		leases[i] = sojourn.Lease{ID: sojourn.ID(list[2*i]), Epoch: list[2*i+1], Worker: worker}
	}
	return leases, closed, nil
}
