package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// charged holds the args of a job.
type charged struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// queue is where the demo's jobs stand, and tag what tells them from jobs that a visitor adds.
const (
	queue = "payments"
	tag   = "demo"
)

// chargeCard keeps the key of an order for a year after its job ends: a shop that died between the
// store's commit and its own note enqueues the order again, and is told that it is there already.
var chargeCard = sojourn.Kind[charged]{
	Name: "charge_card", Queue: queue, Key: func(c charged) string { return c.Order },
	Policy: sojourn.Policy{Timeout: time.Hour, KeepKey: 365 * 24 * time.Hour},
}

// shop sells orders, and its handler asks the gateway for the money.
type shop struct {
	cfg     Config
	client  *sojourn.Client
	ledger  *ledger
	stats   *stats
	http    *http.Client
	gateway string // URL
	trades  []trade

	mu       sync.Mutex // guards what follows
	gaps     []int
	upcoming int
	sold     int // in this run
	began    time.Time

	withdrawals sync.WaitGroup
}

// handle is one step of a job: request the payment and wait, or process the response.
func (s *shop) handle(ctx context.Context, job *sojourn.Job, c charged) error {
	s.stats.started(job)
	if job.Response == nil {
		if job.Failures > 0 {
			s.stats.event("%s: asks again, attempt %d", c.Order, job.Attempt)
		}
		return s.request(ctx, job, c)
	}
	var answer webhook
	if err := json.Unmarshal(job.Response.Body, &answer); err != nil {
		return err
	}
	if answer.Status != approved {
		s.stats.event("%s: card declined", c.Order)
		return sojourn.Abort(sojourn.WithReason("card_declined", fmt.Errorf("order %s: card declined", c.Order)))
	}
	return job.SetResult(map[string]any{"order": c.Order, "charged_cents": answer.Cents})
}

// request asks the gateway to charge a card. Retries of the job use the same Idempotency-Key.
func (s *shop) request(ctx context.Context, job *sojourn.Job, c charged) error {
	body, err := json.Marshal(order(c))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.gateway, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", job.IdempotencyKey())
	resp, err := s.http.Do(req)
	if err != nil {
		return sojourn.WithReason("gateway_unreachable", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusTooManyRequests:
		s.stats.event("%s: gateway is busy, snoozes", c.Order)
		return sojourn.Snooze(time.Second)
	case resp.StatusCode/100 != 2:
		return sojourn.WithReason("gateway_refused", fmt.Errorf("gateway: %s: %s", resp.Status, strings.TrimSpace(string(said))))
	}
	return sojourn.Await(s.cfg.Within)
}

// clerk sells orders at the shop's rate until ctx ends or the orders run out. Behind time it
// hurries.
func (s *shop) clerk(ctx context.Context) error {
	for {
		n, due, ok := s.next()
		if !ok || !sleep(ctx, time.Until(due)) {
			return nil
		}
		if err := s.sell(ctx, n); err != nil {
			return err
		}
	}
}

// next gives the number of the next order and when to sell it.
func (s *shop) next() (n int, due time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Orders > 0 && s.sold >= s.cfg.Orders {
		return 0, due, false
	}
	due = s.began.Add(time.Duration(float64(s.sold) / s.cfg.Rate * float64(time.Second)))
	s.sold++
	if len(s.gaps) > 0 {
		n, s.gaps = s.gaps[0], s.gaps[1:]
		return n, due, true
	}
	s.upcoming++
	return s.upcoming - 1, due, true
}

// sell enqueues the extra jobs of an order, then the order itself, and logs the acknowledgements in
// the ledger. All of them are finished even if ctx ends meanwhile.
func (s *shop) sell(ctx context.Context, n int) error {
	for _, job := range s.extras(n) {
		id, err := s.enqueue(ctx, job, false)
		if err != nil {
			return err
		}
		if err := s.ledger.write(entry{Order: n, Job: id, Kind: job.Kind}); err != nil {
			return err
		}
	}
	t := s.cfg.traits(n)
	job := chargeCard.New(charged{orderName(n), t.cents}, s.cfg.options(t)...)
	began := time.Now()
	id, err := s.enqueue(ctx, job, t.dropped)
	if err != nil {
		return err
	}
	s.stats.enqueued(time.Since(began))
	if err := s.ledger.write(entry{Order: n, Job: id}); err != nil {
		return err
	}
	if t.withdraw > 0 {
		s.withdrawals.Go(func() { s.withdraw(ctx, id, orderName(n), t.withdraw) })
	}
	return nil
}

func (c Config) options(t traits) []sojourn.Option {
	o := []sojourn.Option{sojourn.Tags(tag), sojourn.Group(t.region), sojourn.MaxAttempts(c.MaxAttempts), sojourn.RetryBackoff(c.Backoff)}
	if t.express {
		o = append(o, sojourn.Priority(10), sojourn.Tags("express"))
	}
	if t.delay > 0 {
		o = append(o, sojourn.Delay(t.delay))
	}
	return o
}

// giveUp is how long the shop tries to enqueue an order while the store refuses for the moment.
const giveUp = 30 * time.Second

// enqueue stores a job. While the outcome is unknown or the store is unavailable, it repeats the
// call with the same job, so that at most one exists. The fault drop-ack only draws an id.
func (s *shop) enqueue(ctx context.Context, job *sojourn.Job, drop bool) (sojourn.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
	defer cancel()
	if drop {
		return s.client.Store().IDs(ctx, 1)
	}
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		e, err := s.client.Enqueue(ctx, job)
		switch code := sojourn.ErrorCode(err); {
		case err == nil:
			return e.ID, nil
		case code != sojourn.CodeUnknown && code != sojourn.CodeUnavailable:
			return 0, err
		case !sleep(ctx, wait):
			return 0, err
		}
	}
}

// withdraw cancels an order after a while, as customers do. One that has ended meanwhile stays as
// it is.
func (s *shop) withdraw(ctx context.Context, id sojourn.ID, name string, after time.Duration) {
	if !sleep(ctx, after) {
		return
	}
	if err := s.client.As("customer").Cancel(context.WithoutCancel(ctx), id, "withdrawn"); err == nil {
		s.stats.event("%s: cancelled by the customer", name)
	}
}

// sleep waits for d and reports whether ctx still stands.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
