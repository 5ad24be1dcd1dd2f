package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

const qNextPoll = `select poll_at_us from sj_live where queue = $1 and kind = $2 and poll_at_us > 0 and poll_at_us > $3 order by poll_at_us limit 1`

const qPickPoll = `select id, r1, poll_at_us, lane from sj_live where queue = $1 and kind = $2 and poll_at_us > 0 and poll_at_us <= $3
		order by poll_at_us, id limit $4 /*lock*/`

// duePolls lists the due poll steps of a queue, the oldest first. Each uses 1 of the worker's
// capacity, regardless of its job's weight.
func (t *tx) duePolls(queue string, r driver.ClaimRequest) (due []gateCandidate, err error) {
	for _, kind := range r.Pollable {
		if !slices.Contains(r.Kinds, kind) {
			continue
		}
		err := t.query(qPickPoll, func(row sqldb.Row) error {
			due = append(due, gateCandidate{candidate{row.Int(0), rules.ResumedRank, row.Int(2), 1}, kind, row.Text(3), sojourn.PurposePoll})
			return nil
		}, queue, kind, t.now, r.Max)
		if err != nil {
			return nil, err
		}
	}
	return due, nil
}

// mayPoll reports whether a waiting job may be polled by this claim.
func (t *tx) mayPoll(l *live, r driver.ClaimRequest) bool {
	return l.pollAt > 0 && l.pollAt <= t.now && slices.Contains(r.Pollable, l.kind)
}

// nextPoll returns when the next poll step is due that the claim may take; 0 if there is none. Due
// steps that were not taken are held back by a gate or by lack of room.
func (t *tx) nextPoll(r driver.ClaimRequest) (next int64, err error) {
	for _, queue := range r.Queues {
		for _, kind := range r.Pollable {
			us, err := t.num(qNextPoll, queue, kind, t.now)
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
