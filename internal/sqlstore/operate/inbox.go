package operate

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/respond"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const qResponse = `select ` + txn.ResponseColumns + ` from sj_response where seq = $1`

// EditInbox matches, retries or discards one response; see sojourn.Store.
func (s *Operator) EditInbox(ctx context.Context, seq int64, action string, to sojourn.Response) (sojourn.Responded, error) {
	e := rules.InboxEdit{Seq: seq, Action: action, Job: to.Job, Kind: to.Kind, Key: to.Key, By: to.By}
	if err := e.Validate(); err != nil {
		return sojourn.Responded{}, err
	}
	e.By = sojourn.Cut(e.By, sojourn.MaxName)
	return txn.Do(ctx, s.core, inboxOp, 1, e)
}

var inboxOp = txn.EachOp("inbox", groupcommit.Finish, func(t *txn.Tx, e rules.InboxEdit) (sojourn.Responded, error) {
	old, err := response(t, e.Seq)
	if err != nil {
		return sojourn.Responded{}, err
	}
	if e.Action == sojourn.InboxDiscard {
		return discard(t, old, e.By)
	}
	return replay(t, old, e)
})

// response reads one response.
func response(t *txn.Tx, seq int64) (*sojourn.Response, error) {
	var found *sojourn.Response
	err := t.Read(qResponse, func(r sqldb.Row) error { resp := txn.ScanResponse(r); found = &resp; return nil }, seq)
	if err == nil && found == nil {
		err = sojourn.NotFound("no response has the number %d", seq)
	}
	return found, err
}

// qReplayed checks that no job has the old response. It is the last write, so that rows are locked
// in the order of every other response; if the condition fails, the new response is rolled back
// with it. An early response becomes unmatched, else a job would get it a second time.
const qReplayed = `update sj_response set replay = $1, by_whom = $2, outcome = case when outcome = 2 then 6 else outcome end,
	expires_us = case when outcome = 2 then $3 else expires_us end where seq = $4 and (outcome > 2 or outcome = 2 and job = 0)`

// replay stores a response again, addressed to the job or key that a person has chosen.
func replay(t *txn.Tx, old *sojourn.Response, e rules.InboxEdit) (sojourn.Responded, error) {
	r, err := replayOf(old, e)
	if err != nil {
		return sojourn.Responded{}, err
	}
	answer, err := respond.Single(t, r)
	if err != nil {
		return answer, err
	}
	n, err := t.Write(qReplayed, answer.Seq, e.By, t.Now+sojourn.DefaultInboxKeep.Microseconds(), old.Seq)
	if err == nil && n == 0 {
		err = belongs(old)
	}
	return answer, err
}

// replayOf returns the new response. Its message id names the repeated response and the addressee,
// so that a repeated call makes only one.
func replayOf(old *sojourn.Response, e rules.InboxEdit) (sojourn.Response, error) {
	switch {
	case old.Outcome == sojourn.Applied, old.Outcome == sojourn.Early && old.Job > 0:
		return sojourn.Response{}, belongs(old)
	case old.Outcome == sojourn.Early && e.Action == sojourn.InboxRetry:
		return sojourn.Response{}, sojourn.Conflict("response %d is early: a job that awaits its key gets it by itself", old.Seq)
	}
	r := sojourn.Response{Source: old.Source, MessageID: fmt.Sprintf("replay:%d", old.Seq), Body: old.Body, ContentType: old.ContentType, Progress: old.Progress,
		Failed: old.Failed, Reason: old.Reason, Error: old.Error}
	switch {
	case e.Action == sojourn.InboxMatch && e.Job > 0:
		r.Job = e.Job
		r.MessageID += fmt.Sprintf(":%d", e.Job)
	case e.Action == sojourn.InboxMatch:
		r.Kind, r.Key = e.Kind, e.Key
		r.MessageID += fmt.Sprintf(":%x", sha256.Sum256([]byte(e.Kind+"\x00"+e.Key)))
	case old.Key != "":
		r.Kind, r.Key = old.Kind, old.Key
	case old.Job > 0:
		r.Job = old.Job
	default:
		return r, sojourn.Conflict("response %d has no address to try again: match it with a job", old.Seq)
	}
	if old.Outcome == sojourn.Parked || old.Outcome == sojourn.Conflicting && !old.Failed {
		r.Reason, r.Error = "", "" // they describe the old response's place in the inbox
	}
	return r, nil
}

// qDiscard checks the row as it was read. An attached response is deleted when its job is pruned.
const qDiscard = `update sj_response set outcome = 8, by_whom = $1, expires_us = case when job = 0 then $2 else expires_us end
	where seq = $3 and job = $4 and (outcome > 2 or outcome = 2)`

// discard discards a response, also one that is attached to a job.
func discard(t *txn.Tx, old *sojourn.Response, by string) (sojourn.Responded, error) {
	answer := sojourn.Responded{Outcome: sojourn.Discarded, Job: old.Job, Seq: old.Seq}
	if old.Outcome == sojourn.Discarded {
		return answer, nil
	}
	var holder *jobrow.Row
	if old.Outcome == sojourn.Early && old.Job > 0 { // locks the job; then the response cannot be taken
		var err error
		if holder, err = t.LoadOne(old.Job); err != nil {
			return answer, err
		}
		now, err := response(t, old.Seq)
		if err != nil {
			return answer, err
		}
		if old = now; old.Outcome != sojourn.Early {
			holder = nil
		}
	}
	if old.Outcome == sojourn.Applied {
		return answer, belongs(old)
	}
	n, err := t.Write(qDiscard, by, t.Now+sojourn.DefaultInboxKeep.Microseconds(), old.Seq, int64(old.Job))
	if err == nil && n == 0 {
		err = sojourn.Conflict("response %d has just changed; look again", old.Seq)
	}
	if err != nil || holder == nil {
		return answer, err
	}
	now := *holder
	now.Kept--
	if err := t.Save(holder, &now); err != nil {
		return answer, err
	}
	_, err = lifecycle.Match(t, &now) // the next response of the key counts now, and may be an error that ends the wait
	return answer, err
}

// belongs refuses a response that a job has taken, or will take without help.
func belongs(r *sojourn.Response) error {
	if r.Outcome == sojourn.Applied {
		return sojourn.Conflict("job %d has taken response %d", r.Job, r.Seq)
	}
	return sojourn.Conflict("job %d keeps response %d until it waits for it; discard it first if another job is meant", r.Job, r.Seq)
}
