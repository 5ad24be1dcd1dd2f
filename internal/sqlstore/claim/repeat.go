package claim

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// repeatedClaim answers a request that was executed before with its jobs whose leases are still
// valid.
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
		return nil, answered, nil // older than the newest: its caller does not wait for the answer any more
	}
	leases, closed, err := leasesIn(before.leases, r.Worker)
	if err != nil {
		return nil, last, err
	}
	if closed && !r.Close {
		return nil, answered, nil // it has arrived after the claim that closed its number
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
	carries := make(map[sojourn.ID]*txn.JobColumns, len(rows))
	err = c.Peek(qCarried, func(row sqldb.Row) error {
		carries[sojourn.ID(row.Int(0))] = txn.ScanJobColumns(row, 1)
		return nil
	}, jobrow.IDsOf(rows))
	if err == nil && r.Close && !closed {
		err = c.saveClaim(r, last, rows)
	}
	if err == nil {
		jobs, err = c.claimed(rows, carries, r)
	}
	return jobs, answered, err
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
		c.Add(qNextClaim, 1, faster, r.Worker, r.Number, text, wants, c.Now, last, noteSeen.Microseconds())
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

// leasesIn reads leasesText.
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
