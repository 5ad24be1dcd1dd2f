package claim

import (
	"cmp"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
)

// reregisterAfter is the interval at which an idle worker is recorded again, so that it is not
// forgotten. It is long: an idle store writes nothing.
func (c *batch) reregisterAfter() time.Duration {
	return cmp.Or(time.Duration(c.Core.Workers.Life.Load()), sojourn.WorkerLife) / 2
}

const qSaveSubscription = `insert into sj_worker (worker, claim_no, claimed, asks, seen_us) values ($1, 0, '[]', $2, $3)
		on conflict (worker) do update set asks = excluded.asks, seen_us = excluded.seen_us`

// registerWorker records the queues and kinds that a worker claims: once, then again when there are
// new ones or after reregisterAfter. A worker may claim its queues in turn, so earlier ones stay.
func (c *batch) registerWorker(r driver.ClaimRequest) error {
	text, known, err := c.subscriptionOf(r)
	if err != nil || known {
		return err
	}
	_, err = c.Write(qSaveSubscription, r.Worker, text, c.Now)
	return err
}

// subscriptionOf returns the queues and kinds that a worker has claimed, including those of this
// request, and whether they are stored already. They are not if an operator has removed the worker.
func (c *batch) subscriptionOf(r driver.ClaimRequest) (text string, known bool, err error) {
	before, ok := c.claimer.subscriptions.Get(r.Worker)
	_, stored := c.lastClaims[r.Worker]
	if ok && stored && presence.Subset(r.Queues, before.Queues) && presence.Subset(r.Kinds, before.Kinds) && c.Now-before.At < c.reregisterAfter().Microseconds() {
		return before.Text, true, nil
	}
	now := presence.StoredSubscription{Subscription: presence.Subscription{Name: r.Name, Queues: presence.Union(before.Queues, r.Queues), Kinds: presence.Union(before.Kinds, r.Kinds)}, At: c.Now}
	if now.Text, err = jobrow.JSONText(now.Subscription); err != nil {
		return "", false, err
	}
	c.Events.After = append(c.Events.After, func() { c.claimer.subscriptions.Put(r.Worker, now) })
	return now.Text, false, nil
}
