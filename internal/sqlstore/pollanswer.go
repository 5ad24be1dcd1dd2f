package sqlstore

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

const qPollMessage = `insert into sj_message (scope, message_id, seq, at_us, digest) values ($1, $2, $3, $4, $5) on conflict (scope, message_id) do nothing`

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
