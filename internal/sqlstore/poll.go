package sqlstore

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// Waiting jobs with a poll interval have an index of their own, by the time of the next poll step.
// A claim that names their kind as pollable takes the due polls before it reads jobs that have not
// begun; the limit and the windows do not matter, because the job holds its weight already.

// poll is the next poll step of a job.
type poll struct {
	place
	at int64
}

const qNextPoll = `select poll_at_us from sj_live where queue = $1 and kind = $2 and poll_at_us > 0 and poll_at_us > $3 order by poll_at_us limit 1`

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

// mayPoll reports whether a waiting job may be polled by this claim.
func (t *tx) mayPoll(l *live, r driver.ClaimRequest) bool {
	return l.pollAt > 0 && l.pollAt <= t.now && slices.Contains(r.Pollable, l.kind)
}

// answeredBefore reports whether a response that came while the poll step ran ends the wait: then
// the poll's own answer is late.
func (t *tx) answeredBefore(l *live) (bool, error) {
	if l.Kept == 0 || l.Purpose != sojourn.PurposePoll {
		return false, nil
	}
	kept, err := t.keptOf(l.ID)
	if err != nil {
		return false, err
	}
	waits := l.Row
	waits.State, waits.Purpose = sojourn.Awaiting, sojourn.NoPurpose
	return rules.Match(waits, l.key, kept).Found(), nil
}

const qPollMessage = `insert into sj_message (scope, message_id, seq, at_us, digest) values ($1, $2, $3, $4, $5) on conflict (scope, message_id) do nothing`

// keepAnswer records the answer of a poll step, as a taken or a late response. The effects of its
// end on other responses are written before.
func (t *tx) keepAnswer(was *live, o *sojourn.Outcome, late bool) error {
	seq, err := t.num(qNextResponses, 1)
	if err != nil {
		return err
	}
	r := sojourn.Response{Source: sojourn.SourcePoll, MessageID: fmt.Sprintf("%d.%d", was.ID, was.epoch), Body: o.Result,
		ContentType: o.ResultType}
	if _, err := t.exec(qPollMessage, r.Source, r.MessageID, seq, t.now, []byte{}); err != nil {
		return err
	}
	s := t.received(&r, seq, outApplied, was, was.ID)
	if s.inHand, s.named = !late, true; late {
		s.outcome = outLate
	}
	t.inbox.add(s)
	return nil
}
