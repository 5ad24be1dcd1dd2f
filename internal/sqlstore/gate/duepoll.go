package gate

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qDuePolls = `select id, r1, poll_at_us, lane from sj_live where queue = $1 and kind = $2 and poll_at_us > 0 and poll_at_us <= $3
		order by poll_at_us, id limit $4 /*lock*/`
	qNextPoll = `select poll_at_us from sj_live where queue = $1 and kind = $2 and poll_at_us > 0 and poll_at_us > $3 order by poll_at_us limit 1`
)

// DuePolls lists, and locks, the due poll steps of a queue that a claim may take, the oldest first.
// Each uses 1 of the worker's capacity, regardless of its job's weight.
func DuePolls(t *txn.Tx, queue string, r driver.ClaimRequest) (due []Candidate, err error) {
	for _, kind := range r.Pollable {
		if !slices.Contains(r.Kinds, kind) {
			continue
		}
		err := t.Read(qDuePolls, func(row sqldb.Row) error {
			due = append(due, Candidate{jobrow.Candidate{ID: row.Int(0), R1: rules.ResumedRank, R2: row.Int(2), Weight: 1}, kind, row.Text(3), sojourn.PurposePoll})
			return nil
		}, queue, kind, t.Now, r.Max)
		if err != nil {
			return nil, err
		}
	}
	return due, nil
}

// MayPoll reports whether a claim may start a poll step of a waiting job: its row may have changed
// since DuePolls has read it.
func MayPoll(t *txn.Tx, l *jobrow.Row, r driver.ClaimRequest) bool {
	return l.PollAt > 0 && l.PollAt <= t.Now && slices.Contains(r.Pollable, l.Kind)
}

// NextPoll returns when the next poll step is due that the claim may take; 0 if there is none. Due
// steps that were not taken are held back by a gate or by lack of room.
func NextPoll(t *txn.Tx, r driver.ClaimRequest) (next int64, err error) {
	for _, queue := range r.Queues {
		for _, kind := range r.Pollable {
			us, err := t.ReadInt(qNextPoll, queue, kind, t.Now)
			if err != nil {
				return 0, err
			}
			if us > 0 && (next == 0 || us < next) {
				next = us
			}
		}
	}
	return next, nil
}
