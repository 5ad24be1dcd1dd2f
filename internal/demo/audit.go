package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Report is the end of a run: the store counted, against the ledger.
type Report struct {
	Enqueued  int         `json:"enqueued"`  // jobs that Enqueue has acknowledged, in this run and those before
	Completed int         `json:"completed"` // jobs by state, counted from the store
	Failed    int         `json:"failed"`
	Cancelled int         `json:"cancelled"`
	Live      int         `json:"live"` // jobs that are not final
	Lost      int         `json:"lost"` // acknowledged jobs and answers that the store does not have, or has not exactly once
	Responses Responses   `json:"responses"`
	EnqueueMS Percentiles `json:"enqueue_ms"` // of Client.Enqueue, which returns when the job is durable
	WaitMS    Percentiles `json:"wait_ms"`    // from when a job could start to its first start
	Store     string      `json:"store"`
	Gateway   Gateway     `json:"gateway"`
	Seed      uint64      `json:"seed"`

	Partners []PartnerReport `json:"partners"` // one for each broker

	Problems []string `json:"-"` // at most 20 lines about lost jobs and responses
}

// Responses counts the outcomes of Respond, in this run and earlier ones. An early response that is
// applied later is not counted again. Unmatched counts responses whose time in the inbox ended
// without a job; they arrived as early responses.
type Responses struct {
	Applied   int `json:"applied"`
	Early     int `json:"early"`
	Duplicate int `json:"duplicate"`
	Late      int `json:"late"`
	Unmatched int `json:"unmatched"`
	Parked    int `json:"parked"`
}

// OK reports whether nothing is lost and the job states add up to the number of enqueued jobs.
func (r Report) OK() bool {
	return r.Lost == 0 && r.Completed+r.Failed+r.Cancelled+r.Live == r.Enqueued
}

func (r *Report) lost(format string, a ...any) {
	r.Lost++
	r.problem(format, a...)
}

func (r *Report) problem(format string, a ...any) {
	if len(r.Problems) < 20 {
		r.Problems = append(r.Problems, fmt.Sprintf(format, a...))
	}
}

// audit counts the store's rows and compares them with the ledger. No other writer may be active.
func audit(ctx context.Context, c *sojourn.Client, l *ledger) (Report, error) {
	r := Report{Responses: l.responses()}
	if err := sweep(ctx, c); err != nil {
		return r, err
	}
	if err := auditJobs(ctx, c, l, &r); err != nil {
		return r, err
	}
	if err := auditInbox(ctx, c, l, &r); err != nil {
		return r, err
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return r, err
	}
	r.Store = describe(status)
	return r, nil
}

func describe(s sojourn.Status) string {
	return fmt.Sprintf("%s %s (%s)", s.Store, s.Version, s.Durability)
}

// sweep processes everything overdue, so that expired early responses are counted as unmatched.
func sweep(ctx context.Context, c *sojourn.Client) error {
	for {
		n, err := driver.Of(c).Sweep(ctx, sojourn.MaxFind)
		if err != nil || n.Total() == 0 {
			return err
		}
	}
}

func auditJobs(ctx context.Context, c *sojourn.Client, l *ledger, r *Report) error {
	rows := map[sojourn.ID]sojourn.Job{}
	f := sojourn.Filter{Tag: tag, Limit: sojourn.MaxFind}
	for {
		page, err := c.Store().Find(ctx, f)
		if err != nil {
			return err
		}
		for _, j := range page {
			r.count(j.State)
			rows[j.ID] = j
			f.After = j.ID.String()
		}
		if len(page) < f.Limit {
			break
		}
	}
	ids := l.sorted()
	r.Enqueued = len(ids)
	for _, id := range ids {
		j, ok := rows[id]
		if !ok {
			r.lost("job %d is acknowledged and not in the store", id)
			continue
		}
		delete(rows, id)
		if err := auditHistory(ctx, c, j, r); err != nil {
			return err
		}
	}
	for id := range rows {
		r.problem("job %d is in the store and was never acknowledged", id)
	}
	return nil
}

func (r *Report) count(s sojourn.State) {
	switch s {
	case sojourn.Completed:
		r.Completed++
	case sojourn.Failed:
		r.Failed++
	case sojourn.Cancelled:
		r.Cancelled++
	default:
		r.Live++
	}
}

// auditHistory wants one end in the history of a final job's generation, and none in that of a live
// one.
func auditHistory(ctx context.Context, c *sojourn.Client, j sojourn.Job, r *Report) error {
	history, err := c.Jobs().History(ctx, j.ID)
	if err != nil {
		return err
	}
	ends := 0
	for _, a := range history {
		if a.Generation == j.Generation && a.State.Final() && a.Outcome != "edited" {
			ends++
		}
	}
	if want := map[bool]int{true: 1}[j.State.Final()]; ends != want {
		r.lost("job %d is %s and its history has %d ends", j.ID, j.State, ends)
	}
	return nil
}

// auditInbox wants each acknowledged message in the inbox once, with an outcome.
func auditInbox(ctx context.Context, c *sojourn.Client, l *ledger, r *Report) error {
	seen := map[answer]int{}
	messages := l.messages()
	of := map[string]bool{ofGateway: true}
	for _, m := range messages {
		of[m.source] = true
	}
	for name := range of {
		if err := readInbox(ctx, c, name, seen, r); err != nil {
			return err
		}
	}
	for _, m := range messages {
		if seen[m] != 1 {
			r.lost("answer %s is acknowledged and stands %d times in the inbox", m.id, seen[m])
		}
	}
	return nil
}

// readInbox counts the messages of one source in the inbox.
func readInbox(ctx context.Context, c *sojourn.Client, name string, seen map[answer]int, r *Report) error {
	f := sojourn.InboxFilter{Source: name, Limit: sojourn.MaxFind}
	for {
		page, err := c.Store().Inbox(ctx, f)
		if err != nil {
			return err
		}
		for _, m := range page {
			f.After = strconv.FormatInt(m.Seq, 10)
			if m.Outcome == "" {
				r.lost("answer %s has no outcome", m.MessageID)
				continue
			}
			seen[answer{name, m.MessageID}]++
			if m.Outcome == sojourn.Unmatched {
				r.Responses.Unmatched++
			}
		}
		if len(page) < f.Limit {
			return nil
		}
	}
}

// auditTime bounds the audit.
const auditTime = 5 * time.Minute
