package lifecycle

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// AnsweredBefore reports whether a response that came while a poll step ran already ends the wait.
// Then the poll's own answer is late.
func AnsweredBefore(t *txn.Tx, l *jobrow.Row) (bool, error) {
	if l.Kept == 0 || l.Purpose != sojourn.PurposePoll {
		return false, nil
	}
	attached, err := Attached(t, l.ID)
	if err != nil {
		return false, err
	}
	waits := l.Row
	waits.State, waits.Purpose = sojourn.Awaiting, sojourn.NoPurpose
	return rules.Match(waits, l.Key, attached).Found(), nil
}

const qPollMessage = `insert into sj_message (scope, message_id, seq, at_us, digest) values ($1, $2, $3, $4, $5) on conflict (scope, message_id) do nothing`

// StorePollAnswer adds the answer of a poll step to the inbox, as a taken or a late response. Its
// message id is the job and the epoch, so it is stored once. It runs after Apply, whose changes to
// other responses come first.
func StorePollAnswer(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, late bool) error {
	seq, err := t.ReadInt(txn.QNextResponses, 1)
	if err != nil {
		return err
	}
	r := sojourn.Response{Source: sojourn.SourcePoll, MessageID: fmt.Sprintf("%d.%d", was.ID, was.Epoch), Body: o.Result,
		ContentType: o.ResultType}
	if _, err := t.Write(qPollMessage, r.Source, r.MessageID, seq, t.Now, []byte{}); err != nil {
		return err
	}
	s := t.NewPendingResponse(&r, seq, txn.OutcomeApplied, was, was.ID)
	if s.Taken, s.Named = !late, true; late {
		s.Outcome = txn.OutcomeLate
	}
	t.Responses.Add(s)
	return nil
}
